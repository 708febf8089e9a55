//! The header names of a dialect, as clients write them.

/// Names that clients of a dialect send and read.
#[derive(Debug, PartialEq)]
pub struct Names {
    /// Request header with the API key.
    pub key: &'static str,
    /// Header with the trace id, both ways.
    pub trace: &'static str,
    /// Response header with the tenant.
    pub tenant: &'static str,
    /// Prefix of API keys.
    pub key_prefix: &'static str,
}

pub static SERVICE: Names = Names {
    key: "X-Service-API-Key",
    trace: "X-Service-Trace-Id",
    tenant: "X-Service-Tenant",
    key_prefix: "sk_live_",
};

pub static CYCLES: Names = Names {
    key: "X-Cycles-API-Key",
    trace: "X-Cycles-Trace-Id",
    tenant: "X-Cycles-Tenant",
    key_prefix: "cyc_live_",
};

impl Names {
    /// Those of a service with these settings.
    pub fn of(settings: &[&str]) -> &'static Self {
        match settings.contains(&"cycles") {
            true => &CYCLES,
            false => &SERVICE,
        }
    }

    /// Those of the other dialect.
    pub fn other(&self) -> &'static Self {
        match *self == SERVICE {
            true => &CYCLES,
            false => &SERVICE,
        }
    }
}
