//! The Dockerfile, as far as that takes no Docker.

use std::path::Path;

use super::{read, root};

/// Its instructions, each on one line.
fn instructions() -> Vec<String> {
    let text = read(Path::new("Dockerfile")).replace("\\\n", "");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

/// Those below a line, up to the next `FROM`.
fn below(from: &str) -> Vec<String> {
    let all = instructions();
    let mut lines = all.into_iter().skip_while(|line| line != from);
    lines.next().unwrap_or_else(|| panic!("no {from}"));
    lines
        .take_while(|line| !line.starts_with("FROM "))
        .collect()
}

/// The rest of an instruction of the last stage that begins with this word.
fn last(word: &str) -> String {
    let all = below("FROM scratch");
    let mut found = all
        .iter()
        .filter_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
    found
        .next()
        .unwrap_or_else(|| panic!("no {word}"))
        .to_owned()
}

#[test]
fn no_instruction_of_the_image_needs_a_shell() {
    let all = instructions();
    let mut stages = all.iter().filter(|line| line.starts_with("FROM "));
    assert_eq!(stages.next_back().map(String::as_str), Some("FROM scratch"));
    for line in below("FROM scratch") {
        assert!(
            !line.starts_with("RUN ") && !line.starts_with("SHELL "),
            "{line}"
        );
        let command = ["ENTRYPOINT ", "CMD ", "HEALTHCHECK "]
            .iter()
            .any(|word| line.starts_with(word));
        assert!(!command || line.ends_with("\"]"), "{line}");
    }
    // A platform without a default of its own finds the commands too.
    let path = last("ENV");
    let folder = path.strip_prefix("PATH=").expect("PATH");
    assert_eq!(last("COPY --from=build"), format!("/out/ {folder}/"));
}

#[test]
fn the_image_has_every_library_that_the_binaries_link() {
    // Of the Debian that they are built on: an older C library may lack what they link to.
    let all = instructions();
    let mut from = all.iter().filter_map(|line| line.strip_suffix(" AS build"));
    let debian = from.next().expect("a stage").rsplit('-').next();
    let debian = debian.expect("the release of Debian");
    let start = format!("FROM debian:{debian}-");
    let mut from = all.iter().filter(|line| line.starts_with(&start));
    let runtime = below(from.next().expect("a stage of that Debian")).join("\n");
    let needed = [
        " libc6 ",
        " libgcc-s1 ",
        " > etc/ssl/certs/ca-certificates.crt",
        " > etc/nsswitch.conf",
        "install -d -m 1777 tmp",
    ];
    for part in needed {
        assert!(runtime.contains(part), "{part}");
    }
    let user = format!(" budget:x:{}::/:/", last("USER"));
    assert!(runtime.contains(&user), "{user}");
}

/// The packages of the image are chosen by hand, so a library that a new crate links to would be missing there.
#[cfg(target_os = "linux")]
#[test]
fn the_binaries_link_only_libraries_of_the_image() {
    for binary in [
        env!("CARGO_BIN_EXE_budget-authority"),
        env!("CARGO_BIN_EXE_budget-dispatcher"),
    ] {
        let output = std::process::Command::new("ldd").arg(binary).output();
        let output = output.expect("a part of the C library");
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(text.contains("libc.so"), "{text}");
        for line in text.lines() {
            let name = line.split_whitespace().next().unwrap_or_default();
            let name = name.rsplit('/').next().unwrap_or_default();
            let known = ["linux-vdso", "ld-linux", "libc.", "libm.", "libgcc_s."];
            assert!(known.iter().any(|it| name.starts_with(it)), "{line}");
        }
    }
}

#[test]
fn the_image_runs_without_root_and_has_a_health_check_and_labels() {
    let user = last("USER");
    let ids: Vec<u32> = user
        .split(':')
        .map(|id| id.parse().expect("a number"))
        .collect();
    assert!(ids.len() == 2 && !ids.contains(&0), "{user}");
    let health = last("HEALTHCHECK");
    assert!(
        health.ends_with(r#"CMD ["budget-authority", "health", "--metrics"]"#),
        "{health}"
    );
    assert_eq!(last("EXPOSE"), "7878 7879 7880");
    let labels = last("LABEL");
    for name in ["title", "description", "licenses", "version", "revision"] {
        assert!(
            labels.contains(&format!("org.opencontainers.image.{name}=\"")),
            "{name}"
        );
    }
    assert!(labels.contains(env!("CARGO_PKG_DESCRIPTION")));
    let version = format!("ARG VERSION={}", env!("CARGO_PKG_VERSION"));
    assert!(instructions().contains(&version), "{version}");
}

#[test]
fn every_path_that_the_build_copies_exists() {
    let sent = read(Path::new(".dockerignore"));
    let all = instructions();
    let copied = all.iter().filter_map(|line| line.strip_prefix("COPY "));
    let mut count = 0;
    for words in copied.filter(|words| !words.starts_with("--from")) {
        let words: Vec<_> = words.split(' ').collect();
        for source in &words[..words.len() - 1] {
            count += 1;
            assert!(root().join(source).exists(), "{source}");
            assert!(
                sent.lines().any(|line| line == format!("!{source}")),
                "{source}"
            );
        }
    }
    assert_eq!(count, 4);
}
