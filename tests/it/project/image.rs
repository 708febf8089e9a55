//! The Dockerfile, as far as that takes no Docker.

use std::path::Path;

use super::{read, root};

/// Its instructions, each on one line.
fn instructions() -> Vec<String> {
    let text = read(Path::new("Dockerfile")).replace("\\\n", "");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

/// What follows a word at the start of an instruction of the last stage.
fn last(word: &str) -> String {
    let all = instructions();
    let found = all
        .iter()
        .rev()
        .take_while(|line| !line.starts_with("FROM "));
    let mut found = found.filter_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
    found
        .next()
        .unwrap_or_else(|| panic!("no {word}"))
        .to_owned()
}

#[test]
fn the_image_runs_without_root_checks_its_health_and_says_what_it_is() {
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
    for name in [
        "title",
        "description",
        "licenses",
        "version",
        "revision",
        "base.name",
    ] {
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
fn what_the_build_copies_exists_and_is_sent_to_it() {
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
