//! docker-compose.yml and .env.example, as far as that takes no Docker: confinement of the containers, their networks, and that
//! the processes accept their settings.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

use budget_authority::config::{DispatcherArgs, ServeArgs};
use budget_authority::tools::dev::child;
use clap::builder::Resettable;
use clap::{Args as _, FromArgMatches as _};
use serde_json::{Value, json};

use super::{read, root};
use crate::harness::eventually;
use crate::harness::redis::free_port;

/// The file, with what its services merge.
fn compose() -> Value {
    serde_saphyr::from_str(&read(Path::new("docker-compose.yml"))).expect("YAML")
}

/// Its services by name.
fn services() -> BTreeMap<String, Value> {
    serde_json::from_value(compose()["services"].take()).expect("services")
}

/// The entries of a list of texts.
fn texts(list: &Value) -> Vec<&str> {
    let entries = list.as_array().expect("a list").iter();
    entries.map(|text| text.as_str().expect("a text")).collect()
}

/// The variables of .env.example, each with the comment before it.
fn example() -> BTreeMap<String, String> {
    let (mut variables, mut comment) = (BTreeMap::new(), String::new());
    for line in read(Path::new(".env.example")).lines() {
        match (line.strip_prefix('#'), line.strip_suffix('=')) {
            (Some(text), _) => comment += text,
            (None, Some(name)) => {
                variables.insert(name.to_owned(), std::mem::take(&mut comment));
            }
            (None, None) => {
                assert_eq!(line, "", "no value stands in the example");
                comment.clear();
            }
        }
    }
    variables
}

/// A value for each variable, made as its comment says.
fn values() -> BTreeMap<String, String> {
    let made = |(name, comment): (String, String)| {
        let (text, command) = comment
            .split_once("`budget-authority ")
            .unwrap_or_else(|| panic!("{name}: no command makes it"));
        let (command, _) = command.split_once('`').expect("a closed mark");
        let output = Command::new(env!("CARGO_BIN_EXE_budget-authority"))
            .args(command.split(' '))
            .output()
            .expect("it is built");
        assert!(output.status.success(), "{name}: {command}");
        let key = String::from_utf8(output.stdout).expect("text");
        let prefix = if text.contains("ops=") { "ops=" } else { "" };
        (name, format!("{prefix}{}", key.trim_end()))
    };
    example().into_iter().map(made).collect()
}

/// The text with the variables in it replaced, as Compose does.
fn interpolated(text: &str, values: &BTreeMap<String, String>) -> String {
    let (mut done, mut rest) = (String::new(), text);
    while let Some((before, variable)) = rest.split_once("${") {
        let (variable, after) = variable.split_once('}').expect("a closed variable");
        let name = variable.strip_suffix(":?see .env.example");
        done += before;
        done += match (name, variable.split_once(":-")) {
            (Some(name), _) => values
                .get(name)
                .unwrap_or_else(|| panic!("{name} is not in .env.example")),
            (None, Some((_, default))) => default,
            (None, None) => panic!("{variable} may be missing unnoticed"),
        };
        rest = after;
    }
    (done + rest).replace("$$", "$")
}

/// The settings of a service as flags.
fn flags(service: &Value, values: &BTreeMap<String, String>) -> Vec<String> {
    let variables = service["environment"].as_object().expect("an environment");
    let flag = |(name, value): (&String, &Value)| {
        let setting = name.strip_prefix("BUDGET_").expect("a setting of ours");
        let flag = setting.to_lowercase().replace('_', "-");
        let value = interpolated(value.as_str().expect("a text"), values);
        format!("--{flag}={value}")
    };
    variables.iter().map(flag).collect()
}

#[test]
fn every_container_is_confined() {
    for (name, service) in services() {
        assert_eq!(service["read_only"], true, "{name}");
        assert_eq!(service["cap_drop"], json!(["ALL"]), "{name}");
        let options = json!(["no-new-privileges:true"]);
        assert_eq!(service["security_opt"], options, "{name}");
        for limit in ["mem_limit", "cpus", "pids_limit"] {
            assert!(!service[limit].is_null(), "{name}: {limit}");
        }
        for given in ["privileged", "cap_add", "network_mode", "pid", "env_file"] {
            assert!(service[given].is_null(), "{name}: {given}");
        }
        assert!(service["healthcheck"]["test"].is_array(), "{name}");
    }
    let ours = ["api", "dispatcher"].map(|name| services().remove(name).expect("a service"));
    for service in ours {
        let test = texts(&service["healthcheck"]["test"]).join(" ");
        assert_eq!(test, "CMD budget-authority health --metrics");
    }
}

#[test]
fn only_our_processes_reach_redis() {
    let compose = compose();
    assert_eq!(compose["networks"]["redis"]["internal"], true);
    let services = services();
    let on_it = |service: &Value| texts(&service["networks"]).contains(&"redis");
    let reach: Vec<_> = services
        .iter()
        .filter(|(_, service)| on_it(service))
        .collect();
    let reach: Vec<_> = reach.into_iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(reach, ["api", "dispatcher", "redis"]);
    assert_eq!(services["redis"]["networks"], json!(["redis"]));
    assert!(services["redis"]["ports"].is_null());
}

#[test]
fn every_port_is_published_on_loopback() {
    let mut published = BTreeSet::new();
    for (name, service) in services() {
        for port in service["ports"].as_array().into_iter().flatten() {
            let port = port.as_str().expect("a text");
            let rest = port.strip_prefix("127.0.0.1:");
            let rest = rest.unwrap_or_else(|| panic!("{name} is open to the network: {port}"));
            let (_, inside) = rest.split_once(':').expect("two ports");
            published.insert(format!("{name}:{inside}"));
        }
    }
    let all = [
        "api:7879",
        "balancer:7878",
        "balancer:7880",
        "dispatcher:7879",
    ];
    assert_eq!(
        published.iter().map(String::as_str).collect::<Vec<_>>(),
        all
    );
    let balancer = services().remove("balancer").expect("a service");
    let mount = texts(&balancer["volumes"])[0].split(':').next();
    let settings = read(&root().join(mount.expect("a path")));
    for (bind, server) in [
        ("bind :7878", "api 8 api:7878"),
        ("bind :7880", "admin 8 api:7880"),
    ] {
        assert!(
            settings.contains(bind) && settings.contains(server),
            "{bind}"
        );
    }
}

#[test]
fn the_processes_accept_the_example_settings() {
    let (services, values) = (services(), values());
    let api = ServeArgs::from_flags(&flags(&services["api"], &values)).expect("settings");
    let api = api.into_config().expect("a configuration");
    let admin = api.http.admin_listen.expect("an address of its own");
    assert_ne!(admin.port(), api.http.listen.port());
    assert!(api.secrets.is_present() && !api.admin_keys.is_empty());

    let command = clap::Command::new("dispatcher").no_binary_name(true);
    let command = DispatcherArgs::augment_args(command).mut_args(|arg| arg.env(Resettable::Reset));
    let matches = command.try_get_matches_from(flags(&services["dispatcher"], &values));
    let args = DispatcherArgs::from_arg_matches(&matches.expect("settings"));
    let dispatcher = args.expect("settings").into_config();
    assert!(dispatcher.expect("a configuration").secrets.is_present());

    let file = read(Path::new("docker-compose.yml"));
    for name in values.keys() {
        assert!(
            file.contains(&format!("${{{name}:?")),
            "nothing uses {name}"
        );
    }
}

/// The commands run in a shell whose `docker` is the binary.
#[test]
fn the_documented_commands_write_every_variable_of_the_example() {
    let document = read(Path::new("docs/operating.md"));
    let (_, commands) = document
        .split_once("    generate() {")
        .expect("the commands");
    let (commands, _) = commands
        .split_once("    docker compose up")
        .expect("an end");
    let commands = format!("generate() {{{}", commands.replace("\n    ", "\n"));
    let binary = env!("CARGO_BIN_EXE_budget-authority");
    let docker = format!("docker() {{ shift 3; {binary} \"$@\"; }}\n");
    let folder = std::env::temp_dir().join(format!("compose-{:016x}", rand::random::<u64>()));
    std::fs::create_dir(&folder).expect("a folder");
    let mut shell = Command::new("sh");
    shell.args(["-euc", &(docker + &commands)]);
    let status = shell.current_dir(&folder).status().expect("a shell");
    let file = std::fs::read_to_string(folder.join(".env"));
    let _ = std::fs::remove_dir_all(&folder);
    assert!(status.success());
    let file = file.expect("it is written");
    let lines = file
        .lines()
        .map(|line| line.split_once('=').expect("a variable"));
    let values: BTreeMap<_, _> = lines
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    assert_eq!(
        values.keys().collect::<Vec<_>>(),
        example().keys().collect::<Vec<_>>()
    );
    let api = ServeArgs::from_flags(&flags(&services()["api"], &values)).expect("settings");
    api.into_config().expect("a configuration");
}

#[test]
fn secrets_are_in_neither_git_nor_the_image() {
    let lines = |file| read(Path::new(file));
    assert!(lines(".gitignore").lines().any(|line| line == "/.env"));
    let image = lines(".dockerignore");
    assert_eq!(image.lines().next(), Some("*"));
    assert!(!image.contains(".env"));
}

#[tokio::test]
async fn redis_requires_a_password_that_no_process_list_shows() {
    let service = services().remove("redis").expect("a service");
    let values = values();
    let command = texts(&service["command"]);
    let folder = std::env::temp_dir().join(format!("compose-{:016x}", rand::random::<u64>()));
    std::fs::create_dir(&folder).expect("a folder");
    let port = free_port();
    let own = format!("redis-server - --port {port} --dir {} ", folder.display());
    let script = interpolated(command[2], &values).replace("redis-server - ", &own);
    let mut shell = Command::new(command[0]);
    let password = &service["environment"]["REDISCLI_AUTH"];
    let password = interpolated(password.as_str().expect("a text"), &values);
    shell.args([command[1], &script]);
    shell.env("REDISCLI_AUTH", &password);
    shell.stdin(Stdio::null()).stdout(Stdio::null());
    let mut server = child::spawn(shell).expect("a shell");

    let ping = async |url: String| {
        let client = redis::Client::open(url).expect("a URL");
        let mut connection = client.get_multiplexed_async_connection().await?;
        let ping = redis::cmd("PING");
        ping.query_async::<String>(&mut connection).await
    };
    eventually("Redis accepts the password", || async {
        ping(format!("redis://:{password}@127.0.0.1:{port}"))
            .await
            .ok()
    })
    .await;
    let refused = ping(format!("redis://127.0.0.1:{port}")).await;
    let line = std::fs::read_to_string(format!("/proc/{}/cmdline", server.id()));
    let _ = (
        server.kill(),
        server.wait(),
        std::fs::remove_dir_all(&folder),
    );
    assert!(format!("{refused:?}").contains("NOAUTH"), "{refused:?}");
    let line = line.expect("it runs");
    assert!(line.starts_with("redis-server") && !line.contains(&password));
}
