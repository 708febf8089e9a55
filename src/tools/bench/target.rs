//! Where a plane of the service is.

use std::str::FromStr;

use url::Url;

/// Host, port and path of a plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// As the resolver wants it, without brackets.
    pub host: String,
    pub port: u16,
    /// The value of the `Host` header.
    pub authority: String,
    /// What stands before `/v1`; empty, or without a slash at its end.
    pub base: String,
}

/// Why a URL is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum TargetError {
    #[error("not a URL; write http://host:port")]
    NotAUrl,
    #[error("only plain http:// can be measured; put no TLS before the service under test")]
    NotHttp,
    #[error("a URL of a service has no query, fragment or credentials")]
    Excess,
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let url = Url::parse(text).map_err(|_| TargetError::NotAUrl)?;
        if url.scheme() != "http" {
            return Err(TargetError::NotHttp);
        }
        let plain = url.username().is_empty() && url.password().is_none();
        if !plain || url.query().is_some() || url.fragment().is_some() {
            return Err(TargetError::Excess);
        }
        let host = url.host_str().ok_or(TargetError::NotAUrl)?;
        let port = url.port().unwrap_or(80);
        Ok(Self {
            authority: format!("{host}:{port}"),
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            base: url.path().trim_end_matches('/').to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_host_port_and_base() {
        let parts = |text: &str| {
            let target: Target = text.parse().expect(text);
            (target.host, target.port, target.authority, target.base)
        };
        let expected = |host: &str, port, authority: &str, base: &str| {
            (host.into(), port, authority.into(), base.into())
        };
        assert_eq!(
            parts("http://api.test"),
            expected("api.test", 80, "api.test:80", "")
        );
        assert_eq!(
            parts("http://[::1]:7878/budget/"),
            expected("::1", 7878, "[::1]:7878", "/budget")
        );
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let refusal = |text: &str| text.parse::<Target>().expect_err(text);
        assert_eq!(refusal("127.0.0.1:7878"), TargetError::NotAUrl);
        assert_eq!(refusal("https://api.test"), TargetError::NotHttp);
        assert_eq!(refusal("http://me@api.test"), TargetError::Excess);
        assert_eq!(refusal("http://api.test?x=1"), TargetError::Excess);
    }
}
