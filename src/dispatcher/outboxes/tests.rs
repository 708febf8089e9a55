use super::*;
use crate::store::Day;

fn id(ms: u64) -> EntryId {
    EntryId { ms, sequence: 0 }
}

fn beyond(entries: std::ops::Range<u64>, lacks_cursor_entry: bool) -> NewEntries {
    let pointer = |ms| Pointer {
        entry: id(ms),
        target: None,
    };
    NewEntries {
        entries: entries.map(|ms| CachedEntry::of(pointer(ms))).collect(),
        is_whole: false,
        lacks_cursor_entry,
        as_of_ms: 7,
    }
}

#[test]
fn entries_fit_up_to_a_number_of_events() {
    let of = |count| {
        let target = EventRange {
            tenant: "acme".to_owned(),
            day: Day::of_ms(0),
            first: id(1),
            count,
        };
        CachedEntry::of(Pointer {
            entry: id(1),
            target: Some(target),
        })
    };
    let entries = [of(3), of(1), of(100), of(1)];
    assert_eq!(events_of(&entries), 105);
    let fits = [1, 3, 4, 103, 104, 105].map(|most| fitting(&entries, most));
    assert_eq!(fits, [1, 1, 2, 2, 3, 4]);
    assert_eq!(fitting(&[], 7), 0);
}

/// The cached entries after a place.
fn cached_after(tails: &HashMap<Partition, Tail>, place: Option<EntryId>) -> Option<Vec<u64>> {
    let tail = tails.get(&Partition::FIRST)?;
    let entries = &tail.entries[tail.place_of(place)?..];
    Some(entries.iter().map(|entry| entry.pointer.entry.ms).collect())
}

#[test]
fn entries_read_from_the_end_of_a_tail_extend_it() {
    let mut tails = HashMap::new();
    let first = Partition::FIRST;
    cache(&mut tails, (first, Some(id(1))), beyond(2..4, false));
    cache(&mut tails, (first, Some(id(3))), beyond(4..6, false));
    assert_eq!(cached_after(&tails, Some(id(1))), Some(vec![2, 3, 4, 5]));
    assert_eq!(cached_after(&tails, Some(id(4))), Some(vec![5]));
    assert_eq!(cached_after(&tails, Some(id(5))), Some(vec![]));
    assert_eq!(cached_after(&tails, Some(id(6))), None);
    assert_eq!(cached_after(&tails, None), None);
}

#[test]
fn an_entry_read_again_keeps_its_events() {
    let mut tails = HashMap::new();
    let first = Partition::FIRST;
    let read = cache(&mut tails, (first, None), beyond(2..4, false));
    let again = cache(&mut tails, (first, Some(id(2))), beyond(3..5, false));
    assert!(Arc::ptr_eq(&read.entries[1], &again.entries[0]));
    assert_eq!(cached_after(&tails, None), Some(vec![2, 3, 4]));
}

#[test]
fn another_position_and_lost_entries_end_a_tail() {
    let mut tails = HashMap::new();
    let first = Partition::FIRST;
    cache(&mut tails, (first, Some(id(1))), beyond(2..4, false));
    cache(&mut tails, (first, Some(id(9))), beyond(10..11, false));
    assert_eq!(cached_after(&tails, Some(id(9))), Some(vec![10]));
    assert_eq!(cached_after(&tails, Some(id(3))), None);
    cache(&mut tails, (first, Some(id(10))), beyond(3..4, true));
    assert_eq!(cached_after(&tails, Some(id(9))), None);
}

#[test]
fn a_tail_stays_short() {
    let mut tails = HashMap::new();
    let first = Partition::FIRST;
    let reads = (0..20_u64).map(|read| (read * 50, read * 50 + 50));
    for (from, to) in reads {
        let place = (first, from.checked_sub(1).map(id));
        cache(&mut tails, place, beyond(from..to, false));
    }
    assert_eq!(tails[&first].entries.len(), CACHED_OF_ONE);
    assert_eq!(cached_after(&tails, Some(id(998))), Some(vec![999]));
    assert_eq!(
        cached_after(&tails, Some(id(799))).map(|it| it.len()),
        Some(200)
    );
}
