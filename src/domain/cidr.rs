//! A network, written as an address and a number of leading bits.

use std::net::IpAddr;
use std::str::FromStr;

/// A network in CIDR notation; a plain address is a network of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    network: u128,
    mask: u128,
}

/// The text is no network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a network is an address and a number of bits, such as 10.0.0.0/8 or fd00::/8")]
pub struct CidrError;

impl Cidr {
    /// Whether `address` belongs to the network. An IPv4 address may come in its IPv6 form.
    pub fn contains(self, address: IpAddr) -> bool {
        bits(address) & self.mask == self.network
    }

    /// Whether all addresses of `other` belong to it.
    pub fn covers(self, other: Self) -> bool {
        self.mask <= other.mask && other.network & self.mask == self.network
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| CidrError)?;
        let (width, offset) = if address.is_ipv4() {
            (32, 96)
        } else {
            (128, 0)
        };
        let length: u32 = match length {
            // A sign would parse too.
            Some(length) if length.starts_with('+') => return Err(CidrError),
            Some(length) => length.parse().map_err(|_| CidrError)?,
            None => width,
        };
        if length > width {
            return Err(CidrError);
        }
        let mask = u128::MAX.checked_shl(128 - (offset + length)).unwrap_or(0);
        Ok(Self {
            network: bits(address) & mask,
            mask,
        })
    }
}

/// IPv4 as IPv4-mapped IPv6, so that both forms compare equal.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_match_by_leading_bits() {
        let contains = |network: &str, address: &str| {
            let network: Cidr = network.parse().expect("a network");
            network.contains(address.parse().expect("an address"))
        };
        assert!(contains("10.0.0.0/8", "10.255.0.1"));
        assert!(contains("10.0.0.0/8", "::ffff:10.1.2.3"));
        assert!(!contains("10.0.0.0/8", "11.0.0.1"));
        assert!(
            contains("10.1.2.3/8", "10.9.9.9"),
            "host bits do not matter"
        );
        assert!(contains("192.0.2.7", "192.0.2.7") && !contains("192.0.2.7", "192.0.2.8"));
        assert!(contains("0.0.0.0/0", "8.8.8.8") && !contains("0.0.0.0/0", "2001:db8::1"));
        assert!(contains("::/0", "2001:db8::1"));
        assert!(contains("fd00::/8", "fd12::1") && !contains("fd00::/8", "fe80::1"));
    }

    #[test]
    fn invalid_networks_are_refused() {
        for text in [
            "",
            "10.0.0.0/33",
            "::/129",
            "10.0.0/8",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "x/8",
        ] {
            assert_eq!(text.parse::<Cidr>(), Err(CidrError), "{text}");
        }
    }
}
