//! Settings of the log.

use std::str::FromStr as _;

use clap::{Args, ValueEnum};
use tracing_subscriber::filter::{LevelFilter, Targets};

/// Flags of the log.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Log")]
pub struct LogArgs {
    /// What to log: a level, or `target=level` pairs, comma-separated.
    ///
    /// Change it when a problem needs more detail, such as `info,budget_authority::dispatcher=debug`
    #[arg(long, env = "BUDGET_LOG", value_name = "FILTER", default_value = "info", value_parser = log_filter)]
    pub log: Targets,
    /// One JSON object per line, or text for people.
    ///
    /// Change it when people read the log in a terminal
    #[arg(long, env = "BUDGET_LOG_FORMAT", default_value = "json")]
    pub log_format: LogFormat,
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object per line.
    Json,
    /// Text for people.
    Text,
}

/// Reads a level, or pairs of target and level. A level without a target is for all other targets, which log nothing without it.
///
/// # Errors
/// The problem, as a sentence.
pub fn log_filter(text: &str) -> Result<Targets, String> {
    let mut filter = Targets::new();
    for part in text.split(',').map(str::trim) {
        let (target, level) = match part.split_once('=') {
            Some((target, level)) => (Some(target.trim()), level.trim()),
            None => (None, part),
        };
        let named = LevelFilter::from_str(level)
            .ok()
            .filter(|_| !level.is_empty());
        let level = named.ok_or_else(|| {
            format!(
                "`{level}` is not a level: write error, warn, info, debug, trace or off, or target=level"
            )
        })?;
        filter = match target {
            Some(target) if target.is_empty() || target.contains(is_invalid_in_target) => {
                return Err(format!(
                    "`{target}` is not a target: they hold letters, digits, _ and ::, such as budget_authority::dispatcher"
                ));
            }
            Some(target) => filter.with_target(target, level),
            None => filter.with_default(level),
        };
    }
    Ok(filter)
}

/// Targets are paths of modules, and names such as `access_log`.
fn is_invalid_in_target(character: char) -> bool {
    !character.is_ascii_alphanumeric() && !['_', ':', '-', '.'].contains(&character)
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn a_word_without_target_is_a_level() {
        let enabled = |text: &str, target: &str, level| {
            log_filter(text).expect(text).would_enable(target, &level)
        };
        assert!(enabled("WARN", "any", Level::WARN) && !enabled("WARN", "any", Level::INFO));
        assert!(!enabled("off", "any", Level::ERROR));
        let both = "info, access_log=debug";
        assert!(enabled(both, "access_log", Level::DEBUG));
        assert!(enabled(both, "any", Level::INFO) && !enabled(both, "any", Level::DEBUG));
        assert!(enabled("budget=trace", "budget::sweep", Level::TRACE));
        assert!(!enabled("budget=trace", "any", Level::ERROR));
        for bad in [
            "",
            "info,",
            "inof",
            "info,access_log",
            "access_log=inof",
            "access_log=",
            "=info",
            "[span]=info",
            "budget[span{id=1}]=info",
        ] {
            assert!(log_filter(bad).is_err(), "{bad}");
        }
    }
}
