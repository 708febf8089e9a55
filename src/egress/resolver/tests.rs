use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::JoinSet;

use super::*;

#[tokio::test]
async fn concurrent_resolutions_are_bounded() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (noted, peak) = (Arc::clone(&running), Arc::clone(&most));
    let resolver = Resolver::of(move |_| {
        let noted = Arc::clone(&noted);
        peak.fetch_max(noted.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        async move {
            tokio::task::yield_now().await;
            noted.fetch_sub(1, Ordering::Relaxed);
            Ok(vec![IpAddr::from([93, 184, 216, 34])])
        }
    })
    .limited(2);
    let look_up = |host| resolver.addresses(host, host);
    let found = tokio::join!(look_up("a"), look_up("b"), look_up("c"), look_up("d"));
    assert!(found.0.is_ok() && found.1.is_ok() && found.2.is_ok() && found.3.is_ok());
    assert_eq!(most.load(Ordering::Relaxed), 2);
    // A look-up that nobody waits for any more keeps its permit until it ends.
    for (host, left) in [("a", 1), ("b", 0)] {
        tokio::select! {
            biased;
            _ = look_up(host) => panic!("it takes a moment"),
            () = std::future::ready(()) => {}
        }
        assert_eq!(free(&resolver), left);
    }
    assert!(look_up("c").await.is_ok());
    assert_eq!(running.load(Ordering::Relaxed), 0);
}

fn free(resolver: &Resolver) -> usize {
    resolver.permits.available_permits() + resolver.reserve.available_permits()
}

/// Names that begin with `slow` never resolve. Counts the look-ups.
fn slow_names(at_a_time: usize) -> (Resolver, Arc<AtomicUsize>) {
    let begun = Arc::new(AtomicUsize::new(0));
    let noted = Arc::clone(&begun);
    let resolver = Resolver::of(move |host| {
        noted.fetch_add(1, Ordering::Relaxed);
        async move {
            if host.starts_with("slow") {
                std::future::pending::<()>().await;
            }
            Ok(vec![IpAddr::from([93, 184, 216, 34])])
        }
    });
    (resolver.limited(at_a_time), begun)
}

#[tokio::test]
async fn names_of_one_owner_that_never_resolve_do_not_delay_another() {
    let (resolver, begun) = slow_names(8);
    let _hostile = dead_names(&resolver, &["hostile"]);
    while begun.load(Ordering::Relaxed) < 2 {
        tokio::task::yield_now().await;
    }
    for number in 0..100 {
        let host = format!("good-{number}");
        assert!(resolver.addresses(&host, "good").await.is_ok());
    }
    assert_eq!(begun.load(Ordering::Relaxed), 102);
    assert_eq!(free(&resolver), 6);
}

/// Each of these owners has many names that never resolve.
fn dead_names(resolver: &Resolver, owners: &[&'static str]) -> JoinSet<bool> {
    let mut hostile = JoinSet::new();
    for (owner, number) in owners
        .iter()
        .flat_map(|it| (0..100).map(move |no| (*it, no)))
    {
        let resolver = resolver.clone();
        hostile.spawn(async move {
            let host = format!("slow-{owner}-{number}");
            resolver.addresses(&host, owner).await.is_ok()
        });
    }
    hostile
}

#[tokio::test]
async fn names_of_some_owners_that_never_resolve_delay_no_other_owner() {
    let (resolver, begun) = slow_names(32);
    let _hostile = dead_names(&resolver, &["a", "b", "c", "d", "e", "f"]);
    // Two have a quarter each, and the others one of the reserve.
    while begun.load(Ordering::Relaxed) < 16 + 4 {
        tokio::task::yield_now().await;
    }
    for number in 0..100 {
        let [one, other] = ["one", "other"].map(|it| format!("good-{it}-{number}"));
        let found = tokio::join!(
            resolver.addresses(&one, "one"),
            resolver.addresses(&other, "other")
        );
        assert!(found.0.is_ok() && found.1.is_ok());
    }
    assert_eq!(begun.load(Ordering::Relaxed), 20 + 200);
    assert_eq!(free(&resolver), 12);
}

#[tokio::test]
async fn slow_names_leave_room_for_others_of_their_owner() {
    let begun = Arc::new(AtomicUsize::new(0));
    let noted = Arc::clone(&begun);
    let mut resolver = Resolver::of(move |host| {
        let earlier = noted.fetch_add(1, Ordering::Relaxed);
        async move {
            match (host.starts_with("dead"), earlier) {
                (true, 0..16) => tokio::time::sleep(Duration::from_millis(20)).await,
                (true, _) => std::future::pending().await,
                (false, _) => {}
            }
            Ok(Vec::from_iter(
                host.strip_prefix("good").map(|_| [93, 184, 216, 34].into()),
            ))
        }
    })
    .limited(32);
    resolver.slow_after = Duration::from_millis(10);
    let names: Vec<_> = (0..16).map(|number| format!("dead-{number}")).collect();
    let look_up = |name: &String| {
        let (resolver, name) = (resolver.clone(), name.clone());
        async move { resolver.addresses(&name, "acme").await.is_ok() }
    };
    let first = JoinSet::from_iter(names.iter().map(look_up))
        .join_all()
        .await;
    assert!(first.iter().all(|found| !found));
    let _again = JoinSet::from_iter(names.iter().map(look_up));
    while begun.load(Ordering::Relaxed) < 16 + 4 {
        tokio::task::yield_now().await;
    }
    for number in 0..50 {
        assert!(look_up(&format!("good-{number}")).await);
    }
    assert_eq!(begun.load(Ordering::Relaxed), 16 + 4 + 50);
    // While only the reserve is free, a slow name of another owner waits.
    let rest = Arc::clone(&resolver.permits).try_acquire_many_owned(12);
    let _rest = rest.expect("four are held");
    let waiting = resolver.clone();
    let waiting = tokio::spawn(async move { waiting.addresses("dead-15", "other").await });
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert!(!waiting.is_finished());
    assert_eq!(begun.load(Ordering::Relaxed), 16 + 4 + 50);
    assert_eq!(resolver.reserve.available_permits(), 16);
    assert!(resolver.addresses("good", "other").await.is_ok());
}

#[tokio::test]
async fn concurrent_requests_for_a_name_share_one_look_up() {
    let (resolver, begun) = slow_names(8);
    let of = |owner| resolver.addresses("good", owner);
    let found = tokio::join!(of("a"), of("b"), of("b"), of("b"));
    assert!(found.0.is_ok() && found.1.is_ok() && found.2.is_ok() && found.3.is_ok());
    assert_eq!(begun.load(Ordering::Relaxed), 1);
    assert!(of("a").await.is_ok());
    assert_eq!(
        begun.load(Ordering::Relaxed),
        2,
        "what was found is not kept"
    );
    assert!(resolver.active.lock().names.is_empty());
}
