//! The agents of `examples`, run against the development stack with the variables that it prints.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::dev_stack::{Stack, WorkFolder};
use crate::harness::faulty_proxy::{self, Fault};
use crate::http::clients::{prepare, target};

/// The output of each agent: the same steps in every language.
const STORY: &str = "reserved 500000
the same request again: the same reservation
extended 3 times
committed 320000; 180000 returned
a commit above its hold: 650000 charged
denied: BUDGET_EXCEEDED; the agent stops
";
/// Its total charge.
const SPENT: i64 = 320_000 + 650_000;

fn example(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples")
        .join(path)
}

/// A program that runs a file.
fn run(program: impl AsRef<Path>, file: PathBuf) -> Command {
    let mut command = Command::new(program.as_ref());
    command.arg(file);
    command
}

/// Says that an example is not run. Tests that pass print nothing, but for this.
fn skip(what: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {what}");
}

/// The compiled TypeScript example, if Node is installed.
fn compiled(name: &str) -> Option<Command> {
    let script = target().join("typescript/out").join(name);
    script.exists().then(|| run("node", script))
}

/// Runs an agent with the variables that the stack prints; its output.
async fn output_of(agent: Command, stack: &Stack, folder: &WorkFolder) -> String {
    output_at(&stack.url, agent, stack, folder).await
}

/// The same, where the service has another address.
async fn output_at(url: &str, mut agent: Command, stack: &Stack, folder: &WorkFolder) -> String {
    agent.envs(stack.exported());
    agent.env("BUDGET_URL", url).env("CYCLES_BASE_URL", url);
    agent.env("CYCLES_JOURNAL_DIR", folder.path("tmp/journal"));
    agent.env("PYTHONDONTWRITEBYTECODE", "1");
    let described = format!("{agent:?}");
    let run = tokio::task::spawn_blocking(move || agent.output());
    let output = run.await.expect("no panic").expect(&described);
    assert!(output.status.success(), "{described}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// `spent` and `reserved` of the agent's budget of money.
async fn figures(stack: &Stack) -> (i64, i64) {
    let variables = stack.exported();
    let variable = |name: &str| {
        let mut all = variables.iter();
        all.find(|(known, _)| known == name).expect(name).1.clone()
    };
    let url = format!("{}/v1/balances?agent=helper", variable("BUDGET_URL"));
    let request = crate::harness::http::client().get(url);
    let request = request.header(variable("BUDGET_KEY_HEADER"), variable("BUDGET_API_KEY"));
    let response: Value = request
        .send()
        .await
        .expect("a response")
        .json()
        .await
        .expect("JSON");
    let rows = response["balances"].as_array().expect("rows");
    let money = rows
        .iter()
        .find(|row| row["spent"]["unit"] == "USD_MICROCENTS")
        .expect("money");
    let figure = |name: &str| money[name]["amount"].as_i64().expect("an amount");
    (figure("spent"), figure("reserved"))
}

/// Starts a stack in a dialect.
async fn stack(folder: &WorkFolder, dialect: &str) -> Stack {
    Stack::start(folder, &["--dialect", dialect]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_without_a_library_work_in_both_dialects() {
    prepare("typescript").await;
    for dialect in ["service", "cycles"] {
        let folder = WorkFolder::new();
        let stack = stack(&folder, dialect).await;
        let mut spent = 0;
        let curl = Command::new(example("curl/agent.sh"));
        for agent in [Some(curl), compiled("agent.js")] {
            let Some(agent) = agent else {
                skip("examples/typescript/agent.ts, for which there is no Node with its compiler");
                continue;
            };
            assert_eq!(output_of(agent, &stack, &folder).await, STORY);
            spent += SPENT;
            assert_eq!(figures(&stack).await, (spent, 0));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_with_the_published_libraries_work() {
    for client in ["python", "rust", "typescript"] {
        prepare(client).await;
    }
    let folder = WorkFolder::new();
    let stack = stack(&folder, "cycles").await;
    let agents = [
        run(
            target().join("python/bin/python"),
            example("python/agent.py"),
        ),
        Command::new(target().join("rust/debug/budget-agent")),
    ];
    for (at, agent) in (1..).zip(agents) {
        assert_eq!(output_of(agent, &stack, &folder).await, STORY);
        assert_eq!(figures(&stack).await, (at * SPENT, 0));
    }
    match compiled("with_cycles.js") {
        Some(agent) => {
            let printed = output_of(agent, &stack, &folder).await;
            assert!(
                printed.ends_with("denied: BUDGET_EXCEEDED; the agent stops\n"),
                "{printed}"
            );
        }
        None => {
            skip("examples/typescript/with_cycles.ts, for which npm has no package runcycles here")
        }
    }
}

/// One of the ten requests of an agent performs its operation, and the response is lost or a 503.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_charge_once_when_responses_are_lost() {
    for client in ["python", "rust", "typescript"] {
        prepare(client).await;
    }
    let folder = WorkFolder::new();
    let stack = stack(&folder, "cycles").await;
    let service = stack.url.trim_start_matches("http://").parse();
    let service = service.expect("an address");
    let mut spent = 0;
    for fault in [Fault::LosesResponses, Fault::RespondsUnavailable] {
        let agents = [
            Some(Command::new(example("curl/agent.sh"))),
            compiled("agent.js"),
            Some(run(
                target().join("python/bin/python"),
                example("python/agent.py"),
            )),
            Some(Command::new(target().join("rust/debug/budget-agent"))),
        ];
        for agent in agents.into_iter().flatten() {
            let url = faulty_proxy::start(service, fault).await;
            let printed = output_at(&url, agent, &stack, &folder).await;
            assert_eq!(printed, STORY);
            spent += SPENT;
            assert_eq!(figures(&stack).await, (spent, 0));
        }
        let mut mcp = Mcp::start(&faulty_proxy::start(service, fault).await, &stack);
        let key = format!("{fault:?}");
        tokio::task::spawn_blocking(move || use_tools(&mut mcp, &key))
            .await
            .expect("no panic");
        spent += SPENT;
        assert_eq!(figures(&stack).await, (spent, 0));
    }
}

/// A server of the Model Context Protocol, and its host.
struct Mcp {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    id: i64,
}

impl Mcp {
    fn start(url: &str, stack: &Stack) -> Self {
        let mut command = run(target().join("python/bin/python"), example("mcp/server.py"));
        command
            .envs(stack.exported())
            .env("BUDGET_URL", url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let (input, output) = (child.stdin.take(), child.stdout.take());
        Self {
            child,
            input: input.expect("piped"),
            output: BufReader::new(output.expect("piped")),
            id: 0,
        }
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params});
        writeln!(self.input, "{request}").expect("it reads");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it responds");
        let response: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(
            (&response["jsonrpc"], &response["id"]),
            (&json!("2.0"), &json!(self.id))
        );
        response
    }

    /// Whether a tool refuses, and the body that it returns.
    fn call(&mut self, tool: &str, arguments: Value) -> (bool, Value) {
        let response = self.request("tools/call", json!({"name": tool, "arguments": arguments}));
        let text = response["result"]["content"][0]["text"]
            .as_str()
            .expect("a text");
        let refused = response["result"]["isError"].as_bool().expect("a flag");
        (
            refused,
            serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        )
    }
}

impl Drop for Mcp {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The steps of the other agents, as tool calls of a model.
fn use_tools(mcp: &mut Mcp, run: &str) {
    let hello = mcp.request(
        "initialize",
        json!({"protocolVersion": "2025-06-18", "capabilities": {}}),
    );
    assert_eq!(hello["result"]["protocolVersion"], "2025-06-18");
    writeln!(
        mcp.input,
        r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#
    )
    .expect("it reads");
    let listed = mcp.request("tools/list", json!({}));
    let tools: Vec<_> = listed["result"]["tools"]
        .as_array()
        .expect("tools")
        .iter()
        .map(|tool| &tool["name"])
        .collect();
    assert_eq!(tools, ["reserve", "extend", "commit", "release"]);
    let step = |key: &str, amount: i64| json!({"idempotency_key": format!("{run}{key}"), "amount": amount});
    let on = |id: &Value, mut arguments: Value| {
        arguments["reservation_id"] = id.clone();
        arguments
    };

    let (_, made) = mcp.call("reserve", step("1", 500_000));
    let id = &made["reservation_id"];
    assert_eq!(
        &mcp.call("reserve", step("1", 500_000)).1["reservation_id"],
        id
    );
    let extend = json!({"idempotency_key": "1-more", "extend_by_ms": 10_000});
    assert_eq!(mcp.call("extend", on(id, extend)).1["status"], "ACTIVE");
    let (_, done) = mcp.call("commit", on(id, step("1-end", 320_000)));
    assert_eq!(
        (&done["charged"]["amount"], &done["released"]["amount"]),
        (&json!(320_000), &json!(180_000))
    );

    let (_, made) = mcp.call("reserve", step("2", 500_000));
    let commit = on(&made["reservation_id"], step("2-end", 650_000));
    for _ in 0..2 {
        assert_eq!(
            mcp.call("commit", commit.clone()).1["charged"]["amount"],
            650_000
        );
    }
    let (_, made) = mcp.call("reserve", step("3", 500_000));
    let release = on(&made["reservation_id"], json!({"idempotency_key": "3-end"}));
    assert_eq!(mcp.call("release", release).1["status"], "RELEASED");

    let (refused, denial) = mcp.call("reserve", step("4", 60_000_000_000));
    assert_eq!(
        (refused, &denial["error"]),
        (true, &json!("BUDGET_EXCEEDED"))
    );
    assert!(mcp.call("reserve", json!({"amount": 1})).0);
    assert_eq!(
        mcp.request("tools/call", json!({"name": "other"}))["error"]["code"],
        -32601
    );
    assert_eq!(
        mcp.request("resources/list", json!({}))["error"]["code"],
        -32601
    );
    assert_eq!(mcp.request("ping", json!({}))["result"], json!({}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tools_of_a_model_keep_to_its_budget_in_both_dialects() {
    prepare("python").await;
    for dialect in ["service", "cycles"] {
        let folder = WorkFolder::new();
        let stack = stack(&folder, dialect).await;
        let mut mcp = Mcp::start(&stack.url, &stack);
        tokio::task::spawn_blocking(move || use_tools(&mut mcp, ""))
            .await
            .expect("no panic");
        assert_eq!(figures(&stack).await, (SPENT, 0));
    }
}
