//! Foreign text made fit for a message or a log line.

/// The longest foreign text that a message repeats, in characters.
pub const PRINTABLE_CHARS_MAX: usize = 64;

/// Writes control, direction-changing and invisible characters as escapes and cuts the text after [`PRINTABLE_CHARS_MAX`] characters.
///
/// Whatever a client sent and a message repeats goes through here: a terminal or a log viewer must not act on it.
pub fn printable(text: &str) -> String {
    printable_up_to(text, PRINTABLE_CHARS_MAX)
}

/// As [`printable`], with another length.
pub fn printable_up_to(text: &str, chars_max: usize) -> String {
    let mut printed = String::with_capacity(text.len().min(chars_max));
    for (position, character) in text.chars().enumerate() {
        if position == chars_max {
            printed.push('…');
            break;
        }
        if is_hostile(character) {
            printed.extend(character.escape_unicode());
        } else {
            printed.push(character);
        }
    }
    printed
}

/// Control characters, line separators, marks that change the direction of text, and characters without width, which make two
/// names look the same.
fn is_hostile(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_direction_and_invisible_characters_are_escaped() {
        for (text, printed) in [
            ("plain", "plain"),
            ("a\0b", "a\\u{0}b"),
            ("a\r\nSet-Cookie", "a\\u{d}\\u{a}Set-Cookie"),
            ("\u{1b}[31m", "\\u{1b}[31m"),
            ("\u{202e}gpj", "\\u{202e}gpj"),
            ("größe 漢", "größe 漢"),
            ("pro\u{200b}d", "pro\\u{200b}d"),
            (
                "\u{2060}a\u{ad}\u{fe0f}\u{e0041}",
                "\\u{2060}a\\u{ad}\\u{fe0f}\\u{e0041}",
            ),
        ] {
            assert_eq!(printable(text), printed);
        }
    }

    #[test]
    fn long_text_is_cut() {
        let printed = printable(&"x".repeat(1000));
        assert_eq!(printed.chars().count(), PRINTABLE_CHARS_MAX + 1);
        assert_eq!(printable(&"x".repeat(64)), "x".repeat(64));
    }
}
