//! Looks again and again how short of memory Redis is: requests go by what was seen last.

use std::time::Duration;

use tracing::{info, warn};

use crate::store::{FullestNode, MemoryStep, MemorySteps, Store};

/// The pause between two looks. In it, memory may fill beyond a step; Redis itself holds the last limit.
const PERIOD: Duration = Duration::from_secs(1);

/// How long a look may take.
const LOOK_LIMIT: Duration = Duration::from_millis(500);

/// Looks until it is dropped. Says in the log when another step begins.
pub(super) async fn watch(store: &Store) -> ! {
    let mut noted = MemoryStep::Enough;
    loop {
        if let Some(fullest) = store.look_at_memory(LOOK_LIMIT).await {
            let steps = store.memory_steps();
            let step = step_after(noted, steps, &fullest);
            if step != noted {
                state(step, steps, &fullest);
            }
            noted = step;
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// The step that the log states. Around a limit it does not go back and forth.
fn step_after(noted: MemoryStep, steps: MemorySteps, fullest: &FullestNode) -> MemoryStep {
    let falling = noted.min(steps.at(fullest.share.with_margin()));
    steps.at(fullest.share).max(falling)
}

fn state(step: MemoryStep, steps: MemorySteps, FullestNode { node, share }: &FullestNode) {
    let percent = share.percent();
    let effect = match step {
        MemoryStep::Enough => {
            return info!(redis.address = %node, percent, "Redis at {node} uses {percent} % of maxmemory: enough is free");
        }
        MemoryStep::Warn => format!(
            "from {} % on, creates, events and decisions are refused",
            steps.refuse
        ),
        MemoryStep::CountDenials => "denials are only counted".to_owned(),
        MemoryStep::Refuse => "creates, events and decisions are refused".to_owned(),
    };
    warn!(
        redis.address = %node, percent,
        "Redis at {node} uses {percent} % of maxmemory: {effect}. Raise maxmemory, or shorten the retention"
    );
}
