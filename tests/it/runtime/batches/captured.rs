//! The call of a batch, kept instead of sent, and what it does to a copy of the data: alone, and as its members one after the other.

use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use budget_authority::store::Script;
use budget_authority::store::runtime::batch;
use redis::{Cmd, Connection, RedisResult, Value};

use crate::harness::redis::RedisServer;
use crate::harness::resp_server::request;
use crate::harness::signatures::SIGNATURES;

/// A proxy before Redis that keeps calls of batches.
pub struct Captures {
    port: u16,
    kept: Arc<Mutex<Vec<Vec<Vec<u8>>>>>,
}

impl Captures {
    pub fn before(server: &RedisServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let captures = Self {
            port: listener.local_addr().expect("an address").port(),
            kept: Arc::default(),
        };
        let (kept, port) = (Arc::clone(&captures.kept), server.port);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || pass(client, port, &kept));
            }
        });
        captures
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The only call that was kept.
    pub fn one(&self) -> Captured {
        let kept = std::mem::take(&mut *self.kept.lock().expect("no panic"));
        assert_eq!(kept.len(), 1, "calls of batches");
        Captured::new(&kept[0])
    }
}

/// Passes on the requests of a client. In the place of a batch, which gets an error, goes a command that does nothing.
fn pass(client: TcpStream, port: u16, kept: &Mutex<Vec<Vec<Vec<u8>>>>) -> Option<()> {
    let mut server = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let (mut replies, mut back) = (server.try_clone().ok()?, client.try_clone().ok()?);
    std::thread::spawn(move || std::io::copy(&mut replies, &mut back));
    let mut requests = BufReader::new(client);
    while let Some(words) = request(&mut requests) {
        let mut command = Cmd::new();
        if words[0] == b"EVALSHA" && batch_of(&words[1]).is_some() {
            command
                .arg("EVAL")
                .arg("return redis.error_reply('ERR kept')");
            command.arg(0);
            kept.lock().expect("no panic").push(words);
        } else {
            command.arg(words);
        }
        server.write_all(&command.get_packed_command()).ok()?;
    }
    None
}

fn batch_of(sha: &[u8]) -> Option<&'static Script> {
    let mut batches = [&batch::CREATE, &batch::CHANGE].into_iter();
    batches.find(|script| script.sha().as_bytes() == sha)
}

/// The words of a call; for the call of a batch those of its members' calls, alone.
pub(crate) fn calls_alone(words: &[Vec<u8>]) -> Vec<Vec<Vec<u8>>> {
    match batch_of(&words[1]) {
        Some(_) => {
            let members = Captured::new(words).members;
            members.iter().map(CapturedMember::words).collect()
        }
        None => vec![words.to_vec()],
    }
}

/// A member of a batch.
#[derive(Debug, Clone)]
pub struct CapturedMember {
    pub operation: String,
    pub keys: Vec<String>,
    arguments: Vec<Vec<u8>>,
}

impl CapturedMember {
    /// The record that it writes.
    pub fn record(&self) -> &str {
        let place = match self.operation.as_str() {
            "usage_event" => 3,
            "decide" => 10,
            _ => 2,
        };
        &self.keys[place]
    }

    /// Its call alone.
    fn call(&self) -> Cmd {
        eval(self.script().source(), &self.keys, &self.arguments)
    }

    /// The words of the same, to a server that knows the script.
    fn words(&self) -> Vec<Vec<u8>> {
        let count = self.keys.len().to_string();
        let head = ["EVALSHA", self.script().sha(), &count];
        let keys = self.keys.iter().map(String::as_str);
        let words = head.into_iter().chain(keys);
        let words = words.map(|word| word.as_bytes().to_vec());
        words.chain(self.arguments.iter().cloned()).collect()
    }

    fn script(&self) -> &'static Script {
        let mut scripts = SIGNATURES.iter().map(|signature| &signature.script);
        let script = scripts.find(|script| script.name() == self.operation);
        script.expect("a script")
    }
}

fn eval(source: &str, keys: &[String], arguments: &[Vec<u8>]) -> Cmd {
    let mut eval = redis::cmd("EVAL");
    eval.arg(source).arg(keys.len()).arg(keys).arg(arguments);
    eval
}

/// See the module documentation.
#[derive(Debug)]
pub struct Captured {
    script: &'static Script,
    pub members: Vec<CapturedMember>,
    keys: Vec<String>,
    arguments: Vec<Vec<u8>>,
}

impl Captured {
    fn new(words: &[Vec<u8>]) -> Self {
        let text = |word: &Vec<u8>| String::from_utf8(word.clone()).expect("a text");
        let number = |word: &Vec<u8>| text(word).parse::<usize>().expect("a number");
        let (keys, arguments) = words[3..].split_at(number(&words[2]));
        let keys: Vec<_> = keys.iter().map(text).collect();
        let (mut members, mut left, mut rest) = (Vec::new(), keys.iter(), arguments.iter());
        while let Some(operation) = rest.next() {
            let mut next = || rest.next().expect("a word");
            let (key_count, count) = (number(next()), number(next()));
            if operation.is_empty() {
                let mut member: CapturedMember =
                    members.last().cloned().expect("one that it is like");
                let places: Vec<_> = (0..key_count).map(|_| number(next())).collect();
                for place in places {
                    member.keys[place - 1].clone_from(left.next().expect("a key"));
                }
                for _ in 0..count {
                    let place = number(next());
                    member.arguments[place - 1].clone_from(next());
                }
                members.push(member);
            } else {
                members.push(CapturedMember {
                    operation: text(operation),
                    keys: left.by_ref().take(key_count).cloned().collect(),
                    arguments: (0..count).map(|_| next().clone()).collect(),
                });
            }
        }
        Self {
            script: batch_of(&words[1]).expect("a batch"),
            members,
            arguments: arguments.to_vec(),
            keys,
        }
    }

    /// All its keys.
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// Its call.
    pub fn call(&self) -> Cmd {
        self.call_with(self.script.source())
    }

    /// The same with another text of the script.
    pub fn call_with(&self, source: &str) -> Cmd {
        eval(source, &self.keys, &self.arguments)
    }

    /// The text of the script.
    pub fn source(&self) -> &'static str {
        self.script.source()
    }

    /// The calls of its members.
    pub fn calls(&self) -> Vec<Cmd> {
        self.members.iter().map(CapturedMember::call).collect()
    }
}

/// The second database of a server, with a copy of the first.
pub struct Copy {
    redis: Connection,
}

impl Copy {
    pub fn of(server: &RedisServer) -> Self {
        let url = format!("{}/1", server.url());
        let client = redis::Client::open(url).expect("a URL");
        Self {
            redis: client.get_connection().expect("it runs"),
        }
    }

    /// Copies again, and then does this to the copy.
    pub fn renew(&mut self, damage: &[Cmd]) {
        let copied: RedisResult<()> = redis::cmd("EVAL").arg(COPY).arg(0).query(&mut self.redis);
        copied.expect("a copy");
        for command in damage {
            let done: RedisResult<Value> = command.query(&mut self.redis);
            done.expect("a change");
        }
    }

    /// Makes a call.
    pub fn run(&mut self, call: &Cmd) -> RedisResult<Value> {
        call.query(&mut self.redis)
    }

    /// Each key with a hash of its value.
    pub fn digests(&mut self) -> BTreeMap<String, String> {
        let call = redis::cmd("EVAL").arg(DIGESTS).arg(0).to_owned();
        let found: Vec<(String, String)> = call.query(&mut self.redis).expect("digests");
        found.into_iter().collect()
    }

    /// What each key holds, in lines: fields and values, entries without their places, members without their scores.
    pub fn contents(&mut self) -> BTreeMap<String, Vec<String>> {
        let call = redis::cmd("EVAL").arg(CONTENTS).arg(0).to_owned();
        let found: Vec<(String, Vec<String>)> = call.query(&mut self.redis).expect("contents");
        found.into_iter().collect()
    }
}

const COPY: &str = "
redis.call('FLUSHDB')
redis.call('SELECT', 0)
for _, name in ipairs(redis.call('KEYS', '*')) do redis.call('COPY', name, name, 'DB', 1) end
redis.call('SELECT', 1)
-- The first change of a day writes more than the others.
for _, name in ipairs(redis.call('KEYS', '*}:tenant:*')) do redis.call('HDEL', name, 'day') end
";

const DIGESTS: &str = "
local digests = redis.call('KEYS', '*')
for i, name in ipairs(digests) do digests[i] = {name, redis.sha1hex(redis.call('DUMP', name))} end
return digests
";

const CONTENTS: &str = "
local contents = redis.call('KEYS', '*')
for i, name in ipairs(contents) do
  local kind, lines = redis.call('TYPE', name).ok, {}
  if kind == 'hash' then
    local fields = redis.call('HGETALL', name)
    for at = 1, #fields, 2 do lines[#lines + 1] = fields[at] .. '=' .. fields[at + 1] end
    table.sort(lines)
  elseif kind == 'stream' then
    for _, entry in ipairs(redis.call('XRANGE', name, '-', '+')) do lines[#lines + 1] = table.concat(entry[2], ' ') end
  elseif kind == 'zset' then
    lines = redis.call('ZRANGE', name, 0, -1)
    table.sort(lines)
  elseif kind == 'string' then
    lines = {redis.call('GET', name)}
  end
  contents[i] = {name, lines}
end
return contents
";
