//! Errors of reading JSON.

/// Why bytes are not acceptable JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// No bytes, or white space alone.
    #[error("the body is empty")]
    Empty,
    /// Bytes that are not UTF-8.
    #[error("invalid UTF-8 at byte {byte}")]
    NotUtf8 {
        /// Counted from 0.
        byte: usize,
    },
    /// Not JSON: broken syntax, bytes after the value, a lone surrogate.
    #[error("{reason} at byte {byte}")]
    Syntax {
        /// What the lexer found wrong.
        reason: String,
        /// Counted from 0.
        byte: usize,
    },
    /// A member whose name occurs twice in one object.
    #[error("duplicate member `{path}`")]
    Duplicate {
        /// The member.
        path: String,
    },
    /// Arrays and objects nested too deep.
    #[error("nested deeper than {depth_max} levels at `{path}`")]
    TooDeep {
        /// How deep they may nest.
        depth_max: usize,
        /// The first value beyond.
        path: String,
    },
    /// A number that no double can hold.
    #[error("the number at `{path}` is beyond the range of a double")]
    NumberRange {
        /// The number's member.
        path: String,
    },
}

impl JsonError {
    /// `part` is the piece of `whole` that was being read when the error arose.
    pub(super) fn syntax(whole: &str, part: &str, error: &serde_json::Error) -> Self {
        let message = error.to_string();
        let reason = message
            .split(" at line ")
            .next()
            .unwrap_or("syntax error")
            .to_owned();
        let line_start: usize = part
            .split_inclusive('\n')
            .take(error.line().saturating_sub(1))
            .map(str::len)
            .sum();
        let part_start = part.as_ptr() as usize - whole.as_ptr() as usize;
        Self::Syntax {
            reason,
            byte: part_start + line_start + error.column().saturating_sub(1),
        }
    }
}
