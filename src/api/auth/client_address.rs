//! Where a request comes from.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};

use crate::api::context::Context;
use crate::domain::cidr::Cidr;

/// Networks of proxies whose word on a client's address is taken.
pub type TrustedProxies = Arc<[Cidr]>;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The address of a request's client; see [`client_address`].
pub fn client_of(trusted: &[Cidr], parts: &Parts) -> IpAddr {
    let context = parts.extensions.get::<Context>();
    let peer = context.and_then(|context| context.peer);
    let peer = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.ip());
    client_address(trusted, peer, &parts.headers)
}

/// The client's address, so far as proxies can be believed: the peer's, or, where that is a trusted proxy, the last
/// address that trusted proxies forwarded for somebody else.
///
/// Each proxy appends to what it was sent, so only the right end is theirs; anyone may have sent what is further left
/// written. An entry that is no address ends the walk at the proxy that sent it.
pub fn client_address(trusted: &[Cidr], peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    let mut client = peer.to_canonical();
    // Several lines mean the same as one with their values in this order.
    let lines = headers.get_all(FORWARDED_FOR).iter().rev();
    let texts = lines.map(|line| line.to_str().unwrap_or("?"));
    let hops = texts.flat_map(|text| text.rsplit(',')).map(str::trim);
    for hop in hops.filter(|hop| !hop.is_empty()) {
        if !is_trusted(trusted, client) {
            break;
        }
        match address(hop) {
            Some(address) => client = address,
            None => break,
        }
    }
    client
}

/// Whether an address is a trusted proxy's.
pub fn is_trusted(trusted: &[Cidr], address: IpAddr) -> bool {
    trusted.iter().any(|cidr| cidr.contains(address))
}

/// The address of one client: an IPv4 address, or the 48 bits of an IPv6 address below which its site may choose at will.
pub fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) & (u128::MAX << 80);
            IpAddr::V6(Ipv6Addr::from(network))
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// Some proxies add the client's port.
fn address(hop: &str) -> Option<IpAddr> {
    let plain = hop.parse::<IpAddr>();
    let address = plain.or_else(|_| hop.parse::<SocketAddr>().map(|with_port| with_port.ip()));
    address.ok().map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::dialect::header_map;

    #[test]
    fn only_addresses_from_trusted_proxies_are_used() {
        let trusted: Vec<Cidr> = ["10.0.0.0/8", "fd00::/8"]
            .map(|text| text.parse().expect("a network"))
            .into();
        for (peer, lines, client) in [
            // No header.
            ("192.0.2.1", &[][..], "192.0.2.1"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &[""], "10.0.0.1"),
            // A peer that is no proxy says what it likes.
            ("192.0.2.1", &["203.0.113.9"], "192.0.2.1"),
            ("192.0.2.1", &["10.0.0.2, 203.0.113.9"], "192.0.2.1"),
            // One proxy.
            ("10.0.0.1", &["203.0.113.9"], "203.0.113.9"),
            ("10.0.0.1", &["198.51.100.7, 203.0.113.9"], "203.0.113.9"),
            ("10.0.0.1", &["10.0.0.7, 203.0.113.9"], "203.0.113.9"),
            // The proxy appends a line of its own to the client's.
            ("10.0.0.1", &["198.51.100.7", "203.0.113.9"], "203.0.113.9"),
            ("10.0.0.1", &["1.1.1.1, 2.2.2.2", "3.3.3.3"], "3.3.3.3"),
            // Several proxies, on one line or on several.
            (
                "10.0.0.1",
                &["203.0.113.9, 10.0.0.3, 10.0.0.2"],
                "203.0.113.9",
            ),
            (
                "10.0.0.1",
                &["6.6.6.6", "203.0.113.9, fd00::3", "10.0.0.2"],
                "203.0.113.9",
            ),
            ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            // Garbage, empty entries, bytes.
            ("10.0.0.1", &["203.0.113.9, unknown"], "10.0.0.1"),
            ("10.0.0.1", &["203.0.113.9, x, 10.0.0.2"], "10.0.0.2"),
            ("10.0.0.1", &["203.0.113.9, 1.2.3.4.5"], "10.0.0.1"),
            ("10.0.0.1", &["203.0.113.9", "é"], "10.0.0.1"),
            ("10.0.0.1", &["203.0.113.9,, ,"], "203.0.113.9"),
            // IPv4 in IPv6, ports.
            ("::ffff:192.0.2.1", &["203.0.113.9"], "192.0.2.1"),
            ("::ffff:10.0.0.1", &["::ffff:203.0.113.9"], "203.0.113.9"),
            ("fd00::1", &["2001:db8::9"], "2001:db8::9"),
            ("10.0.0.1", &["203.0.113.9:4711"], "203.0.113.9"),
            ("10.0.0.1", &["[2001:db8::9]:4711"], "2001:db8::9"),
        ] {
            let pairs: Vec<_> = lines.iter().map(|line| ("x-forwarded-for", line)).collect();
            let headers = header_map(&pairs);
            let peer = peer.parse().expect("an address");
            let found = client_address(&trusted, peer, &headers);
            assert_eq!(found.to_string(), client, "{peer} {lines:?}");
        }
    }

    #[test]
    fn a_client_cannot_pose_as_many_addresses() {
        for (address, network) in [
            ("192.0.2.1", "192.0.2.1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1::"),
        ] {
            let address = address.parse().expect("an address");
            assert_eq!(network_of(address).to_string(), network);
        }
    }

    #[test]
    fn without_trusted_proxies_the_peer_is_the_client() {
        let peer = IpAddr::from([10, 0, 0, 1]);
        let headers = header_map(&[("x-forwarded-for", "203.0.113.9")]);
        assert_eq!(client_address(&[], peer, &headers), peer);
    }
}
