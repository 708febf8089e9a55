//! The deployment's record: its fixed values, and whether they fit this process.

use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::time::{Instant, timeout_at};
use tracing::{info, warn};

use super::{Call, Day, Lane, Request, Store};
use crate::domain::ids::{DeploymentSecret, Partition};
use crate::driver::cluster::slot_of;
use crate::driver::connection::failed;
use crate::driver::error::{StoreError, Unavailable};
use crate::store::records::{NO_ARGS, command};
use crate::store::signature::{ScriptCall, signature};

signature! {
    /// Reads how a deployment was started, or starts one. The values of the first caller stay, but for an older layout.
    META: Meta -> MetaReply = "deployment/meta", flags "allow-oom";
    keys of deployment { write meta(); }
    args {
        /// The newest layout of the caller.
        layout: i64,
        partitions: i64,
        /// 32 random bytes, base64url; empty: only read.
        secret: &'a str,
        dialect: &'a str,
        /// Whether the caller may raise an older layout to its own.
        may_raise: bool,
    }
    replies {
        missing: Missing,
        meta: Meta {
            layout: Option<String>, partitions: Option<String>, secret: Option<String>, dialect: Option<String>,
            usage_from_ms: Option<i64>,
        },
    }
    writes "All fields at once, if the key does not exist and a secret is given. Where it is older, from when on usage is counted, and \
the layout, if it is raised."
}

/// The newest layout of the data that this binary reads and writes.
pub const LAYOUT: i64 = 2;

/// Tenants are hashed onto this many partitions. Fixed for the life of a deployment.
pub const PARTITIONS: i64 = 1024;

/// How long the start of a deployment waits for replicas to have its record.
const REPLICAS_WAIT: Duration = Duration::from_millis(500);

impl Store {
    /// The random secret from which ids are derived: part of the deployment's record, which is read once, and created by the
    /// first process that ever starts. Never leaves the process.
    ///
    /// # Errors
    /// [`StoreError::Deployment`] when the data belongs to another kind of deployment, or has lost its record;
    /// [`StoreError::OtherDialect`] when that speaks another dialect;
    /// [`Unavailable::OtherData`] while the record is not the one that this process read.
    pub async fn secret(&self) -> Result<&DeploymentSecret, StoreError> {
        let timed = self.begin_call()?;
        self.secret_by(timed.deadline).await
    }

    /// The first day of which all usage was counted.
    ///
    /// # Errors
    /// As [`Store::secret`].
    pub async fn usage_from(&self) -> Result<Day, StoreError> {
        self.secret().await?;
        let from_ms = self.inner.usage_from_ms.get().copied();
        // Without it, no process that counts has started yet.
        Ok(from_ms.map_or_else(|| self.today().plus(1), Day::of_ms))
    }

    /// The same before `deadline`. Callers queue for the first reading, so the wait in the queue counts as well.
    pub(super) async fn secret_by(
        &self,
        deadline: Instant,
    ) -> Result<&DeploymentSecret, StoreError> {
        let inner = &self.inner;
        if let Some(known) = inner.secret.get() {
            inner.identity.check().map_err(Unavailable::from)?;
            return Ok(known);
        }
        let load = || self.load_deployment(deadline);
        let loading = Box::pin(inner.secret.get_or_try_init(load));
        let loaded = timeout_at(deadline, loading).await;
        loaded.unwrap_or_else(|_| Err(Unavailable::not_connected("Redis").into()))
    }

    /// Compares the record in Redis with the one that this process read, if it has read one.
    ///
    /// # Errors
    /// [`Unavailable::OtherData`] if it is gone or another one, or was before and Redis cannot be asked now.
    pub async fn compare_deployment(&self) -> Result<(), StoreError> {
        let (inner, deadline) = (&self.inner, Instant::now() + self.timeout());
        if inner.secret.initialized() {
            let slot = slot_of(self.keys().meta().as_bytes());
            if let Ok(node) = inner.connection.route(slot, deadline).await {
                let compared = inner.identity.command();
                match node.send(Lane::Background, &compared, deadline).await {
                    Ok(reply) => {
                        inner.identity.compare(&reply);
                        if matches!(reply, Value::ServerError(_)) {
                            inner.connection.distrust(&node);
                        }
                    }
                    Err(_) => inner.connection.distrust(&node),
                }
            }
        }
        Ok(inner.identity.check().map_err(Unavailable::from)?)
    }

    async fn load_deployment(&self, deadline: Instant) -> Result<DeploymentSecret, StoreError> {
        let (keys, dialect) = (self.keys(), self.inner.dialect);
        let call = |secret: &str| {
            let meta = Meta {
                layout: LAYOUT,
                partitions: PARTITIONS,
                secret,
                dialect,
                may_raise: self.inner.options.may_start,
            };
            meta.on(keys, self.today())
        };
        let read_only = call("");
        let connection = &self.inner.connection;
        let sent = connection.send((&read_only).into(), Lane::Background, deadline);
        let mut reply = sent.await?.value;
        if let MetaReply::Missing = read(reply.clone())? {
            self.check_empty(deadline).await?;
            let secret = DeploymentSecret::generate().expose();
            reply = self.start_deployment(&call(&secret), deadline).await?;
        }
        let found = read(reply)?;
        if let MetaReply::Meta {
            usage_from_ms: Some(from_ms),
            ..
        } = found
        {
            let _ = self.inner.usage_from_ms.set(from_ms);
        }
        let secret = check(found, keys.prefix(), dialect)?;
        self.inner.identity.keep(secret.expose().into());
        Ok(secret)
    }

    /// Refuses to start a deployment where there are tenants: a record that was lost is restored, not replaced.
    async fn check_empty(&self, deadline: Instant) -> Result<(), StoreError> {
        let (keys, prefix) = (self.keys(), self.keys().prefix());
        let meta = keys.meta();
        if !self.inner.options.may_start {
            let none = format!(
                "there is no deployment under the key prefix `{prefix}`: `{meta}` does not exist"
            );
            return Err(StoreError::Deployment(none));
        }
        let of_partitions = Partition::all().map(|partition| keys.of(partition).tenants());
        let all = std::iter::once(keys.directory()).chain(of_partitions);
        let commands: Vec<_> = all.map(|key| command("EXISTS", key, NO_ARGS)).collect();
        let requests: Vec<_> = commands.iter().map(Request::from).collect();
        let replies = self.inner.connection.send_each(&requests, deadline).await;
        for (reply, (found, _)) in replies.into_iter().zip(&commands) {
            match reply {
                Ok(Value::Int(0)) => {}
                Ok(Value::Int(_)) => {
                    return Err(StoreError::Deployment(format!(
                        "the deployment's record `{meta}` is gone, but there are tenants (`{found}`): restore it from a \
                         backup, or choose another BUDGET_KEY_PREFIX (docs/operating.md, \"The deployment's record\")"
                    )));
                }
                // A node that cannot be asked may hold tenants.
                _ => {
                    return Err(Unavailable::not_connected("each master of Redis").into());
                }
            }
        }
        Ok(())
    }

    /// Writes the record, and waits a moment for the replicas of its node.
    async fn start_deployment(&self, call: &Call, deadline: Instant) -> Result<Value, StoreError> {
        let connection = &self.inner.connection;
        let slot = slot_of(call.key().as_bytes());
        let node = connection.route(slot, deadline).await?;
        let role = redis::cmd("ROLE");
        let role = connection.send_to(&node, Lane::Background, &role, deadline);
        let replicas = match role.await {
            Ok(Value::Array(role)) => match role.get(2) {
                Some(Value::Array(replicas)) => replicas.len(),
                _ => 0,
            },
            _ => 0,
        };
        let mut pipeline = Pipeline::with_capacity(2);
        pipeline.add_command(call.script.whole(&call.command));
        if replicas > 0 {
            let limit_ms = REPLICAS_WAIT.as_millis() as u64;
            pipeline.cmd("WAIT").arg(replicas).arg(limit_ms);
        }
        let open = node.open(Lane::Background, deadline).await?;
        let mut replies = open.send_all(&pipeline, deadline).await?.into_iter();
        let reply = replies.next().unwrap_or_default();
        if let Value::ServerError(refusal) = reply {
            connection.distrust(&node);
            return Err(failed(&refusal, Some(call.script)));
        }
        let record = call.key();
        info!("started a new deployment: wrote `{record}`, which must never be lost");
        if let Some(Value::Int(reached)) = replies.next()
            && reached < replicas as i64
        {
            warn!(
                "`{record}` reached {reached} of {replicas} replicas so far: a failover now may lose it"
            );
        }
        Ok(reply)
    }
}

fn read(reply: Value) -> Result<MetaReply, StoreError> {
    Meta::read(reply)?.map_err(|refused| refused.unexpected(&META))
}

/// The secret in the reply of `meta.lua`, if that is what this process expects.
fn check(reply: MetaReply, prefix: &str, dialect: &str) -> Result<DeploymentSecret, StoreError> {
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
        ..
    } = reply
    else {
        return Err(damaged("all of it"));
    };
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
    if found != dialect {
        return Err(StoreError::OtherDialect {
            prefix: prefix.to_owned(),
            found,
            own: dialect.to_owned(),
        });
    }
    DeploymentSecret::parse(&secret).ok_or_else(|| damaged("secret"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(
        layout: &str,
        partitions: &str,
        secret: Option<String>,
        dialect: &str,
    ) -> Result<DeploymentSecret, StoreError> {
        let reply = MetaReply::Meta {
            layout: Some(layout.to_owned()),
            partitions: Some(partitions.to_owned()),
            secret,
            dialect: Some(dialect.to_owned()),
            usage_from_ms: None,
        };
        check(reply, "ba", "service")
    }

    #[test]
    fn only_a_deployment_of_the_same_shape_is_used() {
        let secret = || Some(DeploymentSecret::generate().expose());
        let refusal = |result: Result<DeploymentSecret, StoreError>| {
            result.expect_err("a refusal").to_string()
        };
        assert!(checked("1", "1024", secret(), "service").is_ok());
        assert!(refusal(checked("3", "1024", secret(), "service")).contains("layout 3"));
        assert!(refusal(checked("1", "256", secret(), "service")).contains("256 partitions"));
        assert!(
            refusal(checked("1", "1024", secret(), "cycles")).contains("BUDGET_DIALECT=cycles")
        );
        assert!(refusal(checked("1", "1024", None, "service")).contains("damaged (secret)"));
        let short = Some("c2hvcnQ".to_owned());
        assert!(refusal(checked("1", "1024", short, "service")).contains("damaged (secret)"));
        assert!(refusal(checked("x", "1024", secret(), "service")).contains("damaged (layout)"));
    }

    #[test]
    fn the_secret_is_not_printed() {
        let secret = DeploymentSecret::generate().expose();
        let deployment = checked("1", "1024", Some(secret.clone()), "service").expect("it fits");
        assert!(!format!("{deployment:?}").contains(&secret));
    }
}
