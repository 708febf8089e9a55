//! Time zones, from the data in the binary alone.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};
use serde_json::json;

use crate::domain::fields::plain_field;
use crate::domain::record::stored_text;

/// A time zone of IANA's database. The data are those of the release, never those of the machine, so that all replicas of a
/// release agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Zone {
    /// The zone that requests have by default.
    pub const UTC: Self = Self(TimeZone::UTC);

    /// Reads a name such as `Europe/Berlin`, in any case. Names that stand for no zone are none. The library keeps what it has
    /// found, so that only the first look-up of a zone reads its data.
    pub fn parse(name: &str) -> Option<Self> {
        let zone = Self(TimeZoneDatabase::bundled().get(name).ok()?);
        (!zone.0.is_unknown() && zone.name() != "Factory").then_some(zone)
    }

    /// The name, as the database writes it.
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// Whether it has always been UTC, and always will be: also `Etc/UTC`, `GMT` and other names of it.
    pub(super) fn is_utc(&self) -> bool {
        let first = self.0.to_offset(Timestamp::MIN) == Offset::UTC;
        first && self.0.following(Timestamp::MIN).next().is_none()
    }

    pub(super) fn time_zone(&self) -> &TimeZone {
        &self.0
    }
}

impl fmt::Display for Zone {
    /// The name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

plain_field!(
    Zone,
    (),
    |(), _| json!({"type": "string", "example": "Europe/Berlin"}),
    |value, ()| {
        value.parsed(Zone::parse, || {
            "the IANA name of a time zone, such as Europe/Berlin".to_owned()
        })
    }
);
stored_text!(Zone, Zone::parse);

impl serde::Serialize for Zone {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
