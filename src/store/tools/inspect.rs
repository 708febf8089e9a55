//! Looks at how Redis is configured and says what is at risk.

use std::collections::HashMap;
use std::time::Duration;

use redis::Value;

use crate::store::calls::of_reachable_nodes;
use crate::store::records::read_or_default;
use crate::store::{Lane, Store, StoreError};

/// One thing about a Redis node that an operator should know or change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Address of the node.
    pub node: String,
    /// The finding, its risk and the remedy.
    pub message: String,
}

/// The commands for each node, in the order of [`judge`]'s checks.
const SETTINGS: [&str; 5] = [
    "maxmemory",
    "appendonly",
    "save",
    "hash-max-listpack-value",
    "min-replicas-to-write",
];

impl Store {
    /// Checks each node's version, eviction policy, persistence and hash encoding.
    ///
    /// # Errors
    /// When no node can be asked at all; a version or a policy that may lose records, unless the settings allow it. What an
    /// ACL hides is a finding, not an error.
    pub async fn inspect(&self) -> Result<Vec<Finding>, StoreError> {
        let mut findings = Vec::new();
        let mut config = redis::cmd("CONFIG");
        config.arg("GET").arg(&SETTINGS);
        for (command, what) in [
            (redis::cmd("INFO"), "version and eviction policy"),
            (config, "memory and persistence"),
        ] {
            let replies = self.send_to_nodes(Lane::Background, &command, self.timeout());
            let replies = match of_reachable_nodes(replies.await?) {
                Err(StoreError::ErrorReply { code, .. }) => {
                    let node = "Redis".to_owned();
                    let message = format!(
                        "it refuses to state its {what} ({code}), which were not checked: make sure that \
                         maxmemory-policy is noeviction and appendonly is yes"
                    );
                    findings.push(Finding { node, message });
                    continue;
                }
                replies => replies?,
            };
            for (node, reply) in replies {
                let messages = match reply {
                    Value::Map(_) | Value::Array(_) => {
                        let settings = read_or_default(reply);
                        let mut messages = judge(&settings, self.inner.options.ephemeral);
                        messages.extend(judge_min_replicas(&settings, self.inner.options.wait));
                        messages
                    }
                    reply => {
                        let info: String = read_or_default(reply);
                        let mut messages = self.judge_info(&node, &info)?;
                        messages.extend(judge_replicas(&info, self.inner.options.wait));
                        messages
                    }
                };
                let finding = |message| Finding {
                    node: node.clone(),
                    message,
                };
                findings.extend(messages.into_iter().map(finding));
            }
        }
        Ok(findings)
    }

    /// Checks that no node evicts keys, unless the settings allow it. A node that cannot be asked is no evidence.
    ///
    /// # Errors
    /// [`StoreError::Deployment`] names the node, its policy and what to do.
    pub async fn check_eviction(&self, limit: Duration) -> Result<(), StoreError> {
        if self.inner.options.allow_unsafe {
            return Ok(());
        }
        for (node, info) in self.memory_infos(limit).await.unwrap_or_default() {
            self.judge_info(&node, &info)?;
        }
        Ok(())
    }

    /// What `INFO` says of a Redis that may lose records.
    fn judge_info(&self, node: &str, info: &str) -> Result<Vec<String>, StoreError> {
        let messages: Vec<String> = judge_version(info)
            .into_iter()
            .chain(judge_policy(info))
            .collect();
        match messages.first() {
            Some(message) if !self.inner.options.allow_unsafe => Err(StoreError::Deployment(
                format!("Redis at {node}: {message}; or set BUDGET_ALLOW_UNSAFE_REDIS=true"),
            )),
            _ => Ok(messages),
        }
    }
}

/// The value of a line of `INFO`.
fn value<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let found = info.lines().find_map(|line| line.strip_prefix(name));
    found.map(str::trim)
}

/// `INFO` has a `redis_version`; Valkey states 7.2.4 there and its own number in `valkey_version`.
fn judge_version(info: &str) -> Option<String> {
    let number = |version: &str| {
        let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
        Some((parts.next()??, parts.next()??))
    };
    let (name, version, least) = match value(info, "valkey_version:") {
        Some(version) => ("Valkey", version, (7, 2)),
        None => ("Redis", value(info, "redis_version:")?, (7, 0)),
    };
    let too_old = number(version).is_some_and(|found| found < least);
    too_old.then(|| format!("{name} {version} is too old. Use Redis 7.0 or Valkey 7.2 or later"))
}

fn judge_policy(info: &str) -> Option<String> {
    let policy = value(info, "maxmemory_policy:")?;
    (policy != "noeviction").then(|| {
        format!("maxmemory-policy is {policy}: it may throw reservations and ledgers away. Set it to noeviction")
    })
}

/// `wait`: how many replicas must have what a request writes.
fn judge_replicas(info: &str, wait: u16) -> Option<String> {
    let is_online = |line: &&str| line.starts_with("slave") && line.contains("state=online");
    let online = info.lines().filter(is_online).count();
    (online < usize::from(wait)).then(|| {
        format!(
            "it has {online} replicas in step, and BUDGET_REDIS_WAIT demands {wait}: requests that write are 503 until they \
             are there. Attach them, or lower the setting"
        )
    })
}

/// A master that is cut off from its replicas takes writes of others, such as dispatchers, until it learns of the failover.
fn judge_min_replicas(settings: &HashMap<String, String>, wait: u16) -> Option<String> {
    let least = settings.get("min-replicas-to-write")?.parse::<u16>().ok()?;
    (wait > 0 && least == 0).then(|| {
        "min-replicas-to-write is 0: a master that is cut off from its replicas takes writes that a failover loses. Set it \
         to 1"
        .to_owned()
    })
}

/// `ephemeral`: the data is not meant to be kept.
fn judge(settings: &HashMap<String, String>, ephemeral: bool) -> Vec<String> {
    let setting = |name: &str| settings.get(name).map(String::as_str);
    let mut messages = Vec::new();
    if let Some("0") = setting("maxmemory") {
        messages.push(
            "maxmemory is not set: nothing is refused before the host runs out of memory. Set it below the memory of the host"
                .to_owned(),
        );
    }
    if !ephemeral && setting("appendonly") == Some("no") {
        let rest = match setting("save") {
            Some("") | None => "a restart of Redis loses everything",
            Some(_) => "a crash of Redis loses all that was done since the last snapshot",
        };
        messages.push(format!("appendonly is no: {rest}. Set appendonly to yes"));
    }
    let listpack = setting("hash-max-listpack-value").and_then(|value| value.parse::<u64>().ok());
    if let Some(bytes) = listpack.filter(|bytes| *bytes < 1024) {
        messages.push(format!(
            "hash-max-listpack-value is {bytes}: records with a longer field take about twice the memory. Set it to 1024"
        ));
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(settings: &[(&str, &str)]) -> Vec<String> {
        let owned = settings.iter().map(|(k, v)| (k.to_string(), v.to_string()));
        judge(&owned.collect(), false)
    }

    #[test]
    fn a_safe_configuration_has_no_warnings() {
        let safe = [
            ("maxmemory", "1000000"),
            ("appendonly", "yes"),
            ("save", ""),
            ("hash-max-listpack-value", "1024"),
        ];
        assert_eq!(messages(&safe), Vec::<String>::new());
        assert_eq!(messages(&[]), Vec::<String>::new());
    }

    #[test]
    fn each_risk_is_named_with_its_remedy() {
        let risky = [
            ("maxmemory", "0"),
            ("appendonly", "no"),
            ("save", ""),
            ("hash-max-listpack-value", "64"),
        ];
        let found = messages(&risky);
        assert_eq!(found.len(), 3);
        assert!(found[0].contains("maxmemory is not set"));
        assert!(found[1].contains("loses everything"));
        assert!(found[2].contains("64"));
        assert!(messages(&[("appendonly", "no"), ("save", "3600 1")])[0].contains("last snapshot"));
        let ephemeral = HashMap::from([("appendonly".to_owned(), "no".to_owned())]);
        assert!(judge(&ephemeral, true).is_empty());
    }

    #[test]
    fn required_replicas_must_be_connected() {
        let info = "role:master\r\nconnected_slaves:2\r\nslave0:ip=a,port=1,state=online,offset=1\r\n\
            slave1:ip=b,port=1,state=wait_bgsave,offset=0\r\n";
        assert_eq!(judge_replicas(info, 0), None);
        assert_eq!(judge_replicas(info, 1), None);
        assert!(judge_replicas(info, 2).is_some_and(|m| m.contains("1 replicas in step")));
        let setting =
            |least: &str| HashMap::from([("min-replicas-to-write".to_owned(), least.to_owned())]);
        assert_eq!(judge_min_replicas(&setting("0"), 0), None);
        assert_eq!(judge_min_replicas(&setting("1"), 1), None);
        assert!(judge_min_replicas(&setting("0"), 1).is_some());
    }

    #[test]
    fn every_policy_that_evicts_is_named() {
        assert_eq!(judge_policy("maxmemory_policy:noeviction\r\n"), None);
        assert_eq!(judge_policy("used_memory:1\r\n"), None);
        for policy in [
            "allkeys-lru",
            "volatile-lfu",
            "allkeys-random",
            "volatile-ttl",
        ] {
            let message = judge_policy(&format!("used_memory:1\r\nmaxmemory_policy:{policy}\r\n"));
            assert!(message.is_some_and(|m| m.contains(policy) && m.contains("noeviction")));
        }
    }

    #[test]
    fn old_versions_are_named() {
        assert_eq!(judge_version("redis_version:7.0.15\r\n"), None);
        assert!(
            judge_version("redis_version:6.2.1\r\n").is_some_and(|m| m.contains("Redis 6.2.1"))
        );
        assert_eq!(
            judge_version("redis_version:7.2.4\r\nvalkey_version:8.0.1\r\n"),
            None
        );
    }
}
