//! A tenant's budgets as a tree, each with a bar of its use.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::tools::output::{Terminal, plain};

/// Width of a bar.
const BAR: i128 = 20;

/// A scope and the scopes below it. A scope without a budget is included when one below it has one.
#[derive(Debug, Default)]
pub(super) struct Tree<'a> {
    ledgers: Vec<&'a Value>,
    below: BTreeMap<&'a str, Tree<'a>>,
}

impl<'a> Tree<'a> {
    /// The tree of one tenant's ledgers.
    pub fn of(ledgers: &'a [Value]) -> Self {
        let mut root = Self::default();
        for ledger in ledgers {
            let scope = ledger["scope"].as_str().unwrap_or_default();
            let node = scope.split('/').fold(&mut root, |node, segment| {
                node.below.entry(segment).or_default()
            });
            node.ledgers.push(ledger);
        }
        root
    }

    /// The printed lines.
    pub fn lines(&self, terminal: Terminal) -> Vec<String> {
        let mut rows = Vec::new();
        for (segment, node) in &self.below {
            node.add(segment, ["", ""], terminal, &mut rows);
        }
        let widths = rows.iter().map(|(name, _)| name.chars().count());
        let width = widths.max().unwrap_or(0);
        let line = |(name, figures): &(String, String)| {
            format!("{name:<width$}  {figures}").trim_end().to_owned()
        };
        rows.iter().map(line).collect()
    }

    fn add(
        &self,
        segment: &str,
        [own, inner]: [&str; 2],
        terminal: Terminal,
        rows: &mut Vec<(String, String)>,
    ) {
        let figures = |ledger: &&Value| figures(ledger, terminal);
        let mut figures = self.ledgers.iter().map(figures);
        let first = figures.next().unwrap_or_default();
        rows.push((format!("{own}{segment}"), first));
        let line = if self.below.is_empty() { "" } else { "│" };
        rows.extend(figures.map(|figures| (format!("{inner}{line}"), figures)));
        for (at, (segment, node)) in self.below.iter().enumerate() {
            let (branch, rest) = match at + 1 == self.below.len() {
                true => ("└─ ", "   "),
                false => ("├─ ", "│  "),
            };
            let (own, inner) = (format!("{inner}{branch}"), format!("{inner}{rest}"));
            node.add(segment, [&own, &inner], terminal, rows);
        }
    }
}

/// A bar of what is spent, and lighter what is used besides, of a whole.
pub(super) fn bar(spent: i128, used: i128, whole: i128) -> String {
    let cells = |part: i128| match whole {
        0 => BAR * part,
        _ => (part * BAR + whole / 2) / whole,
    };
    let (full, all) = (cells(spent), cells(used));
    let bar = (0..BAR).map(|cell| match cell {
        _ if cell < full => '█',
        _ if cell < all => '▒',
        _ => '░',
    });
    bar.collect()
}

/// Bar, share and amounts of one ledger. Spent, held and owed amounts count as used; the bar shows held ones lighter.
fn figures(ledger: &Value, terminal: Terminal) -> String {
    let amount = |name: &str| i128::from(ledger[name]["amount"].as_i64().unwrap_or(0));
    let (allocated, held) = (amount("allocated"), amount("reserved"));
    let spent = amount("spent") + amount("debt");
    let used = spent + held;
    let bar = bar(spent, used, allocated);
    let share = match allocated {
        0 if used == 0 => "  -".to_owned(),
        0 => "  ∞".to_owned(),
        _ => format!("{:3} %", used * 100 / allocated),
    };
    let readable = |value: i128| {
        let amount = json!({"unit": ledger["unit"], "amount": i64::try_from(value).ok()});
        let dollars = terminal.dollars(&amount);
        dollars.unwrap_or_else(|| value.to_string())
    };
    let of = terminal.dollars(&ledger["allocated"]);
    let of = of.unwrap_or_else(|| plain(&ledger["allocated"]));
    let used = readable(used);
    let mut text = format!("{bar} {share:>5}  {used} of {of} used");
    for (name, value) in [("held", held), ("debt", amount("debt"))] {
        if value > 0 {
            text += &format!(", {} of it {name}", readable(value));
        }
    }
    for limit in ledger["limits"].as_array().into_iter().flatten() {
        let amount = |name: &str| i128::from(limit[name]["amount"].as_i64().unwrap_or(0));
        let [used, of] = ["used", "amount"].map(|name| readable(amount(name)));
        text += &format!("; {used} of {of} in {}", plain(&limit["every"]));
    }
    if ledger["enforcement"] == "OBSERVE" {
        text += "  OBSERVES";
    }
    let over = ledger["is_over_limit"].as_bool() == Some(true);
    text += if over { "  OVER LIMIT" } else { "" };
    match ledger["status"].as_str() {
        Some("ACTIVE") | None => text,
        Some(status) => text + "  " + status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ledger(
        scope: &str,
        unit: &str,
        [allocated, spent, reserved, debt]: [i64; 4],
        status: &str,
    ) -> Value {
        let amount = |amount: i64| json!({"unit": unit, "amount": amount});
        json!({
            "scope": scope, "unit": unit, "status": status, "is_over_limit": debt > 0,
            "allocated": amount(allocated), "spent": amount(spent), "reserved": amount(reserved), "debt": amount(debt),
        })
    }

    #[test]
    fn scopes_are_nested_with_their_bars() {
        let full = [i64::MAX, i64::MAX, 0, 0];
        let ledgers = [
            ledger("tenant:acme", "TOKENS", [1000, 250, 250, 0], "ACTIVE"),
            ledger("tenant:acme", "CREDITS", [0; 4], "ACTIVE"),
            ledger("tenant:acme/app:chat/agent:a", "TOKENS", full, "FROZEN"),
            ledger("tenant:acme/app:mail", "TOKENS", [10, 10, 0, 5], "ACTIVE"),
        ];
        let expected = [
            "tenant:acme    █████▒▒▒▒▒░░░░░░░░░░  50 %  500 of 1000 TOKENS used, 250 of it held",
            "│              ░░░░░░░░░░░░░░░░░░░░     -  0 of 0 CREDITS used",
            "├─ app:chat",
            "│  └─ agent:a  ████████████████████ 100 %  9223372036854775807 of 9223372036854775807 TOKENS used  FROZEN",
            "└─ app:mail    ████████████████████ 150 %  15 of 10 TOKENS used, 5 of it debt  OVER LIMIT",
        ];
        assert_eq!(Tree::of(&ledgers).lines(Terminal::default()), expected);
    }

    #[test]
    fn a_terminal_shows_money_in_dollars() {
        let figures = [1_000_000_000, 250_000_000, 25_000_000, 0];
        let ledgers = [ledger("tenant:acme", "USD_MICROCENTS", figures, "ACTIVE")];
        let terminal = Terminal {
            width: Some(200),
            ..Terminal::default()
        };
        let line = &Tree::of(&ledgers).lines(terminal)[0];
        assert!(
            line.ends_with("$2.75 of $10.00 used, $0.25 of it held"),
            "{line}"
        );
    }
}
