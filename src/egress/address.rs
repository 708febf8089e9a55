//! The address ranges that deliveries must not go to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::domain::cidr::Cidr;

/// Ranges that are blocked unless the operator removes them: private networks, loopback, and link-local IPv4 with the
/// metadata services of clouds.
pub const BLOCKED_BY_DEFAULT: [&str; 7] = [
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "::1/128",
    "fc00::/7",
];

/// Ranges that are always blocked. IPv4-mapped and NAT64 addresses count as the IPv4 address inside.
const ALWAYS_BLOCKED: [(&str, &str); 20] = [
    ("0.0.0.0/8", "this host"),
    ("100.64.0.0/10", "carrier NAT"),
    ("192.0.0.0/24", "protocol assignments"),
    ("192.0.2.0/24", "documentation"),
    ("198.18.0.0/15", "benchmarks"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "multicast"),
    ("255.255.255.255/32", "broadcast"),
    ("240.0.0.0/4", "reserved"),
    ("192.88.99.0/24", "6to4 relays"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "site-local"),
    ("ff00::/8", "multicast"),
    ("2001:db8::/32", "documentation"),
    ("2001::/32", "Teredo"),
    ("2002::/16", "6to4"),
    ("64:ff9b:1::/48", "local NAT64"),
    ("100::/64", "discard"),
    ("::/96", "IPv4-compatible"),
];

/// The prefix of the public NAT64 translation.
const NAT64: u128 = 0x0064_ff9b << 96;

/// Why an address is refused; `None` when it is allowed.
pub(super) fn refusal(address: IpAddr, blocked: &[Cidr]) -> Option<String> {
    let address = match address {
        IpAddr::V6(v6) => embedded(v6).map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    };
    // Loopback lies within the range of IPv4-compatible addresses.
    let always = ALWAYS_BLOCKED
        .iter()
        .filter(|_| address != Ipv6Addr::LOCALHOST);
    let within = |text: &str| {
        let range: Cidr = text.parse().expect("the ranges are networks");
        range.contains(address)
    };
    if let Some((range, what)) = always.into_iter().find(|(range, _)| within(range)) {
        return Some(format!("{what} ({range})"));
    }
    let within = blocked.iter().any(|cidr| cidr.contains(address));
    within.then(|| "a blocked range of the security configuration".to_owned())
}

/// The IPv4 address inside an IPv4-mapped or NAT64 address.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let bits = address.to_bits();
    let low = Ipv4Addr::from_bits(bits as u32);
    (bits >> 32 == NAT64 >> 32)
        .then_some(low)
        .or_else(|| address.to_ipv4_mapped())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(address: &str, blocked: &[&str]) -> bool {
        let blocked: Vec<Cidr> = blocked.iter().map(|text| text.parse().unwrap()).collect();
        refusal(address.parse().unwrap(), &blocked).is_some()
    }

    #[test]
    fn each_default_range_is_blocked_and_can_be_opened() {
        for (inside, outside) in [
            ("10.0.0.0", "9.255.255.255"),
            ("10.255.255.255", "11.0.0.0"),
            ("172.16.0.1", "172.15.255.255"),
            ("172.31.255.255", "172.32.0.0"),
            ("192.168.0.1", "192.167.255.255"),
            ("127.0.0.1", "126.255.255.255"),
            ("127.255.255.254", "128.0.0.1"),
            ("169.254.169.254", "169.253.255.255"),
            ("::1", "2600::1"),
            ("fc00::1", "2606:4700::1"),
            ("fdff::1", "2a00::1"),
        ] {
            assert!(refused(inside, &BLOCKED_BY_DEFAULT), "{inside}");
            assert!(!refused(outside, &BLOCKED_BY_DEFAULT), "{outside}");
            assert!(!refused(inside, &[]), "{inside} is the operator's choice");
        }
    }

    #[test]
    fn always_blocked_ranges_stay_blocked() {
        for (inside, outside) in [
            ("0.0.0.0", None),
            ("0.1.2.3", Some("1.0.0.0")),
            ("100.64.0.1", Some("100.63.255.255")),
            ("100.127.255.255", Some("100.128.0.0")),
            ("192.0.0.8", Some("192.0.1.0")),
            ("192.0.2.1", Some("192.0.3.0")),
            ("192.88.99.1", Some("192.88.98.255")),
            ("198.18.0.1", Some("198.17.255.255")),
            ("198.19.255.255", Some("198.20.0.0")),
            ("198.51.100.1", Some("198.51.101.0")),
            ("203.0.113.7", Some("203.0.114.0")),
            ("224.0.0.1", Some("223.255.255.255")),
            ("239.255.255.255", None),
            ("240.0.0.1", None),
            ("255.255.255.255", None),
            ("::", None),
            ("::7f00:1", None),
            ("fe80::1", Some("fe00::1")),
            ("febf::1", None),
            ("fec0::1", None),
            ("ff02::1", None),
            ("64:ff9b:1::1", None),
            ("2002:808:808::1", Some("2003::1")),
            ("2001::1", Some("2001:1::1")),
            ("2001:db8::1", Some("2001:db9::1")),
            ("100::1", None),
        ] {
            assert!(refused(inside, &[]), "{inside}");
            if let Some(outside) = outside {
                assert!(!refused(outside, &BLOCKED_BY_DEFAULT), "{outside}");
            }
        }
    }

    #[test]
    fn an_ipv4_inside_an_ipv6_counts_as_ipv4() {
        for (address, blocked) in [
            ("::ffff:127.0.0.1", true),
            ("::ffff:10.0.0.1", true),
            ("::ffff:8.8.8.8", false),
            ("::ffff:0.0.0.0", true),
            ("64:ff9b::10.0.0.1", true),
            ("64:ff9b::169.254.169.254", true),
            ("64:ff9b::8.8.8.8", false),
        ] {
            assert_eq!(refused(address, &BLOCKED_BY_DEFAULT), blocked, "{address}");
        }
        // Loopback can be opened; this host cannot.
        assert!(!refused("::ffff:127.0.0.1", &[]) && refused("::ffff:0.0.0.0", &[]));
    }
}
