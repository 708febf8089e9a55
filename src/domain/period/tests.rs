use jiff::Timestamp;
use jiff::tz::TimeZoneDatabase;
use proptest::prelude::*;

use super::{Bounds, Every, Purpose, Schedule, Zone};
use crate::domain::moment::Moment;
use crate::domain::rows;

const DAY_MS: i64 = 86_400_000;

fn every(text: &str) -> Every {
    Every::parse(text, Purpose::Window).expect(text)
}

/// An interval, a zone, and perhaps an anchor: `P1M Europe/Berlin 2026-01-31T00:00:00Z`.
fn schedule(text: &str) -> Schedule {
    let mut words = text.split(' ');
    let every = every(words.next().expect("an interval"));
    let zone = Zone::parse(words.next().expect("a zone")).expect(text);
    let anchor = words
        .next()
        .map(|anchor| Moment::parse(anchor).expect(text));
    Schedule::new(every, &zone, anchor)
}

fn at(text: &str) -> i64 {
    Moment::parse(text).expect(text).as_ms()
}

/// To the second where that is exact.
fn written(ms: i64) -> String {
    let moment = Moment::from_ms(ms).expect("in range").to_string();
    moment.replace(".000Z", "Z")
}

#[test]
fn intervals_have_one_component_and_bounds() {
    let longest = "P3653D P521W P120M P10Y PT87672H";
    for text in "PT1H PT6H P1D P7D P1W P1M P3M P12M P1Y"
        .split(' ')
        .chain(longest.split(' '))
    {
        for purpose in [Purpose::Period, Purpose::Window] {
            let read = Every::parse(text, purpose).expect(text);
            assert_eq!(read.to_string(), text);
        }
    }
    for text in ["PT1M", "PT60M", "PT5260320M"] {
        assert_eq!(every(text).to_string(), text);
        assert_eq!(Every::parse(text, Purpose::Period), None, "{text}");
    }
    let too_long = "PT5260321M PT87673H P3654D P522W P121M P11Y P99999999999999999999D";
    let others = "P PT PD PTH P0D P01D P-1D P+1D -P1D P1.5D P1,5D P1 1D 1H PT1S P1H PT1D PT1Y p1d P1d P1M1D P1DT1H PT1H30M P1D\n P1Ü P１D";
    for text in too_long
        .split(' ')
        .chain(others.split(' '))
        .chain(["", " P1D", "P1D ", "P 1D"])
    {
        assert_eq!(Every::parse(text, Purpose::Window), None, "{text:?}");
    }
}

#[test]
fn zones_have_names_of_the_database() {
    for (name, canonical) in rows(
        "UTC => UTC
        utc => UTC
        etc/utc => Etc/UTC
        europe/BERLIN => Europe/Berlin
        Asia/Calcutta => Asia/Calcutta
        america/argentina/buenos_aires => America/Argentina/Buenos_Aires
        gmt+0 => GMT+0
        est5edt => EST5EDT",
    ) {
        let zone = Zone::parse(name).expect(name);
        assert_eq!(zone.to_string(), canonical);
        assert_eq!(Some(zone), Zone::parse(canonical));
    }
    assert_eq!(Zone::parse("UTC"), Some(Zone::UTC));
    for name in [
        "",
        " UTC",
        "Europe",
        "Europe/Berlin ",
        "Mars/Olympus",
        "Etc/Unknown",
        "etc/unknown",
        "Factory",
        "+02:00",
        "Z",
        "UTC0",
        "<+02>-2",
        "CET-1CEST,M3.5.0,M10.5.0/3",
        ":UTC",
        "../../etc/localtime",
        "/usr/share/zoneinfo/UTC",
        "localtime",
        "posix/UTC",
    ] {
        assert_eq!(Zone::parse(name), None, "{name:?}");
    }
}

#[test]
fn a_time_is_in_the_period_that_the_calendar_says() {
    let table = "
        PT6H UTC; 2026-07-04T12:34:56Z => 2026-07-04T12:00:00Z 2026-07-04T18:00:00Z
        P1D UTC; 2026-07-04T00:00:00Z => 2026-07-04T00:00:00Z 2026-07-05T00:00:00Z
        P1D UTC; 2026-07-03T23:59:59.999Z => 2026-07-03T00:00:00Z 2026-07-04T00:00:00Z
        P1W UTC; 2026-07-04T12:00:00Z => 2026-06-29T00:00:00Z 2026-07-06T00:00:00Z
        P1W UTC; 1970-01-01T00:00:00Z => 1969-12-29T00:00:00Z 1970-01-05T00:00:00Z
        P1M UTC; 2026-07-04T12:00:00Z => 2026-07-01T00:00:00Z 2026-08-01T00:00:00Z
        P3M Europe/Berlin; 2026-02-01T00:00:00Z => 2025-12-31T23:00:00Z 2026-03-31T22:00:00Z
        P1Y Asia/Kathmandu; 2026-07-04T12:00:00Z => 2025-12-31T18:15:00Z 2026-12-31T18:15:00Z
        P1Y Asia/Kathmandu; 1985-07-04T12:00:00Z => 1984-12-31T18:30:00Z 1985-12-31T18:30:00Z

        P1M UTC 2026-01-31T08:00:00Z; 2026-03-01T00:00:00Z => 2026-02-28T08:00:00Z 2026-03-31T08:00:00Z
        P1M UTC 2026-01-31T08:00:00Z; 2026-04-01T00:00:00Z => 2026-03-31T08:00:00Z 2026-04-30T08:00:00Z
        P1M UTC 2026-01-31T08:00:00Z; 2028-03-01T00:00:00Z => 2028-02-29T08:00:00Z 2028-03-31T08:00:00Z
        P1M UTC 2026-01-31T08:00:00Z; 1999-02-01T00:00:00Z => 1999-01-31T08:00:00Z 1999-02-28T08:00:00Z
        P1Y UTC 2024-02-29T00:00:00Z; 2026-01-01T00:00:00Z => 2025-02-28T00:00:00Z 2026-02-28T00:00:00Z
        P1Y UTC 2024-02-29T00:00:00Z; 2028-01-01T00:00:00Z => 2027-02-28T00:00:00Z 2028-02-29T00:00:00Z
        P1Y UTC 2024-02-29T00:00:00Z; 2100-03-01T00:00:00Z => 2100-02-28T00:00:00Z 2101-02-28T00:00:00Z

        P1D Europe/Berlin; 2026-03-29T12:00:00Z => 2026-03-28T23:00:00Z 2026-03-29T22:00:00Z
        P1D Europe/Berlin; 2026-10-25T12:00:00Z => 2026-10-24T22:00:00Z 2026-10-25T23:00:00Z
        PT6H Europe/Berlin; 2026-03-29T12:00:00Z => 2026-03-29T11:00:00Z 2026-03-29T17:00:00Z
        P1D America/New_York; 2026-11-01T12:00:00Z => 2026-11-01T04:00:00Z 2026-11-02T05:00:00Z
        P1D Australia/Lord_Howe; 2026-04-05T00:00:00Z => 2026-04-04T13:00:00Z 2026-04-05T13:30:00Z
        P1D Australia/Lord_Howe; 2026-10-04T00:00:00Z => 2026-10-03T13:30:00Z 2026-10-04T13:00:00Z

        P1D Europe/Berlin 2026-01-01T01:30:00Z; 2026-03-29T12:00:00Z => 2026-03-29T01:30:00Z 2026-03-30T00:30:00Z
        P1D Europe/Berlin 2026-01-01T01:30:00Z; 2026-10-25T01:29:59.999Z => 2026-10-25T00:30:00Z 2026-10-26T01:30:00Z
        P1D Europe/Berlin 2026-10-25T01:30:00Z; 2026-10-25T01:30:00Z => 2026-10-25T01:30:00Z 2026-10-26T01:30:00Z
        P1D Europe/Berlin 2026-10-25T01:30:00Z; 2026-10-25T01:29:59.999Z => 2026-10-24T00:30:00Z 2026-10-25T01:30:00Z
        P1D America/Sao_Paulo; 2018-11-04T12:00:00Z => 2018-11-04T03:00:00Z 2018-11-05T02:00:00Z
        P1D America/Sao_Paulo; 2018-11-04T02:59:59.999Z => 2018-11-03T03:00:00Z 2018-11-04T03:00:00Z
        P1D America/Sao_Paulo; 2018-02-18T02:30:00Z => 2018-02-17T02:00:00Z 2018-02-18T03:00:00Z
        P1D America/St_Johns; 2009-11-01T02:45:00Z => 2009-11-01T02:30:00Z 2009-11-02T03:30:00Z
        P1D Africa/Cairo; 2026-04-24T12:00:00Z => 2026-04-23T22:00:00Z 2026-04-24T21:00:00Z
        P1D Africa/Cairo; 2026-10-29T21:30:00Z => 2026-10-28T21:00:00Z 2026-10-29T22:00:00Z

        P1D Pacific/Apia; 2011-12-30T09:59:59.999Z => 2011-12-29T10:00:00Z 2011-12-30T10:00:00Z
        P1D Pacific/Apia; 2011-12-30T10:00:00Z => 2011-12-30T10:00:00Z 2011-12-31T10:00:00Z
        P1W Pacific/Apia; 2011-12-30T10:00:00Z => 2011-12-26T10:00:00Z 2012-01-01T10:00:00Z";
    for (row, expected) in rows(table) {
        let (about, time) = row.split_once("; ").expect(row);
        let Bounds { start_ms, end_ms } = schedule(about).bounds(at(time));
        let found = format!("{} {}", written(start_ms), written(end_ms));
        assert_eq!(found, expected, "{row}");
    }
}

#[test]
fn boundaries_are_counted_however_many_they_are() {
    let table = "
        P1D UTC; 2026-07-04T00:00:00Z 2026-07-04T23:59:59.999Z => 0
        P1D UTC; 2026-07-03T23:59:59.999Z 2026-07-04T00:00:00Z => 1
        P1D UTC; 2026-07-04T00:00:00Z 2026-07-05T00:00:00Z => 1
        P1D UTC; 2026-07-05T00:00:00Z 2026-07-04T00:00:00Z => 0
        PT1M UTC; 1970-01-01T00:00:00Z 2200-01-01T00:00:00Z => 120968640
        P1D Europe/Berlin; 2026-01-01T12:00:00Z 2026-12-31T12:00:00Z => 364
        P1D Europe/Berlin; 2026-01-01T12:00:00Z 2026-07-01T12:00:00Z => 181
        P1M Europe/Berlin 2026-01-31T00:00:00Z; 1970-01-01T00:00:00Z 2026-03-01T00:00:00Z => 674
        P1D Pacific/Apia; 2011-12-29T12:00:00Z 2011-12-31T12:00:00Z => 2
        P1D Pacific/Apia; 2011-12-29T12:00:00Z 2011-12-30T09:59:59.999Z => 0
        P1D Pacific/Apia; 2011-12-29T12:00:00Z 2011-12-30T10:00:00Z => 1
        P1D Pacific/Apia; 2011-01-01T12:00:00Z 2012-01-01T12:00:00Z => 365
        P2D Pacific/Apia 2011-12-28T10:00:00Z; 2011-12-28T12:00:00Z 2012-01-01T12:00:00Z => 2";
    for (row, expected) in rows(table) {
        let (about, times) = row.split_once("; ").expect(row);
        let (from, to) = times.split_once(' ').expect(row);
        let count = schedule(about).boundaries(at(from), at(to));
        assert_eq!(count.to_string(), expected, "{row}");
    }
}

/// What [`Schedule::boundaries`] relies on, of all zones: no clock since 1970 went on or back by half a day or more, but for days that were skipped.
#[test]
fn a_period_is_empty_only_where_a_zone_skipped_a_day() {
    let mut skipped = Vec::new();
    let zones = TimeZoneDatabase::bundled();
    for name in zones.available() {
        let zone = zones.get(name.as_str()).expect("a zone");
        let mut offset = zone.to_offset(Timestamp::UNIX_EPOCH).seconds();
        let end = at("2100-01-01T00:00:00Z");
        let shifts = zone.following(Timestamp::UNIX_EPOCH);
        for shift in shifts.take_while(|shift| shift.timestamp().as_millisecond() < end) {
            let seconds = shift.offset().seconds() - offset;
            if seconds.abs() >= 12 * 3600 {
                assert_eq!(seconds, 24 * 3600, "{}", name.as_str());
                let local = zone.to_datetime(shift.timestamp());
                skipped.push(format!("{} {local}", name.as_str()));
            }
            offset = shift.offset().seconds();
        }
    }
    skipped.sort();
    assert_eq!(
        skipped,
        [
            "Kwajalein 1993-08-22T00:00:00",
            "Pacific/Apia 2011-12-31T00:00:00",
            "Pacific/Enderbury 1995-01-01T00:00:00",
            "Pacific/Fakaofo 2011-12-31T00:00:00",
            "Pacific/Kanton 1995-01-01T00:00:00",
            "Pacific/Kiritimati 1995-01-01T00:00:00",
            "Pacific/Kwajalein 1993-08-22T00:00:00",
        ]
    );
}

#[test]
fn lengths_are_fixed_where_no_calendar_changes_them() {
    let table = "
        PT5M Europe/Berlin => 300000
        PT6H America/New_York => 21600000
        P1D UTC => 86400000
        P2W Etc/UTC => 1209600000
        P1D GMT => 86400000
        P1D Zulu => 86400000
        P1D Europe/Berlin => none
        P1D Africa/Abidjan => none
        P1D Etc/GMT+1 => none
        P1W Atlantic/Reykjavik => none
        P1M UTC => none
        P1Y UTC => none";
    for (about, expected) in rows(table) {
        let length = schedule(about).fixed_length_ms();
        let length = length.map_or("none".to_owned(), |length| length.to_string());
        assert_eq!(length, expected, "{about}");
    }
    let anchored = schedule("P1D UTC 2026-07-04T12:34:56.789Z");
    assert_eq!(anchored.anchor_ms(), at("2026-07-04T12:34:56.789Z"));
    let default = schedule("P1D Asia/Kathmandu");
    assert_eq!(default.anchor_ms(), at("2023-12-31T18:15:00Z"));
}

/// The bounds of anchors are years.
#[test]
fn anchors_are_from_1970_to_2100() {
    let years = Schedule::ANCHORS_MS;
    assert_eq!(written(*years.start()), "1970-01-01T00:00:00Z");
    assert_eq!(written(*years.end()), "2100-12-31T23:59:59.999Z");
}

#[test]
fn times_beyond_all_calendars_count_as_the_nearest() {
    let (first, last) = (at("0001-01-01T00:00:00Z"), at("8999-12-31T23:59:59.999Z"));
    let anchors = ["", " 0001-01-01T00:00:00Z", " 9999-12-30T21:59:59.999Z"];
    for every in [
        "PT1M", "PT87672H", "P1D", "P3653D", "P521W", "P1M", "P120M", "P10Y",
    ] {
        for zone in ["UTC", "Europe/Berlin", "Pacific/Apia"] {
            for anchor in anchors {
                let schedule = schedule(&format!("{every} {zone}{anchor}"));
                for (beyond, nearest) in [
                    (i64::MIN, first),
                    (first - 1, first),
                    (last + 1, last),
                    (i64::MAX, last),
                ] {
                    let bounds = schedule.bounds(beyond);
                    assert_eq!(bounds, schedule.bounds(nearest));
                    assert!(bounds.start_ms <= nearest && nearest < bounds.end_ms);
                }
                assert!(schedule.boundaries(i64::MIN, i64::MAX) >= 899);
                assert_eq!(schedule.boundaries(i64::MAX, i64::MIN), 0);
            }
        }
    }
}

const INTERVALS: [&str; 13] = [
    "PT1M", "PT7M", "PT1H", "PT25H", "P1D", "P2D", "P1W", "P1M", "P3M", "P7M", "P1Y", "P4Y", "P10Y",
];
const ZONES: [&str; 11] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/St_Johns",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",
    "Africa/Cairo",
    "Asia/Kathmandu",
    "Pacific/Apia",
    "Pacific/Kwajalein",
    "Africa/Monrovia",
];

/// Schedules of every kind, and a time of 1970 to 2200, often near a shift or a skipped day.
fn drawn() -> impl Strategy<Value = (Schedule, i64)> {
    let anchor = prop::option::of(Schedule::ANCHORS_MS);
    let near = prop::sample::select(vec![
        "1993-08-21T12:00:00Z",
        "2009-11-01T02:30:00Z",
        "2011-12-30T10:00:00Z",
        "2018-11-04T03:00:00Z",
        "2026-03-29T01:00:00Z",
        "2026-10-25T01:00:00Z",
    ]);
    let shifted = (near, -3 * DAY_MS..3 * DAY_MS).prop_map(|(near, by)| at(near) + by);
    let time = prop_oneof![0..7_258_118_400_000i64, shifted];
    let (every_, zone) = (
        prop::sample::select(&INTERVALS[..]),
        prop::sample::select(&ZONES[..]),
    );
    (every_, zone, anchor, time).prop_map(|(text, zone, anchor, time)| {
        let zone = Zone::parse(zone).expect(zone);
        let schedule = Schedule::new(every(text), &zone, anchor.and_then(Moment::from_ms));
        (schedule, time)
    })
}

proptest! {
    #[test]
    fn every_time_is_in_one_period((schedule, time) in drawn()) {
        let bounds = schedule.bounds(time);
        let Bounds { start_ms, end_ms } = bounds;
        prop_assert!(start_ms <= time && time < end_ms, "{bounds:?}");
        prop_assert_eq!(schedule.bounds(start_ms), bounds);
        prop_assert_eq!(schedule.bounds(end_ms - 1), bounds);
        prop_assert_eq!(schedule.bounds(end_ms).start_ms, end_ms);
        prop_assert_eq!(schedule.bounds(start_ms - 1).end_ms, start_ms);
        let anchor = schedule.anchor_ms();
        prop_assert_eq!(schedule.bounds(anchor).start_ms, anchor);
        if let Some(length) = schedule.fixed_length_ms() {
            let start = anchor + (time - anchor).div_euclid(length) * length;
            prop_assert_eq!(bounds, Bounds { start_ms: start, end_ms: start + length });
        }
    }

    /// One period at a time arrives where the count says.
    #[test]
    fn boundaries_count_what_a_walk_meets((schedule, time) in drawn(), steps in 1..20u64, later in 0..4_000_000_000_000i64) {
        let mut end = time;
        for _ in 0..steps {
            end = schedule.bounds(end).end_ms;
        }
        prop_assert_eq!(schedule.boundaries(time, end), steps);
        prop_assert_eq!(schedule.boundaries(time, end - 1), steps - 1);
        let (rest, all) = (schedule.boundaries(end, end + later), schedule.boundaries(time, end + later));
        prop_assert_eq!(steps + rest, all);
    }
}
