//! The form of a receiver's URL, and a URL that was checked.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use hyper::header::HeaderValue;
use hyper::http::uri::PathAndQuery;
use url::{Host, Position, Url};

use crate::domain::webhook::URL_CHARS_MAX;

/// A URL of valid form: absolute, `http` or `https`, with a host, without user and fragment.
#[derive(Clone, PartialEq, Eq)]
pub struct ReceiverUrl {
    url: Url,
    authority: HeaderValue,
    path_and_query: PathAndQuery,
}

/// A URL that passed the checks, with its resolved addresses. Only [`Egress::admit`](super::Egress::admit) makes one.
#[derive(Debug, Clone)]
pub struct AdmittedUrl {
    pub(super) url: ReceiverUrl,
    pub(super) addresses: Vec<SocketAddr>,
}

impl AdmittedUrl {
    /// The host, and the addresses that it has now, which other hosts may have as well.
    pub fn destinations(&self) -> BTreeSet<String> {
        let addresses = self.addresses.iter().map(|address| address.ip());
        let addresses = addresses.map(|ip| ip.to_canonical().to_string());
        addresses.chain([self.url.host().to_owned()]).collect()
    }
}

/// Why a text is not the URL of a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UrlError(&'static str);

impl ReceiverUrl {
    /// Reads a URL, with IP addresses in every notation that HTTP clients accept: `2130706433` is 127.0.0.1.
    ///
    /// # Errors
    /// [`UrlError`] says what is wrong.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if text.trim().is_empty() {
            return Err(UrlError("must not be blank"));
        }
        if text.chars().count() > URL_CHARS_MAX {
            return Err(UrlError("must be at most 2048 characters long"));
        }
        // The parser drops or replaces these; another client might read another address.
        let odd = |c: char| c.is_control() || c.is_whitespace() || c == '\\';
        if text.contains(odd) {
            return Err(UrlError(
                "must not contain blanks, control characters or backslashes",
            ));
        }
        let rest = text.split_once("://").filter(|(scheme, _)| {
            scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http")
        });
        let Some((_, rest)) = rest else {
            return Err(UrlError("must be an absolute https URL"));
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.is_empty() {
            return Err(UrlError("must have a host"));
        }
        if authority.contains('@') {
            return Err(UrlError("must not hold a user or a password"));
        }
        let invalid = UrlError("is not a valid URL");
        let url = Url::parse(text).map_err(|_| invalid)?;
        if text.contains('#') {
            return Err(UrlError("must not have a fragment"));
        }
        if url.port() == Some(0) {
            return Err(UrlError("must have a port of 1 to 65535"));
        }
        if url
            .host_str()
            .is_none_or(|host| host.trim_end_matches('.').is_empty())
        {
            return Err(UrlError("must have a host"));
        }
        let authority = &url[Position::BeforeHost..Position::AfterPort];
        let path_and_query = &url[Position::BeforePath..Position::AfterQuery];
        Ok(Self {
            authority: HeaderValue::from_str(authority).map_err(|_| invalid)?,
            path_and_query: path_and_query.parse().map_err(|_| invalid)?,
            url,
        })
    }

    /// Whether the scheme is `http`.
    pub fn is_plain(&self) -> bool {
        self.url.scheme() == "http"
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &str {
        self.url.scheme()
    }

    /// The host as a header and a certificate name it, in lower case and in ASCII; IPv6 in brackets.
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// The host's IP address, when the host is one.
    pub fn ip(&self) -> Option<IpAddr> {
        match self.url.host()? {
            Host::Domain(_) => None,
            Host::Ipv4(v4) => Some(v4.into()),
            Host::Ipv6(v6) => Some(v6.into()),
        }
    }

    /// The port, by default that of the scheme.
    pub fn port(&self) -> u16 {
        self.url.port_or_known_default().unwrap_or(443)
    }

    /// Path and query, as a request sends them.
    pub fn path_and_query(&self) -> &PathAndQuery {
        &self.path_and_query
    }

    /// The value of the `Host` header: host, and port unless it is the scheme's.
    pub fn authority(&self) -> &HeaderValue {
        &self.authority
    }
}

impl fmt::Debug for ReceiverUrl {
    /// Hides path and query, where receivers put tokens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = &self.url[..Position::BeforePath];
        write!(f, "ReceiverUrl({origin})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> &'static str {
        match ReceiverUrl::parse(text) {
            Ok(url) => panic!("{text} is taken for {url:?}"),
            Err(UrlError(why)) => why,
        }
    }

    #[test]
    fn the_form_of_a_url_is_checked() {
        let url = ReceiverUrl::parse("HTTPS://Hooks.Example.COM:8443/a?b=c").expect("an address");
        assert_eq!(
            (url.host(), url.port(), url.path_and_query().as_str()),
            ("hooks.example.com", 8443, "/a?b=c")
        );
        assert_eq!(url.authority(), "hooks.example.com:8443");
        assert_eq!(
            ReceiverUrl::parse("https://bücher.example").unwrap().host(),
            "xn--bcher-kva.example"
        );
        for (text, why) in [
            ("", "blank"),
            (" ", "blank"),
            ("hooks.example.com", "absolute"),
            ("/path", "absolute"),
            ("ftp://example.com", "absolute"),
            ("file:///etc/passwd", "absolute"),
            ("https:example.com", "absolute"),
            ("https://", "host"),
            ("https:///example.com", "host"),
            ("https://?x", "host"),
            ("https://./", "host"),
            ("https://user@example.com", "user"),
            ("https://user:pw@example.com", "user"),
            ("https://@example.com", "user"),
            ("https://example.com/#x", "fragment"),
            ("https://example.com/#", "fragment"),
            ("https://example.com:0/", "port"),
            ("https://example.com:65536/", "valid"),
            ("https://example.com\\@evil.test/", "backslashes"),
            ("https://exam\tple.com/", "control"),
            ("https://example.com/\u{0}", "control"),
            (" https://example.com/", "blanks"),
            ("https://[::1/", "valid"),
            ("https://[fe80::1%25eth0]/", "valid"),
            ("https://[fe80::1%eth0]/", "valid"),
            ("https://256.1.1.1/", "valid"),
            ("https://1.2.3.4.5/", "valid"),
        ] {
            assert!(refusal(text).contains(why), "{text}: {}", refusal(text));
        }
        let long = format!("https://example.com/{}", "x".repeat(2028));
        assert_eq!(long.chars().count(), 2048);
        assert!(ReceiverUrl::parse(&long).is_ok());
        assert!(refusal(&format!("{long}x")).contains("2048"));
    }

    #[test]
    fn an_ip_address_is_one_in_every_notation() {
        for text in [
            "127.0.0.1",
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "0177.0.0.1",
            "127.1",
            "127.0.1",
            "127.0.0.1.",
            "１２７.0.0.1",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
        ] {
            let url = ReceiverUrl::parse(&format!("https://{text}/")).expect(text);
            let ip = url.ip().expect(text).to_canonical();
            assert_eq!(ip, IpAddr::from([127, 0, 0, 1]), "{text}");
        }
        let octal = ReceiverUrl::parse("https://012.0.0.1/").expect("an address");
        assert_eq!(octal.ip(), Some(IpAddr::from([10, 0, 0, 1])));
        assert_eq!(ReceiverUrl::parse("https://localhost/").unwrap().ip(), None);
    }

    #[test]
    fn debug_hides_possible_tokens() {
        let url = ReceiverUrl::parse("https://example.com/T0K3N?key=s3cret").expect("an address");
        assert_eq!(format!("{url:?}"), "ReceiverUrl(https://example.com)");
    }
}
