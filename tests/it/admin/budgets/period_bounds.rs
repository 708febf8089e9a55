//! Periods begin when Python's calendar says. It has zone data of its own, of the release that the library has: `tzdata` in
//! `tests/clients/python/requirements.in`.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use budget_authority::domain::moment::Moment;
use budget_authority::domain::period::{Bounds, Every, Purpose, Schedule, Zone};
use serde_json::json;

use crate::http::clients::{prepare, target};

/// Without shifts, with one of an hour, of two and of half of one, with one at midnight, and one that has skipped a day.
const ZONES: [&str; 10] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Antarctica/Troll",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Africa/Cairo",
    "Asia/Kathmandu",
    "Pacific/Apia",
];

/// Intervals, each with an anchor unless it is that of the calendar.
const INTERVALS: [(&str, Option<&str>); 9] = [
    ("PT6H", None),
    ("P1D", None),
    ("P1D", Some("2026-03-29T01:30:00+00:00")),
    ("P1W", None),
    ("P1M", None),
    ("P1M", Some("2026-01-31T11:00:00+00:00")),
    ("P3M", None),
    ("P1Y", None),
    ("P1Y", Some("2024-02-29T12:00:00+00:00")),
];

/// All starts, as Python has them: a list for each case.
fn starts(cases: &str) -> Vec<Vec<i64>> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join(file!());
    let mut command = Command::new(target().join("python/bin/python"));
    command.arg("-B").arg(program.with_extension("py"));
    // Not the data of the machine.
    command.env("PYTHONTZPATH", "");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    // It reads a case and writes a line in turn, so both go on at once.
    let mut stdin = child.stdin.take().expect("piped");
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(cases.as_bytes()).expect("it reads"));
        child.wait_with_output().expect("it ends")
    });
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    let numbers = |line: &str| line.split(' ').map(|ms| ms.parse().expect(ms)).collect();
    text.lines().map(numbers).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn periods_begin_when_another_calendar_says() {
    prepare("python").await;
    let zones = ZONES.into_iter();
    let cases = zones.flat_map(|zone| INTERVALS.map(|(every, anchor)| (every, zone, anchor)));
    let cases: Vec<_> = cases.collect();
    let lines = cases.iter().map(|case| format!("{}\n", json!(case)));
    let starts = starts(&lines.collect::<String>());
    assert_eq!(starts.len(), cases.len());
    for ((every, zone, anchor), starts) in cases.into_iter().zip(starts) {
        let schedule = Schedule::new(
            Every::parse(every, Purpose::Period).expect(every),
            &Zone::parse(zone).expect(zone),
            anchor.map(|anchor| Moment::parse(anchor).expect(anchor)),
        );
        let case = format!("{every} {zone} {anchor:?}");
        assert!(starts.len() > 20, "{case}");
        // Of hours every fourth, since they are many and all alike.
        let step = if every == "PT6H" { 4 } else { 1 };
        for (number, pair) in starts.windows(2).step_by(step).enumerate() {
            let (start_ms, end_ms) = (pair[0], pair[1]);
            // The first time of one, the last of the next.
            let at_ms = [start_ms, end_ms - 1][number % 2];
            let bounds = Bounds { start_ms, end_ms };
            assert_eq!(schedule.bounds(at_ms), bounds, "{case}");
        }
        let (first, last) = (starts[0], starts[starts.len() - 1]);
        let counted = schedule.boundaries(first, last);
        assert_eq!(counted, starts.len() as u64 - 1, "{case}");
    }
}
