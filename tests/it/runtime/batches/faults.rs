//! Faults in the middle of a batch: a member that fails has done nothing, or has its record and its charge; the others are done.

use budget_authority::store::{Keys, Store, StoreMetrics};
use budget_authority::tools::verify::{Difference, verify};
use redis::{Cmd, RedisResult, Value};

use super::captured::Copy;
use super::fixture::BatchFixture;
use super::together::Batch;
use crate::harness::patient;

/// The store of the copy.
fn store_of_copy(prepared: &BatchFixture) -> Store {
    let options = patient(&format!("{}/1", prepared.server.url()));
    let metrics = StoreMetrics::register(&prometheus::Registry::new());
    let keys = Keys::new(prepared.fixture.store.keys().prefix()).expect("a prefix");
    Store::new(&options, keys, "service", metrics.expect("its own")).expect("a URL")
}

/// The replies to the members, as words.
fn replies(reply: RedisResult<Value>) -> Vec<Vec<String>> {
    let Ok(Value::Array(replies)) = reply else {
        panic!("the batch failed: {reply:?}");
    };
    replies.into_iter().map(words).collect()
}

fn words(reply: Value) -> Vec<String> {
    let Value::Array(words) = reply else {
        return vec![format!("{reply:?}")];
    };
    let word = |word| redis::from_redis_value(word).unwrap_or_default();
    words.into_iter().map(word).collect()
}

/// Words of members that have written their record.
const DONE: [&str; 7] = [
    "reserved",
    "applied",
    "allow",
    "deny",
    "committed",
    "released",
    "extended",
];

/// Operations that move no ledger: a fault after their record was written is the error that it is alone.
const MOVES_NOTHING: [&str; 2] = ["decide", "extend"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_of_any_command_of_a_create_is_of_one_member() {
    each_command(Batch::Create).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_of_any_command_of_a_change_is_of_one_member() {
    each_command(Batch::Change).await;
}

/// Lets each command of the members fail in turn.
async fn each_command(batch: Batch) {
    let prepared = BatchFixture::of(batch).await;
    let (mut copy, store) = (Copy::of(&prepared.server), store_of_copy(&prepared));
    let (mut faults, mut unknowns, mut none) = (0, 0, 0);
    for number in 1.. {
        copy.renew(&[]);
        let before = copy.digests();
        let call =
            prepared
                .captured
                .call_with(&failing(prepared.captured.source(), number, "injected"));
        let replies = replies(copy.run(&call));
        let after = copy.digests();
        let failed: Option<String> = copy.run(&get("failed")).map_or(None, |found| {
            redis::from_redis_value(found).expect("a text")
        });
        let Some(failed) = failed else {
            let is_done =
                |it: &Vec<String>| !["fault", "unknown", "again"].contains(&it[0].as_str());
            assert!(replies.iter().all(is_done), "without a fault: {replies:?}");
            break;
        };
        let context = format!("command {number}, {failed}: {replies:?}");
        let mut victims = 0;
        for (member, reply) in prepared.captured.members.iter().zip(&replies) {
            let record = member.record();
            let is_written = before.get(record) != after.get(record);
            let says = reply[0].as_str();
            match says {
                "fault" => {
                    victims += 1;
                    faults += 1;
                    let moves_nothing = MOVES_NOTHING.contains(&member.operation.as_str());
                    assert!(!is_written || moves_nothing, "{context}");
                }
                "unknown" => {
                    victims += 1;
                    unknowns += 1;
                    assert!(is_written, "{context}");
                }
                _ => assert_eq!(is_written, DONE.contains(&says), "{says}, {context}"),
            }
            if ["fault", "unknown"].contains(&says) {
                assert!(reply[1].starts_with("ERR injected"), "{context}");
            }
        }
        none += usize::from(victims == 0);
        // What a script tries and does without is no fault. The record of a tenant is read once for all its members.
        let expected = match failed.strip_prefix("tried ") {
            Some(tried) if tried.contains(":tenant:") => 1..=prepared.captured.members.len(),
            Some(_) => 0..=0,
            None => 1..=1,
        };
        assert!(expected.contains(&victims), "{context}");
        let report = verify(&store, None, |_| {}).await.expect("Redis answers");
        // Indexes are written before the record or after the charge, in a batch as alone; and usage after the charge.
        let is_of_index = |it: &Difference| {
            it.what.starts_with("due")
                || it.what == "usage"
                || it.detail.contains("index of ledgers over limit")
        };
        let is_right = report.differences.iter().all(is_of_index) && report.unverified.is_empty();
        assert!(is_right, "{context}\n{}", report.table(true));
    }
    println!("{faults} faults, {unknowns} unknown, {none} tried in vain");
    let least = match batch {
        Batch::Create => (40, 8),
        Batch::Change => (30, 8),
    };
    assert!(
        faults >= least.0 && unknowns >= least.1,
        "{faults} {unknowns}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_whose_slot_moves_and_those_behind_it_go_again() {
    const MOVED: &str = "Script attempted to access a non local key in a cluster node";
    let prepared = BatchFixture::of(Batch::Create).await;
    let mut copy = Copy::of(&prepared.server);
    let mut moved = 0;
    for number in 1.. {
        copy.renew(&[]);
        let before = copy.digests();
        let failing = failing(prepared.captured.source(), number, MOVED);
        let replies = replies(copy.run(&prepared.captured.call_with(&failing)));
        let after = copy.digests();
        if copy.run(&get("failed")).is_ok_and(|it| it == Value::Nil) {
            break;
        }
        let is_again = |reply: &Vec<String>| reply[0] == "again";
        // Behind the record of a member it cannot happen, and is a fault.
        let Some(first) = replies.iter().position(is_again) else {
            continue;
        };
        moved += 1;
        for (at, member) in prepared.captured.members.iter().enumerate() {
            let (record, says) = (member.record(), replies[at][0].as_str());
            let is_written = before.get(record) != after.get(record);
            let is_done = at < first && DONE.contains(&says);
            assert_eq!(
                says == "again",
                at >= first,
                "command {number}: {replies:?}"
            );
            let moves_nothing = MOVES_NOTHING.contains(&member.operation.as_str());
            let is_right = is_written == is_done || moves_nothing;
            assert!(is_right, "command {number}: {replies:?}");
        }
    }
    assert!(moved > 30, "{moved}");
}

fn get(key: &str) -> Cmd {
    let mut get = redis::cmd("GET");
    get.arg(key);
    get
}

/// The text of a script whose members' command of this number fails with this error.
fn failing(source: &str, number: usize, error: &str) -> String {
    let (flags, body) = source.split_once('\n').expect("a line of flags");
    format!("{flags}\nlocal failing, message = {number}, 'ERR {error}'\n{FAILING}{body}")
}

/// Replaces `redis`. The clock is read before the members, and ledgers are written after them.
const FAILING: &str = "
local real, commands = redis, 0
local function fails(how, command, key)
  if command == 'TIME' or (command == 'HSET' and key:find(':budget:', 1, true)) then return false end
  commands = commands + 1
  if commands ~= failing then return false end
  real.call('SET', 'failed', how .. command .. ' ' .. key)
  return true
end
local redis = setmetatable({
  call = function(...)
    if fails('', ...) then error({err = message}) end
    return real.call(...)
  end,
  pcall = function(...)
    if fails('tried ', ...) then return {err = message} end
    return real.pcall(...)
  end,
}, {__index = real})
";
