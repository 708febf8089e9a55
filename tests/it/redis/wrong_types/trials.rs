//! A proxy before Redis. It tries each call of a script on a copy of the data, with one key after the other of a wrong
//! type, and as in a moving slot, and then passes it on.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use budget_authority::store::keys::Key;
use budget_authority::store::signature::Signature;
use redis::{Cmd, Connection, RedisResult, Value};

use super::moving_slot::{in_moving_slot, judge};
use crate::harness::redis::RedisServer;
use crate::harness::resp_server::request;
use crate::harness::signatures::SIGNATURES;
use crate::runtime::batches::captured::calls_alone;

/// Names of a script and of a key that it declares.
pub type Pair = (&'static str, &'static str);

/// Calls that may succeed with a wrong type of a key before the key is not tried any more.
const TRIES: usize = 40;

/// What names the damage: the error of Redis, that of a check of a type, and the words of refusals.
const NAMES: [&str; 4] = [
    "WRONGTYPE",
    "where an index should be",
    "tenant_unreadable",
    "corrupt",
];

/// Outcomes of the trials of a pair.
#[derive(Debug, Default)]
pub struct Outcomes {
    /// Calls that raised the error and wrote nothing.
    pub raised: usize,
    /// Calls that succeeded.
    pub succeeded: usize,
    /// Calls that failed in another way, or after writing.
    pub wrong: BTreeSet<String>,
}

/// Trials of a script in a moving slot.
#[derive(Debug, Default)]
pub struct MovingOutcomes {
    tries: usize,
    /// What was wrong with them.
    pub wrong: BTreeSet<String>,
}

/// See the module documentation.
pub struct Trials {
    port: u16,
    state: Arc<Mutex<State>>,
}

struct State {
    redis: Connection,
    scripts: HashMap<Vec<u8>, &'static Signature>,
    outcomes: BTreeMap<Pair, Outcomes>,
    moving: BTreeMap<&'static str, MovingOutcomes>,
}

impl Trials {
    /// A proxy to this server.
    pub fn before(server: &RedisServer) -> Self {
        let client = redis::Client::open(server.url()).expect("a URL");
        let mut redis = client.get_connection().expect("it runs");
        let mut scripts = HashMap::new();
        for signature in SIGNATURES {
            let mut load = redis::cmd("SCRIPT");
            load.arg("LOAD").arg(signature.script.source());
            let digest: String = load.query(&mut redis).expect("it loads");
            scripts.insert(digest.into_bytes(), *signature);
        }
        let state = Arc::new(Mutex::new(State {
            redis,
            scripts,
            outcomes: BTreeMap::new(),
            moving: BTreeMap::new(),
        }));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let trials = Self {
            port: listener.local_addr().expect("an address").port(),
            state: Arc::clone(&state),
        };
        let port = server.port;
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let state = Arc::clone(&state);
                std::thread::spawn(move || pass(client, port, &state));
            }
        });
        trials
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Whether a script has been called.
    pub fn has_seen(&self, script: &str) -> bool {
        let state = self.state.lock().expect("no panic");
        state.outcomes.keys().any(|(seen, _)| *seen == script)
    }

    /// The outcomes so far.
    pub fn outcomes(&self) -> BTreeMap<Pair, Outcomes> {
        let mut state = self.state.lock().expect("no panic");
        std::mem::take(&mut state.outcomes)
    }

    /// The outcomes in a moving slot so far.
    pub fn moving_outcomes(&self) -> BTreeMap<&'static str, MovingOutcomes> {
        let mut state = self.state.lock().expect("no panic");
        std::mem::take(&mut state.moving)
    }
}

/// Tries and passes on the requests of a client.
fn pass(client: TcpStream, port: u16, state: &Mutex<State>) -> Option<()> {
    let mut server = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let (mut replies, mut back) = (server.try_clone().ok()?, client.try_clone().ok()?);
    std::thread::spawn(move || std::io::copy(&mut replies, &mut back));
    let mut requests = BufReader::new(client);
    while let Some(words) = request(&mut requests) {
        if words[0] == b"EVALSHA" {
            for call in calls_alone(&words) {
                state.lock().expect("no panic").try_call(&call);
            }
        }
        let command = command(&words).get_packed_command();
        server.write_all(&command).ok()?;
    }
    None
}

fn command(words: &[Vec<u8>]) -> Cmd {
    let mut command = Cmd::new();
    command.arg(words);
    command
}

impl State {
    /// Tries a call; `None` where it is no script of the service, or the server has ended.
    fn try_call(&mut self, words: &[Vec<u8>]) -> Option<()> {
        let signature = *self.scripts.get(&words[1])?;
        let text = |word: &Vec<u8>| String::from_utf8(word.clone()).expect("a text");
        let count: usize = text(&words[2]).parse().expect("a number");
        let mut keys: Vec<String> = words[3..3 + count].iter().map(text).collect();
        // A script touches keys of one slot.
        let beside = match keys[0].find('}') {
            Some(end) => format!("{}*", &keys[0][..=end]),
            None => keys[0].clone(),
        };
        self.try_in_moving_slot(signature, &beside, words)?;
        if !signature.builds.is_empty() {
            let mut stored = redis::cmd("KEYS");
            let stored: Vec<_> = stored.arg(&beside).query(&mut self.redis).ok()?;
            keys.extend(stored);
        }
        for name in &keys {
            let Some(key) = declared(signature, name) else {
                continue;
            };
            let pair = (signature.script.name(), key.name);
            let tried = self.outcomes.entry(pair).or_default();
            if tried.raised > 0 || !tried.wrong.is_empty() || tried.succeeded == TRIES {
                continue;
            }
            let (reply, written) = self.trial(&beside, (name, key.kind), &command(words))?;
            let says = match reply {
                Ok(Value::Array(words)) => match words.first() {
                    Some(Value::BulkString(word)) => String::from_utf8(word.clone()).ok(),
                    _ => None,
                }
                .filter(|word| NAMES.contains(&word.as_str())),
                Ok(_) => None,
                Err(error) => Some(error.to_string()),
            };
            let tried = self.outcomes.entry(pair).or_default();
            match says {
                None => tried.succeeded += 1,
                Some(says) if written.is_empty() && NAMES.iter().any(|it| says.contains(it)) => {
                    tried.raised += 1;
                }
                Some(says) => {
                    tried
                        .wrong
                        .insert(format!("{name}: {says}, written: {written:?}"));
                }
            }
        }
        Some(())
    }

    /// Tries a call as in a moving slot, first with and then without the keys that the script builds.
    fn try_in_moving_slot(
        &mut self,
        signature: &Signature,
        beside: &str,
        words: &[Vec<u8>],
    ) -> Option<()> {
        let script = &signature.script;
        let outcomes = self.moving.entry(script.name()).or_default();
        outcomes.tries += 1;
        if outcomes.tries > TRIES {
            return Some(());
        }
        for have_built_keys_moved in [false, true] {
            let mut eval = redis::cmd("EVAL");
            eval.arg(in_moving_slot(script.source(), have_built_keys_moved));
            eval.arg(&words[2..]);
            let (reply, written) = self.trial(beside, ("", ""), &eval)?;
            let wrong = judge(&reply, &written);
            self.moving
                .entry(script.name())
                .or_default()
                .wrong
                .extend(wrong);
        }
        Some(())
    }

    /// Makes a call on the copy, while a key has another type than this one: its reply, and the keys that it has changed.
    fn trial(
        &mut self,
        beside: &str,
        (key, kind): (&str, &str),
        call: &Cmd,
    ) -> Option<(RedisResult<Value>, Vec<String>)> {
        let mut pipe = redis::pipe();
        pipe.atomic().ignore_errors();
        pipe.cmd("EVAL").arg(COPY).arg(0);
        pipe.arg(beside).arg(key).arg(kind);
        pipe.cmd("SELECT").arg(1);
        pipe.cmd("EVAL").arg(DIGESTS).arg(0);
        pipe.add_command(call.clone());
        pipe.cmd("EVAL").arg(DIGESTS).arg(0);
        pipe.cmd("SELECT").arg(0);
        let mut replies: Vec<RedisResult<Value>> = pipe.query(&mut self.redis).ok()?;
        let digests = |at: usize| -> BTreeSet<String> {
            let reply = replies[at].clone().expect("digests");
            redis::from_redis_value(reply).expect("texts")
        };
        let written = digests(2)
            .symmetric_difference(&digests(4))
            .cloned()
            .collect();
        Some((replies.swap_remove(3), written))
    }
}

/// The declared key of a script that has this name.
fn declared(signature: &Signature, name: &str) -> Option<&'static Key> {
    let (_, text) = name.split_once(':').expect("a prefix");
    let list = signature
        .list
        .iter()
        .flat_map(|list| list.keys.iter().copied());
    let built = signature.builds.iter().map(|(_, key)| *key);
    let named = signature.keys.iter().map(|usage| usage.key);
    let keys = named.chain(list).chain(built);
    let literal = |key: &&Key| key.pieces.iter().map(|(text, _)| text.len()).sum::<usize>();
    keys.filter(|key| matches(key, text)).max_by_key(literal)
}

/// Every pair that is declared.
pub fn pairs() -> BTreeSet<Pair> {
    let keys = |signature: &&'static Signature| {
        let script = signature.script.name();
        let every = Key::all().filter(|key| {
            let is = |other: &Key| other.name == key.name && other.place == key.place;
            signature.keys.iter().any(|usage| is(usage.key))
                || signature.builds.iter().any(|(_, built)| is(built))
                || signature
                    .list
                    .iter()
                    .any(|list| list.keys.iter().any(|listed| is(listed)))
        });
        every.map(move |key| (script, key.name)).collect::<Vec<_>>()
    };
    SIGNATURES
        .iter()
        .filter(|signature| !signature.file.contains("/dispatcher/"))
        .flat_map(keys)
        .collect()
}

/// Whether a text is a name of this key.
fn matches(key: &Key, text: &str) -> bool {
    let rest = match key.place {
        "{<p>}:" => text
            .get(1..4)
            .and_then(|_| text.get(4..)?.strip_prefix("}:")),
        place => text.strip_prefix(place),
    };
    let Some(mut rest) = rest else { return false };
    let mut pieces = key.pieces.iter().peekable();
    while let Some((literal, part)) = pieces.next() {
        let Some(behind) = rest.strip_prefix(literal) else {
            return false;
        };
        let end = match (part, pieces.peek()) {
            (None, _) => 0,
            (Some(_), None) => behind.len(),
            (Some(_), Some((next, _))) => match behind.find(next) {
                Some(end) => end,
                None => return false,
            },
        };
        let is_date = matches!(part, Some("day" | "minute"));
        if is_date && !behind[..end].bytes().all(|byte| byte.is_ascii_digit()) {
            return false;
        }
        rest = &behind[end..];
    }
    rest.is_empty()
}

/// Copies the deployment to the second database, where a key, if one is named, gets a type that is not its own.
const COPY: &str = "
local beside, key, kind = unpack(ARGV)
redis.call('SELECT', 1)
redis.call('FLUSHDB')
redis.call('SELECT', 0)
for _, name in ipairs(redis.call('KEYS', beside)) do
  redis.call('COPY', name, name, 'DB', 1)
end
redis.call('SELECT', 1)
-- The first change of a day writes more than the others.
for _, name in ipairs(redis.call('KEYS', '*}:tenant:*')) do
  redis.call('HDEL', name, 'day')
end
if key == '' then return end
redis.call('DEL', key)
redis.call(kind == 'list' and 'SADD' or 'RPUSH', key, 'x')
";

/// Each key of the database with a hash of its value and when it lapses.
const DIGESTS: &str = "
local digests = redis.call('KEYS', '*')
for i, name in ipairs(digests) do
  digests[i] = name .. ' ' .. redis.sha1hex(redis.call('DUMP', name) .. redis.call('PEXPIRETIME', name))
end
return digests
";
