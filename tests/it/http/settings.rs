//! docs/configuration.md lists what the binaries take, no more and no less; its tables are made from their help.

use std::collections::BTreeMap;

use budget_authority::config::{DispatcherArgs, ServeArgs};
use clap::{Args, Command};

/// Default and reader of a setting, as the table writes them.
#[derive(Debug, PartialEq)]
struct Setting {
    default: String,
    read_by: &'static str,
}

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/configuration.md");

/// What stands around the tables in the document.
const BEGIN: &str = "<!-- Made by `make docs` from the help of both binaries. -->\n";
const END: &str = "<!-- End of what `make docs` makes. -->\n";

/// Run with `UPDATE_SNAPSHOTS=1` (`make docs`) to write the tables anew.
#[test]
fn the_document_says_of_each_setting_what_its_help_says() {
    let document = document();
    let (before, rest) = document.split_once(BEGIN).expect("where the tables begin");
    let (tables, after) = rest.split_once(END).expect("where the tables end");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        let text = [before, BEGIN, &described(), END, after].concat();
        return std::fs::write(DOCUMENT, text).expect("the document can be written");
    }
    assert_eq!(tables, described(), "`make docs` writes it anew");
}

#[test]
fn the_document_lists_every_setting_with_its_default_and_no_other() {
    assert_eq!(documented(), defined());
}

#[test]
fn each_flag_has_the_name_of_its_variable() {
    for (variable, flag) in flags(ServeArgs::augment_args(Command::new("serve"))) {
        assert_eq!(
            variable,
            format!("BUDGET_{}", flag.to_uppercase().replace('-', "_"))
        );
    }
}

fn flags(command: Command) -> Vec<(String, String)> {
    let names = |arg: &clap::Arg| {
        let variable = arg.get_env()?.to_str()?.to_owned();
        Some((variable, arg.get_long()?.to_owned()))
    };
    command.get_arguments().filter_map(names).collect()
}

fn defined() -> BTreeMap<String, Setting> {
    let commands = [
        (ServeArgs::augment_args(Command::new("serve")), "serve"),
        (
            DispatcherArgs::augment_args(Command::new("dispatcher")),
            "dispatcher",
        ),
    ];
    let mut settings = BTreeMap::<String, Setting>::new();
    for (command, reader) in commands {
        for arg in command.get_arguments() {
            let Some(variable) = arg.get_env() else {
                panic!("--{:?} has no variable", arg.get_long());
            };
            let values: Vec<_> = arg
                .get_default_values()
                .iter()
                .map(|v| v.to_string_lossy())
                .collect();
            let default = match values.join(",") {
                _ if arg.is_required_set() => "required".to_owned(),
                none if none.is_empty() => none,
                value => format!("`{value}`"),
            };
            let known = settings.entry(variable.to_string_lossy().into_owned());
            known
                .and_modify(|setting| setting.read_by = "both")
                .or_insert(Setting {
                    default,
                    read_by: reader,
                });
        }
    }
    settings
}

fn document() -> String {
    std::fs::read_to_string(DOCUMENT).expect("the document is there")
}

/// A table for each heading of the help.
fn described() -> String {
    let settings = defined();
    let serve = ServeArgs::augment_args(Command::new("serve"));
    let dispatcher = DispatcherArgs::augment_args(Command::new("dispatcher"));
    let is_new = |arg: &&clap::Arg| {
        serve
            .get_arguments()
            .all(|other| other.get_id() != arg.get_id())
    };
    let mut sections: Vec<(&str, String)> = Vec::new();
    for arg in serve
        .get_arguments()
        .chain(dispatcher.get_arguments().filter(is_new))
    {
        let heading = arg.get_help_heading();
        let heading = heading.expect("every setting is under a heading");
        let variable = arg.get_env().expect("a variable").to_string_lossy();
        let Setting { default, read_by } = &settings[&*variable];
        let meaning = arg.get_help().expect("every setting has a help");
        let meaning = meaning.to_string().replace('|', "\\|");
        let row = format!("| `{variable}` | {default} | {read_by} | {meaning} |\n");
        match sections.iter_mut().find(|(known, _)| *known == heading) {
            Some((_, rows)) => *rows += &row,
            None => sections.push((heading, row)),
        }
    }
    let columns = "| Variable | Default | Read by | Meaning |\n|---|---|---|---|\n";
    let sections = sections.iter();
    let sections = sections.map(|(heading, rows)| format!("\n### {heading}\n\n{columns}{rows}"));
    sections.collect::<String>() + "\n"
}

fn documented() -> BTreeMap<String, Setting> {
    let document = document();
    let rows = document
        .lines()
        .filter(|line| line.starts_with("| `BUDGET_"));
    let read = |row: &str| {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let read_by = match cells[2] {
            "serve" => "serve",
            "dispatcher" => "dispatcher",
            _ => "both",
        };
        let default = cells[1].to_owned();
        (
            cells[0].trim_matches('`').to_owned(),
            Setting { default, read_by },
        )
    };
    rows.map(read).collect()
}
