//! The members of an envelope: every object is closed, no typed member is `null`.

mod mirrors;

use crate::domain::ids::is_hex;
use crate::domain::json::{Json, Place};
use crate::domain::words::words;

words! {
    /// The kind of an envelope, and the only member of its payload.
    Artifact: "snake_case" {
        /// A decision.
        Decide,
        /// A reservation, or a dry run.
        Reserve,
        /// A commit.
        Commit,
        /// A release.
        Release,
        /// A refusal of one of them.
        Error,
    }
}

words! {
    /// An operation that envelopes attest. The braces are literal.
    Endpoint {
        /// Decide.
        Decide = "POST /v1/decide",
        /// Reserve, dry runs too.
        Reserve = "POST /v1/reservations",
        /// Commit.
        Commit = "POST /v1/reservations/{reservation_id}/commit",
        /// Release.
        Release = "POST /v1/reservations/{reservation_id}/release",
    }
}

impl Endpoint {
    /// Whether the path names a reservation.
    fn names_reservation(self) -> bool {
        match self {
            Self::Decide | Self::Reserve => false,
            Self::Commit | Self::Release => true,
        }
    }
}

/// A closed object.
pub(super) struct Mirror {
    /// Names and kinds. A member whose name ends in `?` may be absent.
    members: &'static [(&'static str, Kind)],
    /// The rule over several members.
    rule: Option<Rule>,
}

/// A rule over several members of an object; the reason where it fails.
type Rule = fn(&Json) -> Result<(), &'static str>;

/// The kind of a member.
enum Kind {
    /// A text with bounds of characters.
    Text(usize, usize),
    /// A number of lower-case hexadecimal digits.
    Hex(usize),
    /// One of these texts.
    Word(&'static [&'static str]),
    /// An integer in this range.
    Integer(i64, i64),
    /// `true` or `false`.
    Flag,
    /// An object of the client's or of an error, whatever it holds.
    Free,
    /// At most so many items of a kind.
    List(usize, &'static Kind),
    /// At most so many members of a kind, of any names.
    Map(usize, &'static Kind),
    /// An object.
    Object(&'static Mirror),
}

/// Why a document is no envelope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` {reason}")]
pub struct Misfit {
    path: String,
    reason: String,
}

impl Misfit {
    pub(super) fn new(document: &'static str, reason: impl Into<String>) -> Self {
        Self::at(Place::Root(document), reason)
    }

    fn at(place: Place<'_>, reason: impl Into<String>) -> Self {
        Self {
            path: place.printable(),
            reason: reason.into(),
        }
    }
}

/// The mirror of a request.
pub(super) fn request_of(endpoint: Endpoint) -> &'static Mirror {
    match endpoint {
        Endpoint::Decide => &mirrors::DECIDE_REQUEST,
        Endpoint::Reserve => &mirrors::RESERVE_REQUEST,
        Endpoint::Commit => &mirrors::COMMIT_REQUEST,
        Endpoint::Release => &mirrors::RELEASE_REQUEST,
    }
}

/// Whether [`kept`] keeps everything, as of most requests.
pub(super) fn keeps_all(mirror: &Mirror, json: &Json) -> bool {
    let Json::Object(members) = json else {
        return true;
    };
    members
        .iter()
        .all(|(name, value)| match (mirror.kind_of(name), value) {
            (None, _) | (_, Json::Null) => false,
            (Some(Kind::Object(inner)), value) => keeps_all(inner, value),
            (Some(_), _) => true,
        })
}

/// What a mirror has of an object: without typed members that are `null`, and without members that it does not know.
pub(super) fn kept(mirror: &Mirror, json: &Json) -> Json {
    let Json::Object(members) = json else {
        return json.clone();
    };
    let known = members.iter().filter_map(|(name, value)| {
        let kind = mirror.kind_of(name)?;
        match (kind, value) {
            (_, Json::Null) => None,
            (Kind::Object(inner), value) => Some((name.clone(), kept(inner, value))),
            (_, value) => Some((name.clone(), value.clone())),
        }
    });
    known.collect()
}

/// Checks which members an envelope has, and their types.
pub(super) fn check_envelope(envelope: &Json) -> Result<(), Misfit> {
    mirrors::ENVELOPE.check(envelope, Place::Root("envelope"))
}

/// Checks the payload of an envelope, `{"<artifact>": {…}}`.
pub(super) fn check_payload(artifact: Artifact, payload: &Json) -> Result<(), Misfit> {
    let name = artifact.as_str();
    let Json::Object(members) = payload else {
        return Err(Misfit::new("payload", "is no object"));
    };
    let [(only, inner)] = &members[..] else {
        return Err(Misfit::new("payload", "must have one member"));
    };
    if only != name {
        return Err(Misfit::new(
            "payload",
            format!("must have the member {name}, as artifact_type says"),
        ));
    }
    let place = Place::Member(&Place::Root("payload"), name);
    let mirror = match artifact {
        Artifact::Decide => &mirrors::DECIDE,
        Artifact::Reserve => &mirrors::RESERVE,
        Artifact::Commit => &mirrors::COMMIT,
        Artifact::Release => &mirrors::RELEASE,
        Artifact::Error => return check_error(inner, place),
    };
    mirror.check(inner, place)
}

/// The endpoint decides what the request is, and whether there is a reservation.
fn check_error(error: &Json, place: Place<'_>) -> Result<(), Misfit> {
    mirrors::ERROR.check(error, place)?;
    let endpoint = error.member("endpoint").and_then(Json::as_text);
    let endpoint = endpoint.and_then(Endpoint::parse);
    let endpoint = endpoint.ok_or_else(|| {
        Misfit::at(
            Place::Member(&place, "endpoint"),
            "is no operation that is attested",
        )
    })?;
    if endpoint.names_reservation() != error.member("reservation_id").is_some() {
        let reason = match endpoint.names_reservation() {
            true => "is missing",
            false => "must be absent for this endpoint",
        };
        return Err(Misfit::at(Place::Member(&place, "reservation_id"), reason));
    }
    match error.member("request") {
        Some(request) => request_of(endpoint).check(request, Place::Member(&place, "request")),
        None => Ok(()),
    }
}

impl Mirror {
    fn kind_of(&self, name: &str) -> Option<&'static Kind> {
        let mut members = self.members.iter();
        members
            .find(|(known, _)| known.strip_suffix('?').unwrap_or(known) == name)
            .map(|(_, kind)| kind)
    }

    /// Checks an object against it.
    fn check(&self, json: &Json, place: Place<'_>) -> Result<(), Misfit> {
        let Json::Object(members) = json else {
            return Err(Misfit::at(place, "is no object"));
        };
        for (name, _) in self.members {
            if !name.ends_with('?') && json.member(name).is_none() {
                return Err(Misfit::at(Place::Member(&place, name), "is missing"));
            }
        }
        for (name, value) in members {
            let place = Place::Member(&place, name);
            let kind = self
                .kind_of(name)
                .ok_or_else(|| Misfit::at(place, "is unknown"))?;
            kind.check(value, place)?;
        }
        let checked = self.rule.map_or(Ok(()), |rule| rule(json));
        checked.map_err(|reason| Misfit::at(place, reason))
    }
}

impl Kind {
    fn check(&self, json: &Json, place: Place<'_>) -> Result<(), Misfit> {
        let wrong = |reason: String| Err(Misfit::at(place, reason));
        match (self, json) {
            (Self::Text(least, most), Json::String(text)) => match text.chars().count() {
                length if (*least..=*most).contains(&length) => Ok(()),
                _ => wrong(format!("must have {least} to {most} characters")),
            },
            (Self::Hex(digits), Json::String(text)) if is_hex(text, *digits) => Ok(()),
            (Self::Hex(digits), _) => {
                wrong(format!("must be {digits} lower-case hexadecimal digits"))
            }
            (Self::Word(words), Json::String(text)) if words.contains(&text.as_str()) => Ok(()),
            (Self::Word(words), _) => wrong(format!("must be one of {}", words.join(", "))),
            (Self::Integer(least, most), json) => match json.as_integer() {
                Some(integer) if (*least..=*most).contains(&integer) => Ok(()),
                _ => wrong(format!("must be an integer from {least} to {most}")),
            },
            (Self::Flag, Json::Bool(_)) | (Self::Free, Json::Object(_)) => Ok(()),
            (Self::List(most, _), Json::Array(items)) if items.len() > *most => {
                wrong(format!("must have at most {most} items"))
            }
            (Self::List(_, each), Json::Array(items)) => {
                let mut items = items.iter().enumerate();
                items.try_for_each(|(at, item)| each.check(item, Place::Item(&place, at)))
            }
            (Self::Map(most, _), Json::Object(members)) if members.len() > *most => {
                wrong(format!("must have at most {most} members"))
            }
            (Self::Map(_, each), Json::Object(members)) => {
                let mut members = members.iter();
                members.try_for_each(|(name, value)| each.check(value, Place::Member(&place, name)))
            }
            (Self::Object(mirror), json) => mirror.check(json, place),
            (_, json) => wrong(format!("must not be {}", json.kind())),
        }
    }
}

#[cfg(test)]
mod tests;
