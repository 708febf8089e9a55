//! Words in lines, rows in columns.

use std::fmt::Write as _;

/// Characters of a line, unless a single word is longer.
const WIDTH: usize = 120;

/// Words in lines of bounded width, `between` behind each but the last.
pub(super) fn wrapped(text: &mut String, indent: &str, words: &[String], between: &str) {
    let mut line = String::new();
    for (index, word) in words.iter().enumerate() {
        let word = if index + 1 < words.len() {
            format!("{word}{between}")
        } else {
            word.clone()
        };
        if !line.is_empty() && indent.len() + line.len() + 1 + word.len() > WIDTH {
            let _ = writeln!(text, "{indent}{line}");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&word);
    }
    let _ = writeln!(text, "{indent}{line}");
}

/// Paragraphs with an empty line between.
pub(super) fn paragraphs(text: &mut String, summary: &str) {
    let lines: Vec<_> = summary.lines().map(str::trim).collect();
    for (index, paragraph) in lines
        .split(|line| line.is_empty())
        .filter(|lines| !lines.is_empty())
        .enumerate()
    {
        if index > 0 {
            text.push('\n');
        }
        let words: Vec<_> = paragraph.join(" ").split(' ').map(str::to_owned).collect();
        wrapped(text, "", &words, "");
    }
}

/// Rows in columns; a last column that is too long goes below its row.
pub(super) fn columns(text: &mut String, rows: &[[String; 5]]) {
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<_> = (0..5).map(width).collect();
    for row in rows {
        let cell = |column: usize| match widths[column] {
            0 => String::new(),
            width => format!("{:width$}  ", row[column]),
        };
        let line: String = (0..5).map(cell).collect();
        let line = line.trim_end();
        match line.strip_suffix(row[3].as_str()) {
            Some(short) if line.len() > WIDTH => {
                let _ = writeln!(text, "{}", short.trim_end());
                let words: Vec<_> = row[3].split(' ').map(str::to_owned).collect();
                wrapped(text, "    ", &words, "");
            }
            _ => {
                let _ = writeln!(text, "{line}");
            }
        }
    }
}
