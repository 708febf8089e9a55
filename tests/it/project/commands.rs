//! The commands in the documents: our own are accepted by the command line, targets of `make` exist, scripts are scripts.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use budget_authority::config::DispatcherArgs;
use budget_authority::tools::cli::Cli;
use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::documents::documents;
use super::read;

#[derive(Parser)]
struct DispatcherCli {
    #[command(flatten)]
    _args: DispatcherArgs,
}

/// Arguments that the environment gives where a document leaves them out.
const OF_THE_ENVIRONMENT: [&str; 5] = [
    "--url <URL>",
    "--admin-key <KEY>",
    "--redis-url <URL>",
    "--unit <UNIT>",
    "--secret-keys <KEYS>",
];

/// The blocks of a document between fences of these languages.
fn fenced(text: &str, languages: &[&str]) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<(bool, Vec<&str>)> = None;
    for line in text.lines().map(str::trim) {
        let fence = line.strip_prefix("```");
        open = match (open, fence) {
            (None, Some(language)) => Some((languages.contains(&language), Vec::new())),
            (None, None) => None,
            (Some((true, lines)), Some(_)) => {
                blocks.push(lines.join("\n"));
                None
            }
            (Some(_), Some(_)) => None,
            (Some((wanted, mut lines)), None) => {
                lines.push(line);
                Some((wanted, lines))
            }
        };
    }
    blocks
}

/// The indented lines of a document, which are code.
fn indented(text: &str) -> String {
    let lines = text.lines().filter(|line| line.starts_with("    "));
    lines.map(str::trim).collect::<Vec<_>>().join("\n")
}

/// The commands in a piece of shell, each as its words. Quotes are removed and substitutions kept as they are; a comment,
/// and what a command is connected with, end it.
fn commands(shell: &str) -> Vec<Vec<String>> {
    let (mut found, mut words, mut word) = (Vec::new(), Vec::new(), String::new());
    let (mut quote, mut depth, mut is_word, mut comment) = (None, 0, false, false);
    let text = shell.replace("\\\n", " ") + "\n";
    for letter in text.chars() {
        let ends_command = depth == 0 && quote.is_none() && "|;&<>\n".contains(letter);
        match letter {
            '\n' if comment => comment = false,
            _ if comment => continue,
            '#' if quote.is_none() && !is_word => comment = true,
            '\'' | '"' if depth == 0 && quote.is_none() => (quote, is_word) = (Some(letter), true),
            _ if quote == Some(letter) => quote = None,
            '(' | ')' if quote.is_none() => {
                depth += if letter == '(' { 1 } else { -1 };
                word.push(letter);
                is_word = true;
            }
            _ if quote.is_some() || depth > 0 => word.push(letter),
            _ if letter.is_whitespace() || ends_command => {
                if is_word {
                    words.push(std::mem::take(&mut word));
                    is_word = false;
                }
            }
            _ => {
                word.push(letter);
                is_word = true;
            }
        }
        if ends_command && !words.is_empty() {
            found.push(std::mem::take(&mut words));
        }
    }
    found
}

/// Without a prompt and the variables before a command.
fn bare(words: &[String]) -> &[String] {
    let is_prefix = |word: &String| word == "$" || word.contains('=') && !word.starts_with('-');
    let skipped = words.iter().take_while(|word| is_prefix(word)).count();
    &words[skipped..]
}

/// Whether our own command line takes these words; a word with `…` stands for any.
fn refusal(words: &[String]) -> Option<String> {
    let (program, arguments) = words.split_first()?;
    // As in a synopsis, where optional arguments are in brackets.
    let arguments = arguments.iter().map(|word| word.trim_matches(['[', ']']));
    let arguments: Vec<&str> = arguments.filter(|word| *word != "…").collect();
    let known = Path::new(program).file_name()?.to_str()?;
    let parsed = match known {
        // The alias of docs/operating.md.
        "admin" => Cli::try_parse_from([&["", "admin"], arguments.as_slice()].concat()).map(drop),
        "budget-authority" => Cli::try_parse_from([&[""], arguments.as_slice()].concat()).map(drop),
        "budget-dispatcher" => {
            DispatcherCli::try_parse_from([&[""], arguments.as_slice()].concat()).map(drop)
        }
        _ => return None,
    };
    let error = parsed.err()?;
    let missing = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(names)) => names.clone(),
        _ => Vec::new(),
    };
    let is_fine = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
        // The name of a program alone, as in a drawing.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            arguments.len() <= 1
        }
        ErrorKind::MissingRequiredArgument => missing
            .iter()
            .all(|name| OF_THE_ENVIRONMENT.contains(&name.as_str())),
        _ => false,
    };
    (!is_fine).then(|| format!("{}\n{error}", words.join(" ")))
}

/// Every command of the documents, with the document.
fn documented() -> Vec<(PathBuf, Vec<String>)> {
    let mut found = Vec::new();
    for document in documents() {
        let text = read(&document);
        let mut pieces = fenced(&text, &["sh", "console"]);
        pieces.push(indented(&text));
        let all = pieces.iter().flat_map(|piece| commands(piece));
        found.extend(all.map(|words| (document.clone(), bare(&words).to_vec())));
    }
    found
}

#[test]
fn documented_commands_are_accepted() {
    let documented = documented();
    let ours = |words: &[String]| {
        let program = words.first().map_or("", String::as_str);
        program.ends_with("budget-authority") || program == "admin"
    };
    let count = documented.iter().filter(|(_, words)| ours(words)).count();
    assert!(count >= 40, "only {count} commands");
    let refused: Vec<_> = documented
        .iter()
        .filter_map(|(document, words)| {
            Some(format!("{}: {}", document.display(), refusal(words)?))
        })
        .collect();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
fn every_target_of_make_exists() {
    let makefile = read(Path::new("Makefile"));
    let targets: Vec<&str> = makefile
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name)
        .collect();
    let (mut missing, mut count) = (Vec::new(), 0);
    for (document, words) in documented() {
        let [make, target, ..] = words.as_slice() else {
            continue;
        };
        if make == "make" {
            count += 1;
            if !targets.contains(&target.as_str()) {
                missing.push(format!("{}: make {target}", document.display()));
            }
        }
    }
    assert!(count >= 4, "only {count} calls of make");
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn every_documented_script_parses() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for document in documents() {
        for block in fenced(&read(&document), &["sh"]) {
            count += 1;
            let mut shell = Command::new("sh");
            shell.args(["-nc", &block]).stdin(Stdio::null());
            let output = shell.output().expect("a shell");
            if !output.status.success() {
                let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
                wrong.push(format!("{}: {stderr}", document.display()));
            }
        }
    }
    assert!(count >= 10, "only {count} scripts");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn commands_are_found_in_shell() {
    let shell = "A=1 budget-authority limits --json | less # all of them\nx $(a | b) \"c d\" \\\n  e && f 'g;h'";
    let found: Vec<_> = commands(shell)
        .iter()
        .map(|words| bare(words).join(","))
        .collect();
    assert_eq!(
        found,
        [
            "budget-authority,limits,--json",
            "less",
            "x,$(a | b),c d,e",
            "f,g;h"
        ]
    );
    let bad = ["budget-authority", "limits", "--jsn"].map(str::to_owned);
    assert!(refusal(&bad).is_some_and(|why| why.contains("--jsn")));
    let missing = ["budget-authority", "admin", "tenant", "create"].map(str::to_owned);
    assert!(refusal(&missing).is_some());
}
