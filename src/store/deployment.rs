//! What was fixed when the deployment was started, and whether it fits this process.

use crate::domain::ids::DeploymentSecret;
use crate::driver::error::StoreError;
use crate::store::signature::signature;

signature! {
    /// Starts a deployment, or reads how it was started. The values of the first caller stay.
    META: Meta -> MetaReply = "deployment/meta", flags "allow-oom";
    keys of deployment { write meta(); }
    args {
        /// The newest layout of the caller.
        layout: i64,
        partitions: i64,
        /// 32 random bytes, base64url.
        secret: &'a str,
        dialect: &'a str,
    }
    replies {
        meta: Meta {
            layout: Option<String>, partitions: Option<String>, secret: Option<String>, dialect: Option<String>,
        },
    }
    writes "All four fields at once, if the key does not exist."
}

/// The newest layout of the data that this binary reads and writes.
pub const LAYOUT: i64 = 1;

/// Tenants are hashed onto this many partitions. Fixed for the life of a deployment.
pub const PARTITIONS: i64 = 1024;

/// The deployment's own record, `<prefix>:meta`.
#[derive(Debug)]
pub struct Deployment {
    secret: DeploymentSecret,
}

impl Deployment {
    /// The random secret from which reservation and event ids are derived. Never leaves the process.
    pub fn secret(&self) -> &DeploymentSecret {
        &self.secret
    }

    /// A secret for a deployment that is about to start, base64url.
    pub(super) fn propose_secret() -> String {
        DeploymentSecret::generate().expose()
    }

    /// Holds the reply of `meta.lua` against what this process expects.
    pub(super) fn check(reply: MetaReply, prefix: &str, dialect: &str) -> Result<Self, StoreError> {
        let damaged = |what| {
            StoreError::Deployment(format!(
                "the record `{prefix}:meta` is damaged ({what}): restore it from a backup; without it no id can be derived"
            ))
        };
        let other = |difference: String| {
            let data = format!("the data under prefix `{prefix}` {difference}");
            Err(StoreError::Deployment(data))
        };
        let MetaReply::Meta {
            layout,
            partitions,
            secret,
            dialect: found,
        } = reply;
        let number = |text: Option<String>| text.and_then(|text| text.parse::<i64>().ok());
        let layout = number(layout).ok_or_else(|| damaged("layout"))?;
        let partitions = number(partitions).ok_or_else(|| damaged("partitions"))?;
        let secret = secret.ok_or_else(|| damaged("secret"))?;
        let found = found.ok_or_else(|| damaged("dialect"))?;
        if layout > LAYOUT {
            return other(format!(
                "has layout {layout}, this binary knows layouts up to {LAYOUT}: \
                 run a release that knows it, or choose another BUDGET_KEY_PREFIX"
            ));
        }
        // Fixed for the life of a deployment.
        if partitions != PARTITIONS {
            return other(format!(
                "has {partitions} partitions, this binary uses {PARTITIONS}: \
                 choose another BUDGET_KEY_PREFIX or the Redis that belongs to this deployment"
            ));
        }
        // Clients of one dialect do not understand the other.
        if found != dialect {
            return other(format!(
                "was started with dialect `{found}`, this process runs `{dialect}`: \
                 set BUDGET_DIALECT={found}, or choose another BUDGET_KEY_PREFIX"
            ));
        }
        let secret = DeploymentSecret::parse(&secret).ok_or_else(|| damaged("secret"))?;
        Ok(Self { secret })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        layout: &str,
        partitions: &str,
        secret: Option<String>,
        dialect: &str,
    ) -> Result<Deployment, StoreError> {
        let reply = MetaReply::Meta {
            layout: Some(layout.to_owned()),
            partitions: Some(partitions.to_owned()),
            secret,
            dialect: Some(dialect.to_owned()),
        };
        Deployment::check(reply, "ba", "service")
    }

    #[test]
    fn only_a_deployment_of_the_same_shape_is_used() {
        let secret = || Some(Deployment::propose_secret());
        let refusal =
            |result: Result<Deployment, StoreError>| result.expect_err("a refusal").to_string();
        assert!(check("1", "1024", secret(), "service").is_ok());
        assert!(refusal(check("2", "1024", secret(), "service")).contains("layout 2"));
        assert!(refusal(check("1", "256", secret(), "service")).contains("256 partitions"));
        assert!(refusal(check("1", "1024", secret(), "cycles")).contains("BUDGET_DIALECT=cycles"));
        assert!(refusal(check("1", "1024", None, "service")).contains("damaged (secret)"));
        let short = Some("c2hvcnQ".to_owned());
        assert!(refusal(check("1", "1024", short, "service")).contains("damaged (secret)"));
        assert!(refusal(check("x", "1024", secret(), "service")).contains("damaged (layout)"));
    }

    #[test]
    fn the_secret_is_not_printed() {
        let secret = Deployment::propose_secret();
        let deployment = check("1", "1024", Some(secret.clone()), "service").expect("it fits");
        assert!(!format!("{deployment:?}").contains(&secret));
    }
}
