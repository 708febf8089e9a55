//! Bounds how many lists of one owner gather at the same time, so that others' requests come in between.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::domain::ids::TenantId;

/// How long a list waits for another one of its owner to end.
const WAIT: Duration = Duration::from_secs(1);

/// The places of this replica for lists that gather: as many for each owner. Cheap to clone.
#[derive(Debug, Clone)]
pub struct GatherPlaces {
    limit: usize,
    /// Of owners whose lists gather at present.
    used: Arc<Mutex<HashMap<Option<TenantId>, Arc<Semaphore>>>>,
}

/// The places of one owner.
#[derive(Debug, Clone)]
pub struct OwnPlaces {
    /// A tenant; `None`: the operators.
    pub owner: Option<TenantId>,
    all: GatherPlaces,
}

/// A place that a list has or waits for, until it is dropped.
pub struct Place<'a> {
    places: Option<Arc<Semaphore>>,
    permit: Option<OwnedSemaphorePermit>,
    of: &'a OwnPlaces,
}

impl GatherPlaces {
    /// Places of each owner: Redis sorts one list after the other, so that more are no faster.
    pub const PER_OWNER: usize = 2;

    /// The limit per owner.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            used: Arc::default(),
        }
    }

    /// Those of a tenant, or of the operators.
    pub fn of(&self, owner: Option<TenantId>) -> OwnPlaces {
        OwnPlaces {
            owner,
            all: self.clone(),
        }
    }
}

impl OwnPlaces {
    /// Takes a place, and waits a little where all are taken.
    ///
    /// # Errors
    /// How many there are, where none became free.
    pub async fn take(&self) -> Result<Place<'_>, usize> {
        let limit = self.all.limit;
        let places = {
            let mut used = self.all.used.lock();
            let places = used.entry(self.owner.clone());
            Arc::clone(places.or_insert_with(|| Arc::new(Semaphore::new(limit))))
        };
        // Dropped as well where the waiting is given up, such as when the client has gone.
        let mut place = Place {
            places: Some(Arc::clone(&places)),
            permit: None,
            of: self,
        };
        match timeout(WAIT, places.acquire_owned()).await {
            Ok(Ok(permit)) => {
                place.permit = Some(permit);
                Ok(place)
            }
            Ok(Err(_)) | Err(_) => Err(limit),
        }
    }
}

impl Place<'_> {
    /// How many lists of its owner have a place, this one included.
    pub fn lists(&self) -> u32 {
        let free = self
            .places
            .as_ref()
            .map_or(0, |all| all.available_permits());
        let taken = self.of.all.limit.saturating_sub(free);
        u32::try_from(taken).unwrap_or(u32::MAX)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.permit = None;
        self.places = None;
        let mut used = self.of.all.used.lock();
        let is_free = |places: &Arc<Semaphore>| Arc::strong_count(places) == 1;
        if used.get(&self.of.owner).is_some_and(is_free) {
            used.remove(&self.of.owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_owner_has_its_places_and_idle_owners_are_forgotten() {
        let places = GatherPlaces::new(2);
        let (acme, operators) = (places.of(TenantId::parse("acme")), places.of(None));
        let first = acme.take().await.ok();
        let second = acme.take().await.ok();
        assert!(first.is_some() && second.is_some());
        let lists = |place: &Option<Place<'_>>| place.as_ref().map(Place::lists);
        assert_eq!(lists(&second), Some(2));
        let others = operators.take().await.ok();
        assert_eq!(lists(&others), Some(1), "those of others are free");
        drop(others);
        let third = tokio::spawn({
            let acme = acme.clone();
            async move { acme.take().await.is_ok() }
        });
        tokio::task::yield_now().await;
        assert!(!third.is_finished(), "both are taken");
        drop(first);
        assert!(third.await.expect("no panic"), "one became free");
        drop(second);
        assert!(places.used.lock().is_empty());
    }

    #[tokio::test]
    async fn an_owner_is_forgotten_when_its_waiting_list_is_dropped() {
        let places = GatherPlaces::new(1);
        let acme = places.of(TenantId::parse("acme"));
        let first = acme.take().await.ok();
        let waiting = tokio::spawn({
            let acme = acme.clone();
            async move { acme.take().await.is_ok() }
        });
        tokio::task::yield_now().await;
        // The one that holds the place ends while the other still waits.
        drop(first);
        waiting.abort();
        let _ = waiting.await;
        assert!(places.used.lock().is_empty());
    }
}
