//! Colours and the width of lines: of a terminal alone, so that pipes and files get plain text.

use std::io::IsTerminal as _;

/// How text is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Style {
    /// Whether with colours.
    pub colour: bool,
    /// Columns of the terminal, if it is one.
    pub width: Option<usize>,
}

/// What a text means to an operator, and the code of its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Heading = 1,
    Good = 32,
    /// It is stopped for a while, or is repeated.
    Paused = 33,
    /// It failed, or needs attention.
    Bad = 31,
    /// It has ended, or is of less interest.
    Faint = 2,
}

impl Style {
    /// That of standard output. `NO_COLOR`, or a terminal without capabilities, turns colours off.
    pub fn of_stdout() -> Self {
        if !std::io::stdout().is_terminal() {
            return Self::default();
        }
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Self {
            colour: !is_set("NO_COLOR") && !is_dumb,
            width: columns(),
        }
    }

    /// The text in the colour of a tone.
    pub fn paint(self, text: &str, tone: Option<Tone>) -> String {
        let Some(tone) = tone.filter(|_| self.colour && !text.trim().is_empty()) else {
            return text.to_owned();
        };
        format!("\u{1b}[{}m{text}\u{1b}[0m", tone as u8)
    }

    /// The text, cut to the width of the terminal that `used` columns leave.
    pub fn fit(self, text: &str, used: usize) -> String {
        let Some(left) = self.width.map(|width| width.saturating_sub(used)) else {
            return text.to_owned();
        };
        if text.chars().count() <= left {
            return text.to_owned();
        }
        let cut = text.chars().take(left.saturating_sub(1));
        cut.chain((left > 0).then_some('…')).collect()
    }
}

/// What the word of a status means.
pub(super) fn tone_of(word: &str) -> Option<Tone> {
    Some(match word {
        "ACTIVE" | "SUCCESS" => Tone::Good,
        "FROZEN" | "SUSPENDED" | "PAUSED" | "RETRYING" | "PENDING" => Tone::Paused,
        "FAILED" | "DISABLED" => Tone::Bad,
        "CLOSED" | "REVOKED" | "EXPIRED" | "COMMITTED" | "RELEASED" => Tone::Faint,
        _ => return None,
    })
}

#[expect(unsafe_code, reason = "the standard library has no such call")]
fn columns() -> Option<usize> {
    // SAFETY: integers, which may be zero.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: `size` is valid for the write, and nothing keeps the pointer.
    let read = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) } == 0;
    Some(usize::from(size.ws_col)).filter(|columns| read && *columns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_terminal_with_colours_gets_them() {
        let (colour, width) = (true, None);
        let coloured = Style { colour, width };
        let painted = coloured.paint("FAILED", tone_of("FAILED"));
        assert_eq!(painted, "\u{1b}[31mFAILED\u{1b}[0m");
        assert_eq!(coloured.paint("x", tone_of("x")), "x");
        assert_eq!(coloured.paint("  ", Some(Tone::Bad)), "  ");
        assert_eq!(Style::default().paint("FAILED", Some(Tone::Bad)), "FAILED");
    }

    #[test]
    fn a_line_is_cut_to_what_is_left_of_the_width() {
        let (colour, width) = (false, Some(10));
        let narrow = Style { colour, width };
        assert_eq!(narrow.fit("0123456789", 0), "0123456789");
        assert_eq!(narrow.fit("0123456789", 4), "01234…");
        assert_eq!(narrow.fit("0123456789", 9), "…");
        assert_eq!(narrow.fit("0123456789", 12), "");
        assert_eq!(Style::default().fit("0123456789", 4), "0123456789");
    }
}
