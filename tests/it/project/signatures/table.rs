//! The table of keys.

use std::fmt::Write as _;

use budget_authority::store::keys::Key;
use budget_authority::store::scripts::SIGNATURES;
use budget_authority::store::signature::{Access, Signature};

/// The table of keys for `docs/redis.md`.
pub(super) fn table() -> String {
    let mut text = "| Key | Type | Holds | Written by | Goes |\n|---|---|---|---|---|\n".to_owned();
    for key in Key::all() {
        let place = key.place.replace("<p>", "p");
        let pattern = format!("ba:{place}{}", key.pattern(&[]));
        let writes = |signature: &&&Signature| {
            let own = signature.keys.iter().map(|used| (used.access, used.key));
            let list = signature
                .list
                .iter()
                .flat_map(|list| list.keys.iter().map(|key| (list.access, *key)));
            let built = signature.builds.iter().copied();
            let mut all = own.chain(list).chain(built);
            all.any(|(access, used)| access == Access::Write && std::ptr::eq(used, key))
        };
        let mut scripts: Vec<_> = SIGNATURES
            .iter()
            .filter(writes)
            .map(|one| one.script.name())
            .collect();
        scripts.sort_unstable();
        let scripts: Vec<_> = scripts.iter().map(|name| format!("`{name}`")).collect();
        let scripts = match scripts.is_empty() {
            true => "single commands".to_owned(),
            false => scripts.join(", "),
        };
        let holds = key.holds.trim().replace('|', "\\|");
        let _ = writeln!(
            text,
            "| `{pattern}` | {} | {holds} | {scripts} | {} |",
            key.kind, key.goes
        );
    }
    text
}
