//! Polls how much of its memory Redis uses. Requests act on the last result.

use std::time::Duration;

use tracing::{info, warn};

use crate::store::{FullestNode, MemoryStep, REFUSE_PERCENT, Store};

/// The pause between two polls. Memory may fill beyond a step meanwhile; Redis itself enforces `maxmemory`.
const PERIOD: Duration = Duration::from_secs(1);

/// How long a poll may take.
const POLL_TIMEOUT: Duration = Duration::from_millis(500);

/// Polls until it is dropped. Logs each change of the step.
pub(super) async fn watch(store: &Store) -> ! {
    let mut logged = MemoryStep::Enough;
    loop {
        if let Some(fullest) = store.look_at_memory(POLL_TIMEOUT).await {
            let step = step_after(logged, &fullest);
            if step != logged {
                log(step, &fullest);
            }
            logged = step;
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// The step to log. A margin keeps it from going back and forth around a limit.
fn step_after(logged: MemoryStep, fullest: &FullestNode) -> MemoryStep {
    let falling = logged.min(MemoryStep::at(fullest.share.with_margin()));
    MemoryStep::at(fullest.share).max(falling)
}

fn log(step: MemoryStep, FullestNode { node, share }: &FullestNode) {
    let percent = share.percent();
    let effect = match step {
        MemoryStep::Enough => {
            return info!(redis.address = %node, percent, "Redis at {node} uses {percent} % of maxmemory: enough is free");
        }
        MemoryStep::Warn => {
            format!("from {REFUSE_PERCENT} % on, creates, events and decisions are refused")
        }
        MemoryStep::CountDenials => "denials are only counted".to_owned(),
        MemoryStep::Refuse => "creates, events and decisions are refused".to_owned(),
    };
    warn!(
        redis.address = %node, percent,
        "Redis at {node} uses {percent} % of maxmemory: {effect}. Raise maxmemory, or shorten the retention"
    );
}
