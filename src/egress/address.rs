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

/// Ranges that are blocked even where the list leaves them out, unless `http` is allowed too: from there, a request reaches
/// the service's own host, or the credentials that a cloud gives it.
const BLOCKED_WITHOUT_HTTP: [(&str, &str); 6] = [
    ("127.0.0.0/8", "loopback"),
    ("::1/128", "loopback"),
    ("169.254.0.0/16", "link-local"),
    ("fe80::/10", "link-local"),
    ("fd00:ec2::254/128", "metadata of a cloud"),
    ("168.63.129.16/32", "metadata of a cloud"),
];

/// Where clouds have their metadata. The other link-local and metadata ranges are open only where the list opens this one:
/// some are in no default range, so that no list would name them.
const METADATA: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254));

/// Ranges that are always blocked. IPv4-mapped and NAT64 addresses count as the IPv4 address inside.
const ALWAYS_BLOCKED: [(&str, &str); 16] = [
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
    ("2001::/23", "protocol assignments"),
    ("2001:db8::/32", "documentation"),
    ("2002::/16", "6to4"),
    ("2620:4f:8000::/48", "protocol assignments"),
    ("3fff::/20", "documentation"),
];

/// The only IPv6 addresses that are not blocked: those of the public internet, and those that a list can open.
const OPEN_IPV6: [&str; 4] = ["2000::/3", "fc00::/7", "fe80::/10", "::1/128"];

/// The prefix of the public NAT64 translation.
const NAT64: u128 = 0x0064_ff9b << 96;

/// The default ranges that a list does not block as a whole.
pub fn unblocked_defaults(blocked: &[Cidr]) -> Vec<&'static str> {
    let covered = |text: &str| blocked.iter().any(|cidr| cidr.covers(network(text)));
    let mut defaults = BLOCKED_BY_DEFAULT.to_vec();
    defaults.retain(|text| !covered(text));
    defaults
}

/// Why an address is refused where a policy blocks these networks, and perhaps allows `http`; `None` when it is allowed.
pub(super) fn refusal(address: IpAddr, blocked: &[Cidr], allow_http: bool) -> Option<String> {
    let listed = |address: IpAddr| blocked.iter().any(|cidr| cidr.contains(address));
    let connected = address;
    let address = match address {
        IpAddr::V6(v6) => embedded(v6).map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    };
    let named = |(range, what): &(&str, &str)| {
        let within = network(range).contains(address);
        within.then(|| format!("{what} ({range})"))
    };
    if let Some(always) = ALWAYS_BLOCKED.iter().find_map(named) {
        return Some(always);
    }
    if address.is_ipv6()
        && !OPEN_IPV6
            .iter()
            .any(|range| network(range).contains(address))
    {
        return Some("no public IPv6 address".to_owned());
    }
    if listed(address) || listed(connected) {
        return Some("a blocked range of the security configuration".to_owned());
    }
    let guarded = BLOCKED_WITHOUT_HTTP.iter().find_map(named)?;
    let is_open = allow_http && (address.is_loopback() || !listed(METADATA));
    (!is_open).then_some(guarded)
}

fn network(text: &str) -> Cidr {
    text.parse().expect("the ranges are networks")
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

    fn refused(address: &str, blocked: &[&str], allow_http: bool) -> bool {
        let blocked: Vec<Cidr> = blocked.iter().map(|text| network(text)).collect();
        refusal(address.parse().unwrap(), &blocked, allow_http).is_some()
    }

    #[test]
    fn each_default_range_is_blocked_and_private_networks_can_be_opened() {
        for (inside, outside) in [
            ("10.0.0.0", "9.255.255.255"),
            ("10.255.255.255", "11.0.0.0"),
            ("172.16.0.1", "172.15.255.255"),
            ("172.31.255.255", "172.32.0.0"),
            ("192.168.0.1", "192.167.255.255"),
            ("fc00::1", "2606:4700::1"),
            ("fdff::1", "2a00::1"),
        ] {
            assert!(refused(inside, &BLOCKED_BY_DEFAULT, true), "{inside}");
            assert!(!refused(outside, &BLOCKED_BY_DEFAULT, false), "{outside}");
            assert!(!refused(inside, &[], false), "{inside} can be opened");
        }
    }

    #[test]
    fn loopback_and_metadata_are_unblocked_only_with_http_and_out_of_the_list() {
        for (inside, outside) in [
            ("127.0.0.1", "126.255.255.255"),
            ("127.255.255.254", "128.0.0.1"),
            ("::1", "2600::1"),
            ("169.254.169.254", "169.253.255.255"),
            ("fe80::1", "2600::1"),
            ("febf::1", "2600::1"),
            ("fd00:ec2::254", "2600::1"),
            ("168.63.129.16", "168.63.129.17"),
            ("::ffff:168.63.129.16", "::ffff:168.63.129.15"),
        ] {
            for allow_http in [true, false] {
                assert!(refused(inside, &BLOCKED_BY_DEFAULT, allow_http), "{inside}");
            }
            assert!(!refused(outside, &BLOCKED_BY_DEFAULT, false), "{outside}");
            assert!(refused(inside, &[], false), "{inside} without http");
            assert!(refused(inside, &["10.0.0.0/8"], false), "{inside}");
            assert!(!refused(inside, &[], true), "{inside} in development");
        }
        assert!(refused("168.63.129.16", &["168.63.129.16/32"], true));
        assert!(refused("fe80::1", &["169.254.169.254/32"], true));
        assert!(!refused("127.0.0.1", &["169.254.0.0/16"], true));
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
            ("2001::1", Some("2001:200::1")),
            ("2001:1ff::1", None),
            ("2001:db8::1", Some("2001:db9::1")),
            ("2002:808:808::1", Some("2003::1")),
            ("2620:4f:8000::1", Some("2620:4f:8001::1")),
            ("3fff::1", Some("3ffe::1")),
            // Outside the public addresses.
            ("1fff::1", Some("2000::1")),
            ("4000::1", Some("3fff:1000::1")),
            ("5f00::1", None),
            ("::", None),
            ("::7f00:1", None),
            ("fe00::1", None),
            ("fec0::1", None),
            ("ff02::1", None),
            ("64:ff9b:1::1", None),
            ("100::1", None),
        ] {
            assert!(refused(inside, &[], true), "{inside}");
            if let Some(outside) = outside {
                assert!(!refused(outside, &BLOCKED_BY_DEFAULT, false), "{outside}");
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
            let refused = refused(address, &BLOCKED_BY_DEFAULT, false);
            assert_eq!(refused, blocked, "{address}");
        }
        // Loopback can be opened; this host cannot.
        assert!(!refused("::ffff:127.0.0.1", &[], true) && refused("::ffff:0.0.0.0", &[], true));
        assert!(refused("64:ff9b::8.8.8.8", &["64:ff9b::/96"], false));
    }

    #[test]
    fn a_default_range_is_unblocked_unless_one_of_the_list_covers_it() {
        let unblocked = |blocked: &[&str]| -> Vec<&str> {
            let blocked: Vec<Cidr> = blocked.iter().map(|text| network(text)).collect();
            super::unblocked_defaults(&blocked)
        };
        assert_eq!(unblocked(&BLOCKED_BY_DEFAULT), [""; 0]);
        assert_eq!(unblocked(&[]), BLOCKED_BY_DEFAULT);
        assert_eq!(unblocked(&["0.0.0.0/0"]), ["::1/128", "fc00::/7"]);
        assert_eq!(unblocked(&["::/0"]), [""; 0], "it has IPv4 in it too");
        assert!(unblocked(&["10.0.0.0/9"]).contains(&"10.0.0.0/8"));
    }
}
