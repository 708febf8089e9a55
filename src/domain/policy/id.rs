//! Names of policies.

use crate::domain::ids::{RandomPart, random_id};

random_id! {
    /// Names a policy: `pol_05f_` and 12 lower-case letters and digits. It carries the partition of its tenant.
    PolicyId: "pol", RandomPart::SHORT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::Partition;

    #[test]
    fn an_id_tells_where_its_record_is() {
        let partition = Partition::new(0x05f).expect("below 1024");
        let id = PolicyId::mint(partition);
        assert_eq!(PolicyId::parse(id.as_str()).as_ref(), Some(&id));
        assert_eq!(id.partition(), partition);
        assert_ne!(id, PolicyId::mint(partition));
        for other in [
            "",
            "pol_05f_",
            "pol_400_abcdefghij12",
            "pol_05F_abcdefghij12",
            "pol_05f_ABCDEFGHIJ12",
            "pol_05f_abcdefghij123",
            "key_05f_abcdefghij12",
        ] {
            assert_eq!(PolicyId::parse(other), None, "{other}");
        }
    }
}
