//! Issuers by the numbers that records name them by. A number is given once and never changes, so a record stays readable when its
//! issuer signs no more.

use super::issuers::{Issuer, Issuers, Signer};
use super::keys::{ListedKey, SigningKey};

/// How far behind the caller's estimate the clock of a script may be, so that an issuer whose window has just ended is still
/// offered.
const CLOCK_SLACK_MS: i64 = 10_000;

/// Number of issuers between which a script chooses: the current and the next.
const OFFERED: usize = 2;

/// An issuer by its number, and when it signs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// Names it in records; 1 or more.
    pub number: u32,
    /// The issuer.
    pub issuer: Issuer,
    /// It signs what is decided from then on, in milliseconds since the epoch.
    pub from_ms: i64,
    /// It signs what is decided before then; without an end if there is none.
    pub until_ms: Option<i64>,
}

impl Registered {
    /// Whether it signs what is decided at a time.
    pub fn covers(&self, at_ms: i64) -> bool {
        self.from_ms <= at_ms && !self.is_over(at_ms)
    }

    fn is_over(&self, at_ms: i64) -> bool {
        self.until_ms.is_some_and(|until_ms| until_ms <= at_ms)
    }

    /// The key pair of an issuer, also under a former server id; `None` if its seed is not among `keys`.
    pub fn key_of<'k>(&self, issuers: &Issuers, keys: &'k [SigningKey]) -> Option<&'k SigningKey> {
        let issuer = &self.issuer;
        let public = match &issuer.signer {
            Signer::Raw(public) => *public,
            Signer::Listed { dialect, .. } => {
                // The name contains a hash of the server id at that time. Keys with the same id differ in their start.
                let is_signer = |listed: &&ListedKey| {
                    let name = Signer::listed(*dialect, &issuer.server_id, &listed.kid);
                    name == issuer.signer && listed.from_ms == self.from_ms
                };
                issuers.key_set().keys.iter().find(is_signer)?.key
            }
        };
        keys.iter().find(|key| key.public() == public)
    }
}

/// All issuers that the deployment has ever had, by number, and those of the present configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Registry {
    issuing: Vec<Registered>,
    earlier: Vec<Registered>,
}

impl Registry {
    /// `issuing`: those of the present configuration, in the order of their windows, which do not overlap. `earlier`: registered,
    /// but no longer configured.
    pub fn new(issuing: Vec<Registered>, earlier: Vec<Registered>) -> Self {
        Self { issuing, earlier }
    }

    /// The same for one who must not issue: nothing can be chosen from it, and all are still known by their numbers.
    #[must_use]
    pub fn silent(&self) -> Self {
        Self::new(Vec::new(), self.all().cloned().collect())
    }

    /// Registered issuers that the present configuration does not have.
    pub fn earlier(&self) -> &[Registered] {
        &self.earlier
    }

    /// What a script chooses from for requests at about `now_ms`: the issuer of now and the next one, each as
    /// `<number>:<from_ms>:<until_ms or empty>`, blanks between. Empty if no issuer signs any more.
    pub fn choice(&self, now_ms: i64) -> String {
        let words: Vec<_> = self.offered(now_ms).map(word).collect();
        words.join(" ")
    }

    /// The issuer that a script chooses by its own clock, `at_ms`, from the [`Registry::choice`] of `now_ms`; `None` where it finds
    /// none, in a gap or because the caller's estimate was far off.
    pub fn chosen(&self, now_ms: i64, at_ms: i64) -> Option<&Registered> {
        self.offered(now_ms).find(|one| one.covers(at_ms))
    }

    fn offered(&self, now_ms: i64) -> impl Iterator<Item = &Registered> {
        let since_ms = now_ms.saturating_sub(CLOCK_SLACK_MS);
        let offered = self
            .issuing
            .iter()
            .skip_while(move |one| one.is_over(since_ms));
        offered.take(OFFERED)
    }

    /// All that were ever registered, configured or not.
    pub fn all(&self) -> impl Iterator<Item = &Registered> {
        self.issuing.iter().chain(&self.earlier)
    }

    /// The one with a number; `None` if this process has never read of it.
    pub fn registered(&self, number: u32) -> Option<&Registered> {
        self.all().find(|one| one.number == number)
    }

    /// The one with a number, if it signs what was decided at `at_ms`. If not, the number was given anew after the registry was
    /// lost, and another issuer had it.
    pub fn issuing_at(&self, number: u32, at_ms: i64) -> Option<&Registered> {
        self.registered(number).filter(|one| one.covers(at_ms))
    }
}

/// An issuer as scripts read it.
fn word(one: &Registered) -> String {
    let until_ms = one.until_ms.map(|ms| ms.to_string()).unwrap_or_default();
    format!("{}:{}:{until_ms}", one.number, one.from_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::dialect::Dialect;
    use crate::evidence::ServerId;

    fn registered(number: u32, from_ms: i64, until_ms: Option<i64>) -> Registered {
        let server_id = ServerId::parse("https://a.example/v1").expect("a server id");
        let kid = format!("k{number}");
        Registered {
            number,
            issuer: Issuer {
                dialect: Dialect::Service,
                signer: Signer::listed(Dialect::Service, &server_id, &kid),
                server_id,
            },
            from_ms,
            until_ms,
        }
    }

    /// Between the second and the third is a gap.
    fn registry() -> Registry {
        let issuing = vec![
            registered(4, 0, Some(100_000)),
            registered(2, 100_000, Some(200_000)),
            registered(7, 300_000, None),
        ];
        Registry::new(issuing, vec![registered(1, -9, Some(0))])
    }

    #[test]
    fn a_script_chooses_between_the_current_issuer_and_the_next() {
        let registry = registry();
        for (now_ms, choice) in [
            (-5, "4:0:100000 2:100000:200000"),
            (99_999, "4:0:100000 2:100000:200000"),
            // The clock of the script may be behind.
            (109_999, "4:0:100000 2:100000:200000"),
            (110_000, "2:100000:200000 7:300000:"),
            (250_000, "7:300000:"),
            (i64::MAX, "7:300000:"),
        ] {
            assert_eq!(registry.choice(now_ms), choice, "{now_ms}");
        }
        assert_eq!(registry.choice(i64::MIN), registry.choice(0));
        let retired = Registry::new(vec![registered(1, 0, Some(5))], Vec::new());
        assert_eq!(retired.choice(20_000), "");
        assert_eq!(Registry::default().choice(0), "");
    }

    #[test]
    fn at_most_one_issuer_signs_at_a_time() {
        let registry = registry();
        for (at_ms, number) in [
            (-1, None),
            (0, Some(4)),
            (99_999, Some(4)),
            (100_000, Some(2)),
            (200_000, None),
            (300_000, Some(7)),
        ] {
            let signing = registry.chosen(at_ms, at_ms).map(|one| one.number);
            assert_eq!(signing, number, "{at_ms}");
        }
    }

    #[test]
    fn a_process_that_must_not_issue_still_knows_all_issuers() {
        let (registry, silent) = (registry(), registry().silent());
        assert_eq!(
            (silent.choice(0), silent.chosen(0, 0)),
            (String::new(), None)
        );
        for number in 0..8 {
            assert_eq!(silent.registered(number), registry.registered(number));
        }
    }

    #[test]
    fn a_script_chooses_only_offered_issuers() {
        let registry = registry();
        for (now_ms, at_ms, number) in [
            (99_999, 100_000, Some(2)),
            (109_999, 99_999, Some(4)),
            // The caller's estimate is far ahead of the script's clock, or far behind.
            (110_000, 99_999, None),
            (0, 300_000, None),
        ] {
            let chosen = registry.chosen(now_ms, at_ms).map(|one| one.number);
            assert_eq!(chosen, number, "{now_ms} {at_ms}");
        }
    }

    #[test]
    fn a_number_names_its_issuer_after_its_removal_from_the_configuration() {
        let registry = registry();
        for number in [1, 2, 4, 7] {
            let name = registry.registered(number);
            let name = name.map(|one| one.issuer.signer.to_string());
            assert!(
                name.is_some_and(|name| name.ends_with(&format!("#k{number}"))),
                "{number}"
            );
        }
        assert_eq!(registry.registered(3), None);
        let signs = |at_ms| registry.issuing_at(2, at_ms).is_some();
        assert_eq!(
            [99_999, 100_000, 199_999, 200_000].map(signs),
            [false, true, true, false]
        );
    }
}
