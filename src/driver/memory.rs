//! How much of its memory a Redis node uses, and from which shares on requests that take more are cut back.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Share of `maxmemory`, in percent, from which readiness and the log warn: early enough to add memory.
const WARN_PERCENT: u32 = 75;
/// Share from which denials, which cost their callers nothing, are only counted.
const COUNT_DENIALS_PERCENT: u32 = 85;
/// Share from which creates, usage events and decisions are refused, so that what is held can still be settled.
pub const REFUSE_PERCENT: u32 = 90;

/// How short memory is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryStep {
    /// Not short, as far as known.
    #[default]
    Enough,
    /// Somebody should act.
    Warn,
    /// Denials are only counted.
    CountDenials,
    /// Creates, usage events and decisions are refused.
    Refuse,
}

impl MemoryStep {
    /// The step at a share.
    pub fn at(share: MemoryShare) -> Self {
        match share.percent() {
            REFUSE_PERCENT.. => Self::Refuse,
            COUNT_DENIALS_PERCENT.. => Self::CountDenials,
            WARN_PERCENT.. => Self::Warn,
            _ => Self::Enough,
        }
    }
}

/// The share of `maxmemory` that a node uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemoryShare {
    permille: u32,
    limit_bytes: u64,
}

impl MemoryShare {
    /// All of it.
    pub(crate) const FULL: Self = Self {
        permille: 1_000,
        limit_bytes: 0,
    };

    /// As `INFO memory` states it; none where there is no limit. Redis does not count all that it uses, such as buffers of
    /// replicas, against its limit.
    pub(crate) fn of_info(info: &str) -> Self {
        let figure = |name: &str| {
            let value = info.lines().find_map(|line| line.strip_prefix(name));
            value.and_then(|value| value.trim().parse::<u64>().ok())
        };
        let limit = figure("maxmemory:").unwrap_or(0);
        let not_counted = figure("mem_not_counted_for_evict:").unwrap_or(0);
        let used = figure("used_memory:").unwrap_or(0);
        let used = used.saturating_sub(not_counted);
        let permille = used.saturating_mul(1_000).checked_div(limit);
        Self {
            permille: permille.and_then(|it| u32::try_from(it).ok()).unwrap_or(0),
            limit_bytes: limit,
        }
    }

    /// In whole percent, rounded down.
    pub fn percent(self) -> u32 {
        self.permille / 10
    }

    /// 1 for all of it.
    pub fn ratio(self) -> f64 {
        f64::from(self.permille) / 1_000.0
    }

    /// This many hundredths of `maxmemory`, in bytes; 0 while that is not known.
    pub fn bytes_of(self, percent: u32) -> u64 {
        self.limit_bytes / 100 * u64::from(percent)
    }

    /// Two hundredths more: what must have become free before a step counts as over.
    pub fn with_margin(self) -> Self {
        Self {
            permille: self.permille + 20,
            ..self
        }
    }
}

/// The share of a node as it was last seen.
#[derive(Debug, Default)]
pub(crate) struct SeenShare {
    permille: AtomicU32,
    limit_bytes: AtomicU64,
}

impl SeenShare {
    pub(crate) fn note(&self, share: MemoryShare) {
        self.permille.store(share.permille, Ordering::Relaxed);
        // A node that refuses to store more does not say how large its limit is.
        if share != MemoryShare::FULL {
            self.limit_bytes.store(share.limit_bytes, Ordering::Relaxed);
        }
    }

    pub(crate) fn get(&self) -> MemoryShare {
        MemoryShare {
            permille: self.permille.load(Ordering::Relaxed),
            limit_bytes: self.limit_bytes.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_what_redis_counts_against_its_limit() {
        let permille = |info: &str| MemoryShare::of_info(info).permille;
        let info =
            "# Memory\r\nused_memory:950\r\nmem_not_counted_for_evict:50\r\nmaxmemory:1000\r\n";
        assert_eq!(permille(info), 900);
        assert_eq!(permille("used_memory:2000\r\nmaxmemory:1000\r\n"), 2_000);
        assert_eq!(permille("used_memory:2000\r\nmaxmemory:0\r\n"), 0);
        assert_eq!(permille(""), 0);
    }

    #[test]
    fn each_step_begins_at_its_percent() {
        let step = |permille| {
            let limit_bytes = 0;
            MemoryStep::at(MemoryShare {
                permille,
                limit_bytes,
            })
        };
        let steps = [0, 749, 750, 849, 850, 899, 900, 3_000].map(step);
        use MemoryStep::{CountDenials, Enough, Refuse, Warn};
        let expected = [
            Enough,
            Enough,
            Warn,
            Warn,
            CountDenials,
            CountDenials,
            Refuse,
            Refuse,
        ];
        assert_eq!(steps, expected);
    }
}
