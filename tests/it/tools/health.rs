//! `budget-authority health`, as a container's health check and `helm test` run it.

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use budget_authority::tools::dev::child;

use crate::harness::admin_cli::{CommandOutput, ran};
use crate::harness::app::SECRET_KEYS;
use crate::harness::eventually;
use crate::harness::process::Replica;
use crate::harness::redis::{RedisServer, free_port};

/// The command in an environment.
async fn health(arguments: &[&str], environment: &[(&str, &str)]) -> CommandOutput {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_budget-authority"));
    command.arg("health").args(arguments);
    if !arguments.contains(&"--timeout-ms") {
        // A busy machine shall not look like a process that does not respond.
        command.args(["--timeout-ms", "10000"]);
    }
    command.envs(environment.iter().copied());
    ran(command.output().await.expect("it is built"))
}

/// Repeats the command until it exits with this code.
async fn until(code: i32, arguments: &[&str], environment: &[(&str, &str)]) -> CommandOutput {
    eventually("the process has this health", || async {
        let exited = health(arguments, environment).await;
        (exited.code == code).then_some(exited)
    })
    .await
}

#[tokio::test]
async fn a_replica_is_healthy_with_redis_and_live_without() {
    let mut redis = RedisServer::start();
    let mut replica = Replica::start(&redis.url(), "health", &[]);
    let port = replica.address.port();
    let listen = format!("0.0.0.0:{port}");
    // The proxy would refuse the connection.
    let environment = [
        ("BUDGET_LISTEN", listen.as_str()),
        ("HTTP_PROXY", "http://127.0.0.1:1"),
        ("http_proxy", "http://127.0.0.1:1"),
    ];
    let exited = until(0, &[], &environment).await;
    let line = |rest: &str| format!("{rest}\n").replace("HOST", &format!("127.0.0.1:{port}"));
    assert_eq!(exited.out, line("healthy: http://HOST/ready returned 200"));
    assert_eq!(exited.err, "");

    redis.kill();
    let exited = until(1, &[], &environment).await;
    assert_eq!(
        exited.out,
        line("not healthy: http://HOST/ready returned 503")
    );
    let exited = health(&["--live"], &environment).await;
    assert_eq!(
        (exited.code, exited.out),
        (0, line("healthy: http://HOST/live returned 200"))
    );
    let url = format!("http://127.0.0.1:{port}/live");
    assert_eq!(health(&["--url", &url], &[]).await.code, 0);

    replica.process.kill();
    let exited = health(&["--live"], &environment).await;
    let refused = "not healthy: http://HOST/live cannot be reached: Connection refused";
    assert_eq!(exited.code, 1);
    assert!(
        exited.out.starts_with(line(refused).trim_end()),
        "{exited:?}"
    );
    assert_eq!(exited.out.lines().count(), 1);
}

#[tokio::test]
async fn a_dispatcher_is_healthy_on_the_address_of_its_metrics() {
    let redis = RedisServer::start();
    let port = free_port();
    let mut command = Command::new(env!("CARGO_BIN_EXE_budget-dispatcher"));
    let listen = format!("127.0.0.1:{port}");
    command.args(["--redis-url", &redis.url(), "--secret-keys", SECRET_KEYS]);
    command.args(["--metrics-listen", &listen]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut dispatcher = child::spawn(command).expect("the binary is built");
    let any = format!("0.0.0.0:{port}");
    let environment = [("BUDGET_METRICS_LISTEN", any.as_str())];
    until(0, &["--metrics"], &environment).await;
    drop(redis);
    until(1, &["--metrics"], &environment).await;
    assert_eq!(health(&["--metrics", "--live"], &environment).await.code, 0);
    dispatcher.kill().expect("it is ours");
    dispatcher.wait().expect("it ends");
}

#[tokio::test]
async fn a_process_that_does_not_respond_in_time_is_not_healthy() {
    // The kernel accepts connections of it, and nobody reads them.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("bound").to_string();
    let environment = [("BUDGET_LISTEN", address.as_str())];
    let exited = health(&["--timeout-ms", "200"], &environment).await;
    assert_eq!(exited.code, 1);
    assert_eq!(
        exited.out,
        format!("not healthy: http://{address}/ready did not respond within 200 ms\n")
    );
}

#[tokio::test]
async fn several_addresses_are_healthy_if_all_are() {
    let redis = RedisServer::start();
    let replica = Replica::start(&redis.url(), "several", &[]);
    let up = format!("http://{}", replica.address);
    let down = format!("http://127.0.0.1:{}", free_port());
    let both = [up.as_str(), "--url", &format!("{up}/live")];
    let exited = until(0, &[&["--url"], &both[..]].concat(), &[]).await;
    let healthy = |path: &str| format!("healthy: {up}{path} returned 200\n");
    assert_eq!(exited.out, healthy("/ready") + &healthy("/live"));

    // In the order of the arguments, whichever responds first.
    let exited = health(&["--url", &down, "--url", &up], &[]).await;
    assert_eq!(exited.code, 1);
    let lines: Vec<_> = exited.out.lines().collect();
    let refused = format!("not healthy: {down}/ready cannot be reached: Connection refused");
    assert!(lines[0].starts_with(&refused), "{exited:?}");
    assert_eq!(lines[1..], [healthy("/ready").trim_end()]);
}

#[tokio::test]
async fn it_waits_until_a_process_that_starts_later_is_healthy() {
    let redis = RedisServer::start();
    let mut replica = Replica::start(&redis.url(), "later", &[]);
    replica.process.kill();
    // The command's first connection ends here, without a response.
    let first = tokio::net::TcpListener::bind(replica.address);
    let first = first.await.expect("its port is free");
    let url = format!("http://{}", replica.address);
    let arguments = ["--wait-s", "60", "--url", &url];
    let (exited, ()) = tokio::join!(health(&arguments, &[]), async {
        drop(first.accept().await.expect("a connection"));
        drop(first);
        replica.process.restart();
    });
    assert_eq!(exited.out, format!("healthy: {url}/ready returned 200\n"));
    assert_eq!((exited.code, exited.err.as_str()), (0, ""));
}

#[tokio::test]
async fn it_waits_at_most_the_given_time() {
    let url = format!("http://127.0.0.1:{}", free_port());
    let started = Instant::now();
    let exited = health(&["--wait-s", "1", "--url", &url], &[]).await;
    assert!(started.elapsed() >= Duration::from_millis(500));
    assert_eq!((exited.code, exited.out.lines().count()), (1, 1));
}

#[tokio::test]
async fn wrong_usage_exits_with_2() {
    for arguments in [
        &["--url", "https://127.0.0.1:7878"][..],
        &["--url", "ready"],
        &["--url", "http://127.0.0.1:7878", "--metrics"],
        &["--metrics", "--metrics-listen", "off"],
        &["--listen", "here"],
        &["--timeout-ms", "0"],
        &["--wait-s", "0"],
        &["--wait-s", "3601"],
        &["--url", "http://127.0.0.1:7878/ready", "--live"],
        &["--url", "http://127.0.0.1:7878", "--url", "ready"],
    ] {
        let exited = health(arguments, &[]).await;
        assert_eq!(exited.code, 2, "{arguments:?}: {exited:?}");
        assert!(exited.out.is_empty() && !exited.err.is_empty());
    }
}
