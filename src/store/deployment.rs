//! What was fixed when the deployment was started, and whether it fits this process.

use redis::Value;

use crate::domain::ids::DeploymentSecret;
use crate::driver::error::{DeploymentError, StoreError};
use crate::driver::reply::Reply;
use crate::store::scripts::META;

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

    /// Reads the reply of `meta.lua` and holds it against what this process expects.
    pub(super) fn check(reply: Value, prefix: &str, dialect: &str) -> Result<Self, StoreError> {
        let damaged = |what| DeploymentError::Damaged {
            prefix: prefix.to_owned(),
            what,
        };
        let mut reply = Reply::new(&META, reply)?;
        reply.next_str()?;
        let layout = reply.opt_i64().ok().flatten().ok_or(damaged("layout"))?;
        let partitions = reply
            .opt_i64()
            .ok()
            .flatten()
            .ok_or(damaged("partitions"))?;
        let secret = reply.opt_str()?.ok_or(damaged("secret"))?;
        let found = reply.opt_str()?.ok_or(damaged("dialect"))?;
        let prefix = prefix.to_owned();
        if layout > LAYOUT {
            let known = LAYOUT;
            let found = layout;
            return Err(DeploymentError::NewerLayout {
                prefix,
                found,
                known,
            }
            .into());
        }
        if partitions != PARTITIONS {
            let known = PARTITIONS;
            let found = partitions;
            return Err(DeploymentError::Partitions {
                prefix,
                found,
                known,
            }
            .into());
        }
        if found != dialect {
            let configured = dialect.to_owned();
            let mismatch = DeploymentError::Dialect {
                prefix,
                found,
                configured,
            };
            return Err(mismatch.into());
        }
        let secret = DeploymentSecret::parse(&secret).ok_or(damaged("secret"))?;
        Ok(Self { secret })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        layout: &str,
        partitions: &str,
        secret: Value,
        dialect: &str,
    ) -> Result<Deployment, StoreError> {
        let bulk = |text: &str| Value::BulkString(text.into());
        let fields = vec![
            bulk("meta"),
            bulk(layout),
            bulk(partitions),
            secret,
            bulk(dialect),
        ];
        Deployment::check(Value::Array(fields), "ba", "service")
    }

    #[test]
    fn only_a_deployment_of_the_same_shape_is_used() {
        let secret = || Value::BulkString(Deployment::propose_secret().into());
        let refusal =
            |result: Result<Deployment, StoreError>| result.expect_err("a refusal").to_string();
        assert!(check("1", "1024", secret(), "service").is_ok());
        assert!(refusal(check("2", "1024", secret(), "service")).contains("layout 2"));
        assert!(refusal(check("1", "256", secret(), "service")).contains("256 partitions"));
        assert!(refusal(check("1", "1024", secret(), "cycles")).contains("BUDGET_DIALECT=cycles"));
        assert!(refusal(check("1", "1024", Value::Nil, "service")).contains("damaged (secret)"));
        let short = Value::BulkString("c2hvcnQ".into());
        assert!(refusal(check("1", "1024", short, "service")).contains("damaged (secret)"));
        assert!(refusal(check("x", "1024", secret(), "service")).contains("damaged (layout)"));
    }

    #[test]
    fn the_secret_is_not_printed() {
        let secret = Deployment::propose_secret();
        let deployment = check(
            "1",
            "1024",
            Value::BulkString(secret.clone().into()),
            "service",
        )
        .expect("it fits");
        assert!(!format!("{deployment:?}").contains(&secret));
    }
}
