//! Statistics of Redis: for benchmarks, and to find slow scripts.

use std::collections::BTreeMap;

use crate::store::calls::of_all_nodes;
use crate::store::records::read_or_default;
use crate::store::{Lane, Store, StoreError};

/// How often a command ran, and how long in all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CommandStatistics {
    /// Calls, those that scripts made included.
    pub calls: u64,
    /// Time that they took of Redis's one thread, in microseconds.
    pub us: u64,
}

/// The counts of all nodes together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statistics {
    /// By name, as in `evalsha` or `script|load`.
    pub commands: BTreeMap<String, CommandStatistics>,
    /// Memory that the data and the connections take, in bytes.
    pub used_memory: u64,
}

impl Store {
    /// Reads the counts.
    ///
    /// # Errors
    /// When a node cannot be asked, or an ACL forbids it.
    pub async fn statistics(&self) -> Result<Statistics, StoreError> {
        let limit = self.timeout();
        let mut statistics = Statistics::default();
        for section in ["commandstats", "memory"] {
            let mut info = redis::cmd("INFO");
            info.arg(section);
            for reply in of_all_nodes(self.send_to_nodes(Lane::Background, &info, limit).await?)? {
                statistics.add(&read_or_default::<String>(reply));
            }
        }
        Ok(statistics)
    }

    /// Sets the counts of commands to zero, for every client of these nodes.
    ///
    /// # Errors
    /// As for [`Store::statistics`].
    pub async fn reset_statistics(&self) -> Result<(), StoreError> {
        let limit = self.timeout();
        let mut reset = redis::cmd("CONFIG");
        reset.arg("RESETSTAT");
        of_all_nodes(self.send_to_nodes(Lane::Background, &reset, limit).await?).map(drop)
    }
}

impl Statistics {
    /// A command's counts; zero when it has not run.
    pub fn command(&self, name: &str) -> CommandStatistics {
        self.commands.get(name).copied().unwrap_or_default()
    }

    fn add(&mut self, info: &str) {
        for line in info.lines() {
            if let Some(bytes) = line.strip_prefix("used_memory:") {
                self.used_memory += bytes.trim().parse::<u64>().unwrap_or(0);
            }
            let Some((name, fields)) = line
                .strip_prefix("cmdstat_")
                .and_then(|rest| rest.split_once(':'))
            else {
                continue;
            };
            let field = |name: &str| {
                let value = fields.split(',').find_map(|field| field.strip_prefix(name));
                value.and_then(|value| value.parse().ok()).unwrap_or(0)
            };
            let command = self.commands.entry(name.to_owned()).or_default();
            command.calls += field("calls=");
            command.us += field("usec=");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_several_nodes_add_up() {
        let mut statistics = Statistics::default();
        let info = "# Commandstats\r\n\
            cmdstat_evalsha:calls=10,usec=350,usec_per_call=35.00,rejected_calls=0,failed_calls=0\r\n\
            cmdstat_script|load:calls=1,usec=9,usec_per_call=9.00,rejected_calls=0,failed_calls=0\r\n";
        statistics.add(info);
        statistics.add(info);
        statistics.add("# Memory\r\nused_memory:1000\r\nused_memory_human:1K\r\n");
        assert_eq!(
            statistics.command("evalsha"),
            CommandStatistics { calls: 20, us: 700 }
        );
        assert_eq!(statistics.command("script|load").calls, 2);
        assert_eq!(statistics.command("get"), CommandStatistics::default());
        assert_eq!(statistics.used_memory, 1_000);
    }
}
