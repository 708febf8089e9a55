//! The operator's rules for receivers.

use crate::domain::cidr::Cidr;

use super::address::BLOCKED_BY_DEFAULT;
use super::pattern::UrlPattern;

/// The rules that the URL of a receiver must satisfy.
#[derive(Debug, Clone)]
pub struct SecurityPolicy {
    /// Networks that receivers must not be in, besides those that are always blocked.
    pub blocked: Vec<Cidr>,
    /// Allowed patterns; when there are any, a URL must match one.
    pub patterns: Vec<UrlPattern>,
    /// Whether `http` is allowed.
    pub allow_http: bool,
}

impl Default for SecurityPolicy {
    fn default() -> Self {
        let blocked = BLOCKED_BY_DEFAULT.iter();
        Self {
            blocked: blocked.filter_map(|text| text.parse().ok()).collect(),
            patterns: Vec::new(),
            allow_http: false,
        }
    }
}

impl SecurityPolicy {
    /// Whether the operator removed every blocked range, as for development, where names need not resolve.
    pub fn is_open(&self) -> bool {
        self.blocked.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_range_is_a_network() {
        assert_eq!(
            SecurityPolicy::default().blocked.len(),
            BLOCKED_BY_DEFAULT.len()
        );
    }
}
