//! Every vendor word of the wire. Nothing else spells one out.
//!
//! The wire exists under two vendors' names, and a deployment speaks one of them for the life of its data: stored bodies and
//! events contain the words.

use std::fmt;

use super::api_key::permission::Permission;

/// The vendor whose names the API uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Dialect {
    /// Names with `Service`, as in `X-Service-API-Key`.
    #[default]
    Service,
    /// The names of the public Cycles protocol, for its existing clients.
    Cycles,
}

/// The words of one dialect. Headers are in the usual capitals.
#[derive(Debug)]
pub struct Words {
    /// The dialect's own name, which the deployment's record keeps.
    pub dialect: &'static str,
    /// Request header with a tenant's API key.
    pub api_key_header: &'static str,
    /// Header with the trace id, on requests and responses.
    pub trace_header: &'static str,
    /// Response header that names the tenant of the API key.
    pub tenant_header: &'static str,
    /// Response header of a tenant's close that continues in the background.
    pub cascade_header: &'static str,
    /// Response header that says up to when a list over all tenants is complete.
    pub as_of_header: &'static str,
    /// Delivery header with the event's id.
    pub event_id_header: &'static str,
    /// Delivery header with the event's type.
    pub event_type_header: &'static str,
    /// Delivery header with the signature.
    pub signature_header: &'static str,
    /// First half of the `User-Agent` of deliveries.
    pub delivery_agent: &'static str,

    /// The evidence reference in an answer or an error. In a reservation's record the map is `evidence` in every dialect.
    pub evidence_member: &'static str,
    /// The URL inside every evidence reference.
    pub evidence_url_member: &'static str,
    /// `schema_version` of an evidence envelope.
    pub evidence_schema: &'static str,
    /// The method in the name of a signing key: `did:<method>:…`.
    pub did_method: &'static str,
    /// From when on a key of the key set is valid.
    pub key_from_member: &'static str,
    /// Until when.
    pub key_until_member: &'static str,
    /// File of the key set, below `/v1/.well-known/`.
    pub key_set_file: &'static str,

    /// `source` of the runtime plane's events.
    pub runtime_source: &'static str,
    /// `source` of the admin plane's events.
    pub admin_source: &'static str,
    /// `source` of the dispatcher's events about deliveries and the store.
    pub dispatcher_source: &'static str,

    /// Why a row of a bulk action is skipped whose webhook is gone.
    pub gone_row: &'static str,

    /// Prefix of the environment variables of the published clients, if there are any.
    pub client_variables: Option<&'static str>,

    /// Prefix of API keys.
    pub api_key_prefix: &'static str,
    /// Accepted prefixes of an API key: those that are given out, and those reserved for tests.
    pub api_key_prefixes: &'static [&'static str],
    /// Permissions of an API key that is created without `permissions`.
    pub default_permissions: &'static [Permission],
}

static SERVICE: Words = Words {
    dialect: "service",
    api_key_header: "X-Service-API-Key",
    trace_header: "X-Service-Trace-Id",
    tenant_header: "X-Service-Tenant",
    cascade_header: "X-Service-Cascade-Status",
    as_of_header: "X-Service-As-Of",
    event_id_header: "X-Service-Event-Id",
    event_type_header: "X-Service-Event-Type",
    signature_header: "X-Service-Signature",
    delivery_agent: "service-events",
    evidence_member: "evidence",
    evidence_url_member: "service_evidence_url",
    evidence_schema: "service-evidence/v0.1",
    did_method: "service",
    key_from_member: "service_nbf_ms",
    key_until_member: "service_exp_ms",
    key_set_file: "service-jwks.json",
    runtime_source: "service-server",
    admin_source: "service-admin",
    dispatcher_source: "service-events",
    gone_row: "MISSING",
    client_variables: None,
    api_key_prefix: "sk_live_",
    api_key_prefixes: &["sk_live_", "sk_test_"],
    default_permissions: &[
        Permission::ReservationsCreate,
        Permission::ReservationsCommit,
        Permission::ReservationsRelease,
        Permission::ReservationsExtend,
        Permission::ReservationsList,
        Permission::BalancesRead,
        Permission::BudgetsRead,
        Permission::PoliciesRead,
        Permission::WebhooksRead,
        Permission::EventsRead,
    ],
};

static CYCLES: Words = Words {
    dialect: "cycles",
    api_key_header: "X-Cycles-API-Key",
    trace_header: "X-Cycles-Trace-Id",
    tenant_header: "X-Cycles-Tenant",
    cascade_header: "X-Cycles-Cascade-Status",
    as_of_header: "X-Cycles-As-Of",
    event_id_header: "X-Cycles-Event-Id",
    event_type_header: "X-Cycles-Event-Type",
    signature_header: "X-Cycles-Signature",
    delivery_agent: "cycles-server-events",
    evidence_member: "cycles_evidence",
    evidence_url_member: "cycles_evidence_url",
    evidence_schema: "cycles-evidence/v0.1",
    did_method: "cycles",
    key_from_member: "cycles_nbf_ms",
    key_until_member: "cycles_exp_ms",
    key_set_file: "cycles-jwks.json",
    runtime_source: "cycles-server",
    admin_source: "cycles-admin",
    dispatcher_source: "cycles-events",
    gone_row: "ALREADY_DELETED",
    client_variables: Some("CYCLES_"),
    api_key_prefix: "cyc_live_",
    api_key_prefixes: &["cyc_live_", "cyc_test_"],
    default_permissions: &[
        Permission::ReservationsCreate,
        Permission::ReservationsCommit,
        Permission::ReservationsRelease,
        Permission::ReservationsExtend,
        Permission::ReservationsList,
        Permission::BalancesRead,
        Permission::BudgetsRead,
        Permission::BudgetsWrite,
        Permission::PoliciesRead,
        Permission::PoliciesWrite,
    ],
};

impl Dialect {
    /// Every dialect, in the order of their numbers.
    pub const ALL: [Self; 2] = [Self::Service, Self::Cycles];

    /// The dialect whose dashboard lists the budgets of all tenants at once.
    pub const LISTS_ALL_TENANTS: Self = Self::Cycles;

    /// The words of this dialect.
    pub fn words(self) -> &'static Words {
        match self {
            Self::Service => &SERVICE,
            Self::Cycles => &CYCLES,
        }
    }

    /// The dialect whose request headers are understood beside this one's.
    pub fn other(self) -> Self {
        match self {
            Self::Service => Self::Cycles,
            Self::Cycles => Self::Service,
        }
    }

    /// The dialect's own name.
    pub fn as_str(self) -> &'static str {
        self.words().dialect
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn dialects_share_no_vendor_word() {
        let words_of = |dialect: Dialect| format!("{:?}", dialect.words()).to_lowercase();
        assert!(!words_of(Dialect::Service).contains("cyc"));
        assert!(!words_of(Dialect::Cycles).contains("service"));
    }

    #[test]
    fn a_dialect_has_the_name_of_its_flag() {
        for dialect in Dialect::value_variants() {
            let flag = dialect.to_possible_value().expect("not hidden");
            assert_eq!(flag.get_name(), dialect.as_str());
        }
    }
}
