use tokio::time::Instant;

use super::*;
use crate::domain::refusal::{TooManyScanned, TooManySorts, TooManyToSort};

orders! {
    /// Its ties turn round with the numbers.
    Turning of number: i64 {
        rows: "numbers", advice: "take fewer", id: id_of(*number), default: Thirds, indexed: []
    }
    /// Three numbers have one value.
    Thirds = "thirds": number / 3,
}

orders! {
    /// Its ties ascend in both directions.
    Stable of number: i64 {
        rows: "numbers", advice: "take fewer", id: id_of(*number), default: Thirds, indexed: [], ties_ascend: true
    }
    /// Three numbers have one value.
    Thirds = "thirds": number / 3,
}

fn id_of(number: i64) -> String {
    format!("{number:03}")
}

#[derive(Debug, PartialEq)]
enum Failure {
    TooMany(TooManyToSort),
    Sorts(TooManySorts),
    Scanned(TooManyScanned),
}

impl From<TooManyScanned> for Failure {
    fn from(refusal: TooManyScanned) -> Self {
        Self::Scanned(refusal)
    }
}

impl From<TooManySorts> for Failure {
    fn from(refusal: TooManySorts) -> Self {
        Self::Sorts(refusal)
    }
}

impl From<TooManyToSort> for Failure {
    fn from(refusal: TooManyToSort) -> Self {
        Self::TooMany(refusal)
    }
}

/// Numbers in the order of an index. Those in `lost` have an entry and no row.
struct Numbers {
    index: Vec<i64>,
    step: usize,
    lost: fn(i64) -> bool,
}

impl Walk for Numbers {
    type Row = i64;
    type Error = Failure;

    async fn step(&mut self, range: StepRange<'_>) -> Result<Step<i64>, Failure> {
        let passed = self
            .index
            .iter()
            .position(|number| Some(&at(*number)) == range.after);
        let left = &self.index[passed.map_or(0, |passed| passed + 1)..];
        let numbers = &left[..self.step.min(left.len())];
        let entry = |number: &i64| Entry {
            position: at(*number),
            row: Some(*number).filter(|number| !(self.lost)(*number)),
        };
        Ok(Step::new(
            numbers.iter().map(entry).collect(),
            numbers.len() == left.len(),
        ))
    }
}

fn at(number: i64) -> Position {
    Turning::Thirds.position(&number)
}

fn too_many(bound: usize) -> Option<Failure> {
    Some(Turning::too_many(bound).into())
}

const BOUNDS: Bounds = Bounds {
    page_rows: 20,
    matches: 30,
    rows: 60,
};

/// Nothing here waits.
fn done<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(done) => done,
        std::task::Poll::Pending => panic!("it waits"),
    }
}

fn query<K: SortKey>(descending: bool, limit: usize) -> ListQuery<(), K> {
    ListQuery::new((), K::DEFAULT, descending, limit)
}

/// All pages, as one list, with the number of those that were short although more followed.
fn pages<K: SortKey>(
    mut query: ListQuery<(), K>,
    page: impl Fn(&ListQuery<(), K>) -> Page<i64, K>,
) -> (Vec<i64>, usize) {
    let (mut found, mut short) = (Vec::new(), 0);
    loop {
        let page = page(&query);
        assert!(page.rows.len() <= query.limit);
        short += usize::from(page.rows.len() < query.limit && page.next.is_some());
        found.extend(page.rows);
        match page.next {
            Some(next) => query.after = Some(next),
            None => return (found, short),
        }
    }
}

/// A page along the index, in steps of `step`.
fn along(query: &ListQuery<(), Turning>, step: usize, lost: fn(i64) -> bool) -> Page<i64, Turning> {
    let mut index: Vec<i64> = (0..100).collect();
    if query.sort.descending {
        index.reverse();
    }
    let mut walk = Numbers { index, step, lost };
    done(page_along(&mut walk, query, Turning::Thirds, BOUNDS)).expect("a page")
}

#[test]
fn pages_along_an_index_show_each_row_once() {
    for (descending, step) in [(false, 1), (false, 7), (true, 10), (true, 200)] {
        for limit in [1, 9, 10, 99, 100, 101] {
            let (found, _) = pages(query(descending, limit), |query| {
                along(query, step, |_| false)
            });
            let mut expected: Vec<i64> = (0..100).collect();
            if descending {
                expected.reverse();
            }
            assert_eq!(found, expected, "{descending} {step} {limit}");
        }
    }
}

#[test]
fn entries_without_a_row_shorten_pages_and_end_no_list() {
    let lost = |number| number % 33 != 5;
    for step in [1, 5, 20, 100] {
        let (found, short) = pages(query(false, 2), |query| along(query, step, lost));
        assert_eq!(found, [5, 38, 71], "{step}");
        assert_eq!(short > 0, step < 100, "{step}");
    }
    let (found, _) = pages(query(true, 1), |query| along(query, 5, |_| true));
    assert!(found.is_empty());
}

fn gathered<K: RowOrder<i64>>(
    query: &ListQuery<(), K>,
    count: i64,
    lost: fn(i64) -> bool,
) -> Result<Page<i64, K>, Failure> {
    // Against the order, so that the last to come is the first.
    let index = (0..count).rev().collect();
    let mut walk = Numbers {
        index,
        step: 4,
        lost,
    };
    done(page(&mut walk, query, BOUNDS))
}

#[test]
fn sorted_pages_show_each_row_once_with_ties_by_id() {
    let up: Vec<i64> = (0..30).collect();
    let down: Vec<i64> = (0..30).rev().collect();
    let stable: Vec<i64> = (0..10)
        .rev()
        .flat_map(|n| [3 * n, 3 * n + 1, 3 * n + 2])
        .collect();
    for limit in [1, 2, 3, 29, 30, 31] {
        let turning = |query: &_| gathered::<Turning>(query, 30, |_| false).expect("a page");
        assert_eq!(pages(query(false, limit), turning).0, up, "{limit}");
        assert_eq!(pages(query(true, limit), turning).0, down, "{limit}");
        let ascending = |query: &_| gathered::<Stable>(query, 30, |_| false).expect("a page");
        assert_eq!(pages(query(false, limit), ascending).0, up, "{limit}");
        assert_eq!(pages(query(true, limit), ascending).0, stable, "{limit}");
    }
}

#[test]
fn above_either_bound_a_sort_is_refused() {
    let first = query::<Turning>(false, 5);
    let refused = |count, lost| gathered(&first, count, lost).err();
    assert_eq!(refused(31, |_| false), too_many(30));
    assert_eq!(refused(60, |number| number % 2 == 0), None);
    assert_eq!(refused(61, |number| number % 2 == 0), too_many(60));
    // Rows of earlier pages count as well: a list does not change its mind on a later page.
    let mut later = query::<Turning>(false, 5);
    later.after = Some(at(29));
    assert_eq!(gathered(&later, 31, |_| false).err(), too_many(30));
}

orders! {
    /// Its default may become another order.
    Fallen of number: i64 {
        rows: "numbers", advice: "take fewer", id: id_of(*number), default: Thirds, indexed: [Number], fallback: Number
    }
    /// Three numbers have one value.
    Thirds = "thirds": number / 3,
    /// Has an index.
    Number = "number": SortValue::Absent,
}

#[test]
fn a_default_that_cannot_be_sorted_becomes_the_order_that_stands_in_and_no_other_does() {
    let mut first = query::<Fallen>(false, 5);
    first.any_order = true;
    let page = gathered(&first, 31, |_| false).expect("a page");
    assert_eq!(
        (page.sort.by, page.rows),
        (Fallen::Number, vec![30, 29, 28, 27, 26])
    );
    let begun = ListQuery {
        after: Some(at(3)),
        ..first.clone()
    };
    let explicit = ListQuery {
        any_order: false,
        ..first
    };
    for query in [begun, explicit] {
        assert_eq!(gathered(&query, 31, |_| false).err(), too_many(30));
    }
}

#[test]
fn a_tenant_needs_a_permit_from_the_second_step_on() {
    let limits = ListLimits::default();
    let (permits, tenant) = (
        limits.sorts.clone(),
        TenantId::parse("acme").expect("an id"),
    );
    let mut list = query::<Turning>(false, 5);
    list.limits = Some((limits, tenant.clone()));
    let taken = [permits.take(&tenant), permits.take(&tenant)];
    assert!(gathered(&list, 4, |_| false).is_ok(), "one step");
    let refused = gathered(&list, 5, |_| false).err();
    assert!(matches!(refused, Some(Failure::Sorts(_))), "{refused:?}");
    drop(taken);
    assert!(gathered(&list, 5, |_| false).is_ok());
}

#[test]
fn a_list_is_refused_while_its_tenant_owes_more_rows_than_it_may_wait_for() {
    let limits = ListLimits::default();
    let [acme, bolt] = ["acme", "bolt"].map(|id| TenantId::parse(id).expect("an id"));
    limits.scans.charge(&acme, 1_000_000, Instant::now());
    let mut list = query::<Turning>(false, 5);
    list.limits = Some((limits.clone(), acme));
    let Some(Failure::Scanned(refused)) = gathered(&list, 5, |_| false).err() else {
        panic!("it is refused");
    };
    assert!(
        (990_000..=1_000_000).contains(&refused.present),
        "{refused:?}"
    );
    let mut walk = Numbers {
        index: (0..5).collect(),
        step: 5,
        lost: |_| true,
    };
    let refused = done(page_along(&mut walk, &list, Turning::Thirds, BOUNDS)).err();
    assert!(matches!(refused, Some(Failure::Scanned(_))), "{refused:?}");
    list.limits = Some((limits, bolt));
    let page = done(page_along(&mut walk, &list, Turning::Thirds, BOUNDS)).expect("a page");
    assert!(page.rows.is_empty());
}

#[test]
fn every_row_is_visited_regardless_of_the_bounds() {
    let mut walk = Numbers {
        index: (0..1_000).collect(),
        step: 7,
        lost: |number| number % 10 == 0,
    };
    let mut visited = 0;
    let count = |_| {
        visited += 1;
        Ok(())
    };
    done(each(&mut walk, count)).expect("visited");
    assert_eq!(visited, 900);
}

#[test]
fn a_row_without_a_value_comes_after_all_others() {
    let none = SortValue::from(None::<i64>);
    let sort = |descending| Sort {
        by: Turning::Thirds,
        descending,
    };
    for value in [SortValue::from(i64::MAX), SortValue::from("\u{10ffff}")] {
        let (row, absent) = (Position::new(value, "z"), Position::new(none.clone(), "a"));
        assert!(sort(false).compare(&row, &absent).is_lt());
        assert!(sort(true).compare(&row, &absent).is_gt());
    }
    for (value, json) in [
        (SortValue::from(i64::MIN), "-9223372036854775808"),
        (SortValue::from("7"), "\"7\""),
        (none, "null"),
    ] {
        assert_eq!(serde_json::to_string(&value).expect("JSON"), json);
        assert_eq!(
            serde_json::from_str::<SortValue>(json).expect("a value"),
            value
        );
    }
}
