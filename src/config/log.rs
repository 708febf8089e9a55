//! What is logged, and how.

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

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

/// The form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object per line.
    Json,
    /// Text for people.
    Text,
}

fn filter(text: &str) -> Result<String, String> {
    EnvFilter::try_new(text)
        .map(|_| text.to_owned())
        .map_err(|error| error.to_string())
}
