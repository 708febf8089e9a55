//! Files as YAML, of which JSON is a part.

use serde_json::Value;

use super::kinds::is_among;

/// Members of an object that come first, and last.
const FIRST: &str = "tenant_id name scope scope_pattern unit allocated every";
const LAST: &str = "budget_templates budgets policies webhooks keys";
/// What some version of YAML takes for something other than text.
const NOT_TEXT: &str = "true false null yes no on off y n";

/// # Errors
/// Line and column, and what is wrong there.
pub(super) fn read(text: &str) -> Result<Value, String> {
    let options = serde_saphyr::options! { budget: None, strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())
}

/// Writes a list of objects, the identity of each first. What is in their members is JSON, but for further lists of objects.
pub(super) fn write(list: &Value, margin: &str, text: &mut String) {
    for object in list.as_array().into_iter().flatten() {
        let mut members: Vec<_> = object.as_object().into_iter().flatten().collect();
        let place = |names: &str, name: &str| names.split(' ').position(|known| known == name);
        let first = |name: &str| place(FIRST, name).unwrap_or(usize::MAX);
        members.sort_by_key(|(name, _)| (place(LAST, name), first(name)));
        let mut mark = "- ";
        for (name, value) in members {
            *text += &format!("{margin}{mark}{name}:");
            mark = "  ";
            if value[0].is_object() {
                text.push('\n');
                write(value, &format!("{margin}    "), text);
            } else {
                *text += &format!(" {}\n", scalar(value));
            }
        }
    }
}

/// JSON, but for words that are text in YAML too.
fn scalar(value: &Value) -> String {
    let is_word = |text: &&str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-/:.".contains(c);
        let begins = text.starts_with(|c: char| c.is_ascii_alphabetic());
        let is_plain = begins && text.chars().all(is_plain) && !text.ends_with(':');
        is_plain && !is_among(NOT_TEXT, &text.to_ascii_lowercase())
    };
    let word = value.as_str().filter(is_word);
    word.map_or_else(|| value.to_string(), str::to_owned)
}
