//! Settings of the log.

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Flags of the log.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Log")]
pub struct LogArgs {
    /// What to log: a level, or `target=level` pairs, comma-separated
    #[arg(long, env = "BUDGET_LOG", value_name = "FILTER", default_value = "info", value_parser = filter)]
    pub log: String,
    /// One JSON object per line, or text for people
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

fn filter(text: &str) -> Result<String, String> {
    // The filter would take a misspelt level for a target and silence everything else.
    let bare = |part: &&str| !part.is_empty() && !part.contains(['=', '[', ':']);
    for part in text.split(',').map(str::trim).filter(bare) {
        if part.parse::<LevelFilter>().is_err() {
            return Err(format!(
                "`{part}` is not a level: write error, warn, info, debug, trace or off, or target=level"
            ));
        }
    }
    EnvFilter::try_new(text)
        .map(|_| text.to_owned())
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_without_target_is_a_level() {
        for good in [
            "info",
            "WARN",
            "off",
            "info,access_log=debug",
            "budget_authority::sweep=trace",
        ] {
            assert_eq!(filter(good).as_deref(), Ok(good));
        }
        for bad in ["inof", "info,access_log", "access_log=inof"] {
            assert!(filter(bad).is_err(), "{bad}");
        }
    }
}
