//! The objects of a file, checked as the API checks requests, and those of a service.

use std::collections::HashMap;

use serde_json::Value;

use super::forms::{Forms, plain};
use super::kinds::{Kind, OWNED, TENANT, is_among};
use crate::domain::json::{Json, Place};
use crate::domain::policy::ScopePattern;
use crate::domain::scope::{BudgetScope, tenant_as_sent};
use crate::tools::call::{Call, CallError};
use crate::tools::client::Client;

/// An object of a file or of a service.
pub(super) struct Object {
    pub kind: &'static Kind,
    pub tenant: String,
    pub name: String,
    /// Its place in the file, such as `tenants[0].budgets[3]`.
    pub place: String,
    /// Its members in the form that is compared.
    pub members: Value,
    /// Empty where a file has none.
    pub status: String,
    /// As the file has it, or as the service returned it.
    pub source: Value,
    /// What is wrong with it, as far as schemas say.
    problems: Vec<String>,
}

/// A tenant, and what it owns.
pub(super) struct Tenant {
    pub tenant: Object,
    pub owned: Vec<Object>,
    /// The kinds of which the file lists all.
    pub listed: Vec<&'static str>,
}

impl Object {
    fn new(kind: &'static Kind, source: Value, of: &str, place: String, forms: &Forms) -> Self {
        let mut problems = Vec::new();
        let mut members = forms.members(kind, &source, &place, &mut problems);
        if let Some(members) = members.as_object_mut() {
            members.remove("status");
        }
        let status = Some(&source["status"]).filter(|it| !it.is_null());
        let status = status.map(plain).unwrap_or_default();
        let (name, tenant) = (kind.name(&members), of.to_owned());
        Self {
            kind,
            tenant,
            name,
            place,
            members,
            status,
            source,
            problems,
        }
    }

    /// What plans call it.
    pub fn title(&self) -> String {
        let (word, name) = (self.kind.word, self.name.as_str());
        match name.strip_prefix("tenant:") {
            Some(scope) => format!("{word} {scope}"),
            None if word == TENANT.word => format!("{word} {name}"),
            None => format!("{word} {} {name}", self.tenant),
        }
    }

    pub fn identity(&self) -> (&'static str, &str) {
        (self.kind.word, &self.name)
    }

    /// Whether the file, or the service, shows it in use.
    pub fn is_active(&self) -> bool {
        self.status == "ACTIVE"
    }

    /// The body of the request that creates it.
    pub fn request(&self) -> Value {
        let mut request = self.members.clone();
        if is_among(self.kind.without, "tenant_id") {
            request["tenant_id"] = self.tenant.as_str().into();
        }
        request
    }

    /// What the API would refuse.
    fn problems(&self) -> Vec<String> {
        let (kind, place) = (self.kind, &self.place);
        let mut problems = self.problems.clone();
        match Json::parse(self.request().to_string().as_bytes()) {
            Ok(json) => {
                let checked = (kind.check)(json, Place::Root(place));
                problems.extend(checked.err().iter().flat_map(|refused| refused.lines()));
            }
            Err(error) => problems.push(format!("{place}: {error}")),
        }
        for member in ["scope", "scope_pattern"] {
            let Some(scope) = self.members[member].as_str() else {
                continue;
            };
            let parsed = match kind.is_budget() {
                true => BudgetScope::parse(scope).map(drop),
                false => ScopePattern::parse(scope).map(drop),
            };
            let problem = match parsed.and_then(|()| tenant_as_sent(scope)) {
                Err(error) => error.to_string(),
                Ok(tenant) if tenant == self.tenant => continue,
                Ok(_) => format!("must begin with tenant:{}, which lists it", self.tenant),
            };
            problems.push(format!("{place}.{member}: {problem}"));
        }
        if !["", "ACTIVE", kind.off].contains(&self.status.as_str()) {
            let wanted = format!("must be ACTIVE or {}, not {}", kind.off, self.status);
            problems.push(format!("{place}.status: {wanted}"));
        }
        problems
    }
}

/// Reads a file that is parsed already.
///
/// # Errors
/// All its problems.
pub(super) fn in_file(file: &Value, forms: &Forms) -> Result<Vec<Tenant>, Vec<String>> {
    let mut problems = Vec::new();
    for (name, _) in file.as_object().into_iter().flatten() {
        if name != TENANT.list {
            problems.push(format!("{name:?}: unknown member; there is tenants"));
        }
    }
    let mut tenants = Vec::new();
    for (place, mut source) in items(&file[TENANT.list], TENANT.list, &mut problems) {
        let id = plain(&source["tenant_id"]);
        let (mut owned, mut listed) = (Vec::new(), Vec::new());
        for kind in OWNED {
            let members = source.as_object_mut();
            let Some(list) = members.and_then(|members| members.remove(kind.list)) else {
                continue;
            };
            listed.push(kind.word);
            for (place, source) in items(&list, &format!("{place}.{}", kind.list), &mut problems) {
                owned.push(Object::new(kind, source, &id, place, forms));
            }
        }
        let tenant = Object::new(&TENANT, source, &id, place, forms);
        tenants.push(Tenant {
            tenant,
            owned,
            listed,
        });
    }
    let mut places = HashMap::new();
    let objects = tenants
        .iter()
        .flat_map(|it| it.owned.iter().chain([&it.tenant]));
    for object in objects {
        problems.extend(object.problems());
        let identity = (&object.tenant, object.identity());
        if let Some(other) = places.insert(identity, &object.place) {
            let (place, title) = (&object.place, object.title());
            problems.push(format!("{place}: {title} is already at {other}"));
        }
    }
    match problems.is_empty() {
        true => Ok(tenants),
        false => Err(problems),
    }
}

/// The objects of a list, each with its place.
fn items(list: &Value, place: &str, problems: &mut Vec<String>) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    if !list.is_array() {
        problems.push(format!("{place}: must be a list"));
    }
    for (at, item) in list.as_array().into_iter().flatten().enumerate() {
        let place = format!("{place}[{at}]");
        match item.is_object() {
            true => found.push((place, item.clone())),
            false => problems.push(format!("{place}: must be an object")),
        }
    }
    found
}

/// Reads a tenant of a service, if it exists. What has ended for good, such as a revoked key, is left out.
pub(super) async fn in_service(
    id: &str,
    client: &Client,
    forms: &Forms,
) -> Result<Option<Tenant>, CallError> {
    let object = |kind: &'static Kind, mut row: Value| {
        // What is allocated besides temporary increases.
        let increases = row["increases"].as_array().into_iter().flatten();
        let increases = increases.filter_map(|increase| increase["amount"]["amount"].as_i64());
        let increases = increases.fold(0, i64::saturating_add);
        if let Some(allocated) = row["allocated"]["amount"].as_i64() {
            row["allocated"]["amount"] = allocated.saturating_sub(increases).into();
        }
        Object::new(kind, row, id, String::new(), forms)
    };
    let tenant = match client.send(&Call::to(TENANT.read, id)).await {
        Err(CallError::Refused(refusal)) if refusal.code == "TENANT_NOT_FOUND" => return Ok(None),
        read => object(&TENANT, read?),
    };
    let mut owned = Vec::new();
    for kind in OWNED {
        let list = Call::of(kind.read).with("tenant_id", Some(id));
        // The order that has an index.
        let list = list.with("sort_by", kind.is_budget().then_some("scope"));
        let rows = client.rows(&list, None).await?;
        owned.extend(rows.into_iter().map(|row| object(kind, row)));
    }
    owned.retain(|object| !is_among("CLOSED REVOKED EXPIRED", &object.status));
    Ok(Some(Tenant {
        tenant,
        owned,
        listed: Vec::new(),
    }))
}
