//! `.ci/need`, which the make targets call: what it installs on a machine where something is missing. The machine is a
//! folder of programs that only note what they are asked.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;

/// A folder that is all of `PATH`.
struct Machine(PathBuf);

/// What came of a run: exit code, what was called, what it wrote to stderr.
#[derive(Debug, PartialEq)]
struct Outcome {
    code: Option<i32>,
    called: Vec<String>,
    stderr: String,
}

impl Machine {
    /// One of `root`'s, or of somebody else's, with these programs, each of which works.
    fn of(root: bool, programs: &[&str]) -> Self {
        let name = format!("budget-authority-need-{:016x}", rand::random::<u64>());
        let machine = Self(std::env::temp_dir().join(name));
        fs::create_dir(&machine.0).expect("it is made");
        symlink("/usr/bin/env", machine.0.join("env")).expect("a link");
        machine.program("id", &format!("echo {}", if root { 0 } else { 1000 }));
        for program in programs {
            machine.program(program, "");
        }
        for noting in ["apt-get", "rustup"] {
            if programs.contains(&noting) {
                let note = format!("echo \"{noting} $*\" >>{}/called", machine.0.display());
                machine.program(noting, &note);
            }
        }
        let note = format!("echo sudo >>{}/called; exec \"$@\"", machine.0.display());
        if programs.contains(&"sudo") {
            machine.program("sudo", &note);
        }
        machine
    }

    fn program(&self, name: &str, body: &str) {
        let path = self.0.join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).expect("it is written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }

    fn need(&self, tools: &[&str]) -> Outcome {
        let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.ci/need"));
        let output = command.args(tools).env("PATH", &self.0).output();
        let output = output.expect("it is executable");
        let called = fs::read_to_string(self.0.join("called")).unwrap_or_default();
        Outcome {
            code: output.status.code(),
            called: called.lines().map(str::to_owned).collect(),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const RUN: &[&str] = &["cargo", "cc", "curl", "redis-server"];

fn apt(sudo: bool, packages: &str) -> Vec<String> {
    let install = format!("apt-get install -qq -y --no-install-recommends {packages}");
    let calls = ["apt-get update -qq".to_owned(), install];
    let with_sudo = |call| [Some("sudo".to_owned()).filter(|_| sudo), Some(call)];
    calls.into_iter().flat_map(with_sudo).flatten().collect()
}

#[test]
fn nothing_is_installed_where_all_is_there() {
    let machine = Machine::of(true, &[RUN, &["apt-get", "rustup"]].concat());
    let outcome = machine.need(&[RUN, &["rustfmt", "clippy"]].concat());
    let nothing = Outcome {
        code: Some(0),
        called: vec![],
        stderr: String::new(),
    };
    assert_eq!(outcome, nothing);
}

#[test]
fn a_fresh_debian_with_rust_alone_gets_a_linker_too() {
    for root in [true, false] {
        let machine = Machine::of(root, &["cargo", "rustup", "apt-get", "sudo"]);
        let outcome = machine.need(RUN);
        let expected = apt(!root, "gcc libc6-dev curl redis-server");
        assert_eq!((outcome.code, outcome.called), (Some(0), expected));
        assert!(
            outcome
                .stderr
                .contains("installing gcc libc6-dev curl redis-server")
        );
    }
}

#[test]
fn a_compiler_without_a_c_library_is_not_enough() {
    let machine = Machine::of(true, &["cargo", "apt-get", "curl", "redis-server"]);
    machine.program("cc", "echo 'stdio.h: No such file' >&2; exit 1");
    assert_eq!(machine.need(RUN).called, apt(false, "gcc libc6-dev"));
}

#[test]
fn tests_need_more_and_only_that_is_installed() {
    let machine = Machine::of(true, &[RUN, &["apt-get"]].concat());
    let outcome = machine.need(&["redis-server", "redis-sentinel", "luacheck"]);
    assert_eq!(outcome.called, apt(false, "redis-sentinel lua-check"));
}

#[test]
fn what_the_client_libraries_stand_on_is_installed_where_it_is_missing() {
    let machine = Machine::of(true, &["apt-get"]);
    // As on Debian without its package for virtual environments.
    machine.program("python3", "exit 1");
    let outcome = machine.need(&["python", "openssl"]);
    let expected = apt(false, "python3 python3-venv openssl pkg-config libssl-dev");
    assert_eq!((outcome.code, outcome.called), (Some(0), expected));
    let machine = Machine::of(true, &["apt-get", "python3", "pkg-config", "openssl"]);
    assert_eq!(machine.need(&["python", "openssl"]).called, [""; 0]);
}

#[test]
fn parts_of_rust_come_by_rustup() {
    let machine = Machine::of(true, &["rustup"]);
    // As rustup's own stand-in for a component that is not installed.
    machine.program("cargo", "[ \"$1\" = fmt ] || exit 1");
    let outcome = machine.need(&["rustfmt", "clippy"]);
    assert_eq!(outcome.called, ["rustup component add clippy"]);

    let machine = Machine::of(true, &[]);
    machine.program("cargo", "exit 1");
    let outcome = machine.need(&["rustfmt", "clippy"]);
    assert_eq!(outcome.code, Some(1));
    assert!(
        outcome.stderr.contains("rustfmt clippy"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn what_cannot_be_installed_is_named() {
    for (root, programs, stderr) in [
        (
            true,
            &["cargo"][..],
            "names of Debian's packages): gcc libc6-dev curl redis-server",
        ),
        (
            false,
            &["cargo", "apt-get"],
            "as root, install these first: apt-get install gcc libc6-dev",
        ),
        (true, &["apt-get"], "https://rustup.rs"),
    ] {
        let outcome = Machine::of(root, programs).need(RUN);
        assert_eq!(
            (outcome.code, &outcome.called),
            (Some(1), &vec![]),
            "{stderr}"
        );
        assert!(outcome.stderr.contains(stderr), "{}", outcome.stderr);
    }
}

#[test]
fn a_failed_installation_fails() {
    let machine = Machine::of(true, &["cargo", "apt-get"]);
    machine.program("apt-get", "[ \"$1\" = update ]");
    assert_ne!(machine.need(RUN).code, Some(0));
}

#[test]
fn the_checker_of_crates_is_built_in_the_version_of_its_settings() {
    let machine = Machine::of(true, &[]);
    let called = machine.0.join("called").display().to_string();
    let cargo = |version: &str| {
        let deny = format!("[ \"$1\" = deny ] && echo cargo-deny {version} && exit");
        machine.program("cargo", &format!("{deny}\necho \"cargo $*\" >>{called}"));
        machine.need(&["cargo-deny"]).called
    };
    assert_eq!(cargo("0.20.2"), [""; 0]);
    let build = "cargo install --quiet --locked --debug cargo-deny@0.20.2";
    assert_eq!(cargo("0.14.0"), [build]);
}

/// Every tool that the Makefile names is known to the script.
#[test]
fn the_makefile_asks_for_nothing_unknown() {
    let makefile = include_str!("../../../Makefile");
    let lines = makefile
        .lines()
        .filter_map(|line| line.split_once(".ci/need "));
    let tools: Vec<_> = lines.flat_map(|(_, tools)| tools.split(' ')).collect();
    assert!(tools.contains(&"redis-server"));
    let machine = Machine::of(true, &["cargo", "rustup", "apt-get"]);
    assert_eq!(machine.need(&tools).code, Some(0), "{tools:?}");
}
