//! The keys in `docs/redis.md`.

use std::fmt::Write as _;

use budget_authority::domain::api_key::ApiKey;
use budget_authority::domain::budget::ledger::BudgetLedger;
use budget_authority::domain::policy::Policy;
use budget_authority::domain::tenant::Tenant;
use budget_authority::domain::webhook::Subscription;
use budget_authority::store::keys::{Key, deployment, directory, partition, views};
use budget_authority::store::signature::{Access, Signature};

use super::layout::wrapped;
use crate::harness::signatures::SIGNATURES;

/// The sections of the document, by the place of their keys.
const SECTIONS: [(&str, &[&Key]); 4] = [
    ("The deployment", deployment::ALL),
    ("Directories", directory::ALL),
    ("Partitions", partition::ALL),
    ("Views", views::ALL),
];

/// Every key: its name and type, what it holds, who writes and reads it, when it is removed.
pub(super) fn document() -> String {
    let mut text = String::new();
    for (title, keys) in SECTIONS {
        let _ = writeln!(text, "\n## {title}");
        for key in keys.iter() {
            entry(&mut text, key);
        }
    }
    text.push('\n');
    text
}

fn entry(text: &mut String, key: &Key) {
    let place = key.place.replace("<p>", "p");
    let _ = writeln!(text, "\n### `ba:{place}{}`\n", key.pattern(&[]));
    let holds: Vec<_> = key.holds.trim().lines().map(str::trim).collect();
    for (index, lines) in holds.split(|line| line.is_empty()).enumerate() {
        let kind = if index == 0 { key.kind } else { "" };
        let kind = match kind {
            "" => String::new(),
            kind => format!("Type {kind}. "),
        };
        paragraph(text, &format!("{kind}{}", lines.join(" ")));
        text.push('\n');
        let mut declared = declared_fields().into_iter().filter(|_| index == 0);
        if let Some((_, fields)) = declared.find(|(declared, _)| std::ptr::eq(*declared, key)) {
            // The id of an API key is part of the name of its key.
            let fields = fields.iter().filter(|field| **field != "key_id");
            let fields: Vec<_> = fields.map(|field| format!("`{field}`")).collect();
            paragraph(text, &format!("Fields: {}.", fields.join(", ")));
            text.push('\n');
        }
    }
    let writers = scripts(key, Access::Write);
    let readers: Vec<_> = scripts(key, Access::Read)
        .into_iter()
        .filter(|script| !writers.contains(script))
        .collect();
    let listed = |names: &[&str]| match names {
        [] => "single commands".to_owned(),
        names => {
            let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            names.join(", ")
        }
    };
    let mut line = format!("Written by {}.", listed(&writers));
    if !readers.is_empty() {
        let _ = write!(line, " Read by {}.", listed(&readers));
    }
    paragraph(text, &format!("{line} Removed: {}.", key.goes));
}

/// The records that the domain declares, with the names of their fields.
fn declared_fields() -> [(&'static Key, Vec<&'static str>); 5] {
    [
        (&partition::tenant, Tenant::field_names()),
        (&partition::api_key, ApiKey::field_names()),
        (&partition::policy, Policy::field_names()),
        (&partition::budget, BudgetLedger::field_names()),
        (&partition::webhook, Subscription::field_names()),
    ]
}

fn paragraph(text: &mut String, line: &str) {
    let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
    wrapped(text, "", &words, "");
}

/// The scripts that use a key so, by name.
fn scripts(key: &Key, wanted: Access) -> Vec<&'static str> {
    let uses = |signature: &&&Signature| {
        let own = signature.keys.iter().map(|used| (used.access, used.key));
        let list = signature.list.iter();
        let list = list.flat_map(|list| list.keys.iter().map(|key| (list.access, *key)));
        let built = signature.builds.iter().copied();
        let mut all = own.chain(list).chain(built);
        all.any(|(access, used)| access == wanted && std::ptr::eq(used, key))
    };
    let found = SIGNATURES.iter().filter(uses);
    let mut scripts: Vec<_> = found.map(|one| one.script.name()).collect();
    scripts.sort_unstable();
    scripts
}
