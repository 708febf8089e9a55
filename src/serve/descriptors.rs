//! The limit of open files, which bounds the connections of the process.

use tracing::warn;

/// Connections to Redis, logs and listeners, beside those that are counted.
const OTHERS: u64 = 200;

/// Raises the limit of open files to its maximum: the default of many systems is 1,024. Warns if the maximum is too low for these
/// connections.
pub fn raise_limit(connections: usize) {
    let Some(limit) = raise_to_maximum() else {
        return;
    };
    let needed = connections as u64 + OTHERS;
    if limit < needed {
        warn!(
            limit,
            needed,
            "the process may open {limit} files; {connections} connections take {needed}. Raise the limit of open files"
        );
    }
}

/// Raises the limit to its maximum; `None` where the system has none.
#[cfg(unix)]
#[expect(unsafe_code, reason = "the standard library has no such call")]
fn raise_to_maximum() -> Option<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for the write, and nothing keeps the pointer.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return None;
    }
    let before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` is valid for the read, and nothing keeps the pointer.
    let is_raised = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } == 0;
    Some(if is_raised { limit.rlim_max } else { before })
}

#[cfg(not(unix))]
fn raise_to_maximum() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_to_its_maximum() {
        let limit = raise_to_maximum().expect("the system has one");
        assert!(limit >= 1_024, "{limit}");
        assert_eq!(raise_to_maximum(), Some(limit));
    }
}
