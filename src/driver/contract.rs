//! What a script's header promises of its KEYS and ARGV. Debug builds hold every call against it, so that header, script
//! and caller cannot part unnoticed.

/// How many keys and arguments a script takes, read from its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Contract {
    keys: Count,
    args: Count,
}

/// From `least` on; up to `most`, unless the list goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Count {
    least: usize,
    most: Option<usize>,
}

impl Contract {
    /// Reads the header: everything up to the first `]]`.
    pub fn of(source: &str) -> Self {
        let header = source.split("]]").next().unwrap_or_default();
        Self {
            keys: Count::of(header, "KEYS"),
            args: Count::of(header, "ARGV"),
        }
    }

    /// Why a call breaks the contract; `None` when it keeps it.
    pub fn breach(self, keys: usize, args: usize) -> Option<String> {
        let breach = |what: &str, given: usize, count: Count| {
            let kept = given >= count.least && count.most.is_none_or(|most| given <= most);
            (!kept).then(|| format!("{given} {what} where the header has {count:?}"))
        };
        breach("keys", keys, self.keys).or_else(|| breach("arguments", args, self.args))
    }
}

impl Count {
    fn of(header: &str, list: &str) -> Self {
        let (mut last, mut open, mut optional) = (0, false, 0);
        for line in header.lines() {
            for (at, _) in line.match_indices(list) {
                let rest = &line[at + list.len()..];
                let Some(rest) = rest.strip_prefix('[') else {
                    // The list as a whole, as in `KEYS budgets hash`.
                    open |= rest.starts_with(' ') && line.starts_with(list);
                    continue;
                };
                let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
                let index: usize = digits.parse().unwrap_or(0);
                let goes_on = rest[digits.len()..].starts_with("..");
                open |= goes_on;
                last = last.max(index - usize::from(goes_on));
                let own = rest.split(list).next().unwrap_or_default();
                optional += usize::from(own.contains("where there is") && list == "KEYS");
                // A count, then so many more.
                open |= own.contains(" n, then") || own.contains("] n,");
            }
        }
        Self {
            least: last - optional,
            most: (!open).then_some(last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_tells_how_many_there_are() {
        let source = "#!lua\n--[[\nx: y\nKEYS[1] a hash    KEYS[3] c zset\nKEYS[2] b hash\nKEYS[4] d hash where there is one\n\
                      ARGV[1] a  ARGV[2..] rest\n]]\nKEYS[9]";
        let contract = Contract::of(source);
        assert_eq!(contract.breach(3, 1), None);
        assert_eq!(contract.breach(4, 7), None);
        assert!(
            contract
                .breach(5, 1)
                .is_some_and(|why| why.contains("5 keys"))
        );
        assert!(contract.breach(2, 1).is_some());
        assert!(
            contract
                .breach(4, 0)
                .is_some_and(|why| why.contains("0 arguments"))
        );
    }
}
