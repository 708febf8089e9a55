//! URL patterns: `https://*.example.com/*`. Host and path are compared separately, so that a `*` in the host cannot match
//! a path that names another host.

use std::str::FromStr;

use url::Host;

use super::url::ReceiverUrl;

/// The longest pattern, in characters.
const CHARS_MAX: usize = 2048;

/// A URL pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlPattern {
    /// `None` for both schemes.
    scheme: Option<String>,
    host: String,
    /// `None` for any port.
    port: Option<u16>,
    path: String,
}

/// The text is not a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a pattern is a URL such as https://*.example.com/*, with * for any part of host or path")]
pub struct PatternError;

impl FromStr for UrlPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let odd = |c: char| c.is_control() || c.is_whitespace() || "\\#@".contains(c);
        if text.chars().count() > CHARS_MAX || text.contains(odd) {
            return Err(PatternError);
        }
        let (scheme, rest) = text.split_once("://").ok_or(PatternError)?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "*" => None,
            known @ ("http" | "https") => Some(known.to_owned()),
            _ => return Err(PatternError),
        };
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (authority, None),
        };
        let port = match port {
            Some("*") => None,
            Some(port) => Some(
                port.parse()
                    .ok()
                    .filter(|port| *port > 0)
                    .ok_or(PatternError)?,
            ),
            // The port of the scheme, as in a URL.
            None if scheme.as_deref() == Some("http") => Some(80),
            None => Some(443),
        };
        let path = match path {
            "" => "/".to_owned(),
            query if query.starts_with('?') => format!("/{query}"),
            path => path.to_owned(),
        };
        Ok(Self {
            scheme,
            host: host_pattern(host)?,
            port,
            path,
        })
    }
}

impl UrlPattern {
    /// Whether the whole URL matches this pattern.
    pub fn matches(&self, url: &ReceiverUrl) -> bool {
        let port = match (&self.scheme, self.port) {
            // For both schemes, an absent port means that of the URL's scheme.
            (None, Some(443)) => url.port() == if url.is_plain() { 80 } else { 443 },
            (_, port) => port.is_none_or(|port| port == url.port()),
        };
        self.scheme
            .as_deref()
            .is_none_or(|scheme| scheme == url.scheme())
            && port
            && glob(&self.host, url.host(), |byte| !b"/@:".contains(&byte))
            && glob(&self.path, url.path_and_query().as_str(), |_| true)
    }
}

/// Normalizes a host pattern as URLs do: lower case, and each label without `*` in ASCII.
fn host_pattern(host: &str) -> Result<String, PatternError> {
    if host.is_empty() || host.contains(['[', ']']) && host.contains('*') {
        return Err(PatternError);
    }
    let parsed = |host: &str| match Host::parse(host) {
        Ok(host) => Ok(host.to_string()),
        Err(_) => Err(PatternError),
    };
    if !host.contains('*') {
        return parsed(host);
    }
    let label = |label: &str| -> Result<String, PatternError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_*".contains(&byte);
        if label.bytes().all(plain) {
            return Ok(label.to_ascii_lowercase());
        }
        match label.is_ascii() || label.contains('*') {
            true => Err(PatternError),
            false => parsed(label),
        }
    };
    let labels: Result<Vec<_>, _> = host.split('.').map(label).collect();
    Ok(labels?.join("."))
}

/// Whether `text` matches `pattern`, in which `*` matches any number of bytes that `allowed` accepts.
fn glob(pattern: &str, text: &str, allowed: impl Fn(u8) -> bool) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // The position after the last star, and how far that star has matched.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p + 1, t));
            p += 1;
        } else if p < pattern.len() && pattern[p] == text[t] {
            p += 1;
            t += 1;
        } else if let Some((behind, from)) = star
            && allowed(text[from])
        {
            star = Some((behind, from + 1));
            p = behind;
            t = from + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, url: &str) -> bool {
        let pattern: UrlPattern = pattern.parse().expect(pattern);
        pattern.matches(&ReceiverUrl::parse(url).expect(url))
    }

    #[test]
    fn each_part_of_a_url_is_matched_separately() {
        let rows = "
            https://*.example.com/*      https://hooks.example.com/a/b?c=d    true
            https://*.example.com/*      https://a.b.example.com/             true
            https://*.example.com/*      https://HOOKS.EXAMPLE.COM/x          true
            https://*.example.com/*      https://example.com/x                false
            https://*.example.com/*      https://evil.test/x.example.com/y    false
            https://*.example.com/*      https://evil.test/?x=.example.com/y  false
            https://*.example.com/*      https://hooks.example.com.evil.test/ false
            https://*.example.com/*      http://hooks.example.com/            false
            https://*.example.com/*      https://hooks.example.com:8443/      false
            https://*.example.com:*/*    https://hooks.example.com:8443/      true
            https://*.example.com:8443/* https://hooks.example.com:8443/x     true
            *://*.example.com/*          http://hooks.example.com/x           true
            *://*.example.com/*          http://hooks.example.com:443/x       false
            https://example.com          https://example.com/                 true
            https://example.com          https://example.com/x                false
            https://example.com/hook     https://example.com/hook             true
            https://example.com/hook     https://example.com/hook/more        false
            https://example.com/hook     https://example.com/HOOK             false
            https://example.com/*/x      https://example.com/a/b/x            true
            https://*/*                  https://anything.test/x              true
            https://*/*                  https://[2600::1]/x                  false
            https://[2600::1]/*          https://[2600:0::1]/x                true
            https://*.bücher.example/*   https://a.BÜCHER.example/x           true
            https://api-*.example.com/*  https://api-7.example.com/x          true
            https://8.8.8.8/*            https://134744072/x                  true";
        for row in rows.lines().skip(1) {
            let [pattern, url, expected] = row.split_whitespace().collect::<Vec<_>>()[..] else {
                panic!("{row}");
            };
            assert_eq!(matches(pattern, url).to_string(), expected, "{row}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "*",
            "example.com",
            "ftp://example.com/*",
            "https://",
            "https:///x",
            "https://user@example.com/*",
            "https://example.com/#x",
            "https://example.com:0/",
            "https://example.com:x/",
            "https://exa mple.com/",
            "https://[*]/",
            "https://*ü.example/",
        ] {
            assert_eq!(text.parse::<UrlPattern>(), Err(PatternError), "{text}");
        }
    }

    #[test]
    fn many_stars_cost_no_more_than_the_product_of_the_lengths() {
        let pattern = format!("https://example.com/{}b", "*a".repeat(500));
        let url = format!("https://example.com/{}", "a".repeat(2000));
        assert!(!matches(&pattern, &url));
    }
}
