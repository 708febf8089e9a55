//! Spikes in a random history of outcomes match a simple model of sliding windows.

#![cfg(target_os = "linux")]

use std::collections::BTreeMap;

use budget_authority::store::dispatcher::traffic::Tally;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use super::spikes::SpikeFixture;

/// The limits of the history: the counted outcome, the threshold, the window and the width of its buckets.
const LIMITS: [(bool, f64, i64, i64); 5] = [
    (true, 0.1, 300, 5),
    (false, 0.1, 300, 5),
    (true, 0.5, 60, 5),
    (true, 0.25, 900, 30),
    (false, 0.3, 7_200, 180),
];

/// The model: the counts with their times, and for each limit when it was last exceeded and whether it was met since.
#[derive(Default)]
struct Model {
    seen: Vec<(i64, Tally)>,
    fired: BTreeMap<usize, (i64, bool)>,
}

impl Model {
    /// Whether a window that had an event ends at this second: milliseconds would decide.
    fn is_on_edge(&self, now: i64) -> bool {
        let mut fired = self.fired.iter();
        fired.any(|(at, (then, _))| now - then == LIMITS[*at].2)
    }

    fn judge(&mut self, now: i64) -> Vec<usize> {
        let mut firing = Vec::new();
        for (at, (denials, above, window, width)) in LIMITS.into_iter().enumerate() {
            let oldest = now / width - (window + width - 1) / width;
            let (mut occurrences, mut samples) = (0, 0);
            for (_, tally) in self.seen.iter().filter(|(time, _)| time / width > oldest) {
                occurrences += if denials { tally.denied } else { tally.refused };
                samples += if denials { tally.decided } else { tally.tried };
            }
            let last = self.fired.get(&at).copied();
            if samples == 0 || occurrences as f64 / samples as f64 <= above {
                self.fired.entry(at).and_modify(|(_, armed)| *armed = true);
            } else if samples >= 10
                && last.is_none_or(|(then, armed)| armed && now - then >= window)
            {
                self.fired.insert(at, (now, false));
                firing.push(at);
            }
        }
        firing
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn spikes_match_a_model_on_a_random_history() {
    let seed: u64 = rand::random();
    let mut random = SmallRng::seed_from_u64(seed);
    let acme = SpikeFixture::start(Some("acme")).await;
    acme.watch(
        "denial_rate:0.5:60 denial_rate:0.25:900 auth_failure_rate:0.3:7200 expiry_rate:1:60",
    )
    .await;
    let (mut model, mut now, mut fired) = (Model::default(), 0, 0);
    for step in 0..150 {
        let calm = random.random_bool(0.6);
        let decided = random.random_range(0..60);
        let tried = random.random_range(0..60);
        let tally = Tally {
            decided,
            denied: if calm {
                decided / 15
            } else {
                random.random_range(0..=decided)
            },
            tried,
            refused: if calm {
                tried / 30
            } else {
                random.random_range(0..=tried)
            },
            ..Tally::default()
        };
        if random.random_bool(0.8) {
            acme.count(tally).await;
            model.seen.push((now, tally));
        }
        let longest = if random.random_bool(0.05) { 40 } else { 3 };
        now += 10 * random.random_range(1..=longest);
        while model.is_on_edge(now) {
            now += 10;
        }
        acme.at(now).await;
        let before = acme.events().await.len();
        acme.judge().await;
        let events = acme.events().await;
        let mut found: Vec<String> = events[before..]
            .iter()
            .map(|it| {
                let of = |name: &str| it[&format!("data.{name}")].clone();
                format!(
                    "{} {} {}",
                    of("metric"),
                    of("threshold_rate"),
                    of("window_seconds")
                )
            })
            .collect();
        let expected = model.judge(now).into_iter().map(|at| {
            let (denials, above, window, _) = LIMITS[at];
            let metric = if denials {
                "denial_rate"
            } else {
                "auth_failure_rate"
            };
            format!("{metric} {above} {window}")
        });
        let mut expected: Vec<String> = expected.collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "seed {seed}, step {step}, {now} s");
        fired += found.len();
    }
    assert!(fired > 5, "{fired} with seed {seed}");
}
