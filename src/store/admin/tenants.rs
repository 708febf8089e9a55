//! `create_tenant.lua`, the directory of all tenants, and their records.

use std::time::Duration;

use redis::Value;

use crate::domain::event::tenant_digest;
use crate::domain::ids::TenantId;
use crate::domain::record::{Record, set_fields};
use crate::domain::refusal::admin::AdminRefusal;
use crate::domain::tenant::TenantStatus;
use crate::domain::tenant::record::{TenantCreateRequest, TenantUpdateRequest};
use crate::driver::clock::Day;
use crate::driver::error::StoreError;
use crate::store::Store;
use crate::store::admin::{
    AdminError, Change, Pairs, Stored, outcome, push_counted, push_day, push_pairs, refused,
};
use crate::store::scripts::{CREATE_TENANT, UPDATE_TENANT};

/// What `create_tenant.lua` did, or did when it was asked first.
#[derive(Debug)]
pub struct CreatedTenant {
    /// Whether this request recorded it; else it was there under the same name.
    pub created: bool,
    /// The stored fields.
    pub record: Record,
}

/// What a change of a tenant needs where it closes it.
#[derive(Debug, Clone, Copy)]
pub struct Close<'a> {
    /// What all events of the close share.
    pub correlation_id: &'a str,
    /// What `tenant.closed` carries instead, where the close is one row of many.
    pub parent_correlation_id: Option<&'a str>,
    /// For how long the request itself goes on with the close; others wait so long.
    pub request_part: Duration,
}

/// What `update_tenant.lua` did, or did when it was asked first.
#[derive(Debug)]
pub struct UpdatedTenant {
    /// Whether the tenant is closed, so that steps of its close may be due.
    pub closing: bool,
    /// The stored fields.
    pub record: Record,
}

impl Store {
    /// Records a tenant. The directory learns of it first, so that no tenant is ever missing there; its readers pass over
    /// an entry without a record.
    ///
    /// # Errors
    /// [`AdminRefusal::DuplicateTenant`] when the id has another name.
    pub async fn create_tenant(
        &self,
        tenant: &TenantCreateRequest,
        change: &Change<'_>,
    ) -> Result<CreatedTenant, AdminError> {
        let keys = self.keys();
        let (id, partition) = (tenant.tenant_id.as_str(), tenant.tenant_id.partition());
        let directory = keys.directory();
        let mut enter = redis::cmd("ZADD");
        enter.arg(&directory).arg(0).arg(id);
        self.query(&directory, &enter).await?;
        let fields = set_fields(tenant.fields());
        let build = |day: Day| {
            let mut key_names = vec![
                keys.tenant(partition, id),
                keys.tenants(partition),
                keys.events(partition, id, day),
                keys.outbox(partition),
                keys.days(partition),
                keys.audit(partition, id, day),
                keys.chain(partition, id),
                keys.unsealed(partition),
                keys.thresholds(partition),
                keys.tenant_ids(partition),
                keys.counts(partition),
            ];
            key_names.extend(
                change
                    .idempotency
                    .map(|key| keys.idempotency(partition, id, key)),
            );
            let mut args = vec![id.to_owned()];
            push_day(&mut args, day);
            args.extend([&tenant.name, change.payload_hash, change.cause].map(str::to_owned));
            args.push(tenant_digest(id));
            push_counted(&mut args, &fields);
            push_pairs(&mut args, change.audit);
            (key_names, args)
        };
        let (word, mut reply) = self.admin_call(&CREATE_TENANT, build).await?;
        let created = match outcome(word, &mut reply)?.as_str() {
            "created" => true,
            "exists" => false,
            "duplicate" => return Err(AdminError::Refused(AdminRefusal::DuplicateTenant)),
            other => return Err(refused(other, reply)),
        };
        let record = Record::from_pairs(reply.rest()?);
        Ok(CreatedTenant { created, record })
    }

    /// Changes a tenant and returns its record. With status CLOSED the guard stands from now on; what the tenant owns ends by
    /// steps, see [`super::closing`].
    ///
    /// # Errors
    /// Refusals: no such tenant; a closed one that should become anything else.
    pub async fn update_tenant(
        &self,
        tenant: &TenantId,
        update: &TenantUpdateRequest,
        close: &Close<'_>,
        change: &Change<'_>,
    ) -> Result<UpdatedTenant, AdminError> {
        let (keys, partition, id) = (self.keys(), tenant.partition(), tenant.as_str());
        let fields = update.fields().into_iter();
        let fields = fields.map(|change| (change.field, change.value.unwrap_or_default()));
        let fields: Pairs = fields.collect();
        let build = |day: Day| {
            let mut key_names = vec![
                keys.tenant(partition, id),
                keys.events(partition, id, day),
                keys.outbox(partition),
                keys.days(partition),
                keys.audit(partition, id, day),
                keys.chain(partition, id),
                keys.unsealed(partition),
                keys.closing(partition, id),
                keys.closings(partition),
                keys.counts(partition),
            ];
            key_names.extend(
                change
                    .idempotency
                    .map(|key| keys.idempotency(partition, id, key)),
            );
            let mut args = vec![id.to_owned()];
            push_day(&mut args, day);
            let status = update.status.map_or("", TenantStatus::as_str);
            args.extend([status, change.payload_hash, change.cause].map(str::to_owned));
            args.push(close.correlation_id.to_owned());
            args.push(close.parent_correlation_id.unwrap_or_default().to_owned());
            args.push(close.request_part.as_millis().to_string());
            push_counted(&mut args, &fields);
            push_pairs(&mut args, change.audit);
            (key_names, args)
        };
        let (word, mut reply) = self.admin_call(&UPDATE_TENANT, build).await?;
        let closing = match outcome(word, &mut reply)?.as_str() {
            "closing" => true,
            "updated" => false,
            "not_found" => return Err(AdminError::Refused(AdminRefusal::TenantNotFound)),
            other => return Err(refused(other, reply)),
        };
        let record = Record::from_pairs(reply.rest()?);
        Ok(UpdatedTenant { closing, record })
    }

    /// A tenant's record.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn get_tenant(&self, tenant: &TenantId) -> Result<Option<Stored>, StoreError> {
        let key = self.keys().tenant(tenant.partition(), tenant.as_str());
        self.get_record(key).await
    }

    /// Up to `rows` ids of the directory, in either order, beyond `after`.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn directory_page(
        &self,
        after: Option<&str>,
        descending: bool,
        rows: usize,
    ) -> Result<Vec<String>, StoreError> {
        let key = self.keys().directory();
        let from = after.map(|id| format!("({id}"));
        let (command, first, last) = match descending {
            false => ("ZRANGEBYLEX", from.as_deref().unwrap_or("-"), "+"),
            true => ("ZREVRANGEBYLEX", from.as_deref().unwrap_or("+"), "-"),
        };
        let mut walk = redis::cmd(command);
        walk.arg(&key)
            .arg(first)
            .arg(last)
            .arg("LIMIT")
            .arg(0)
            .arg(rows);
        texts(self.query(&key, &walk).await?)
    }

    /// The records of these tenants, in their order; an empty one where there is none, and an error where there is
    /// something else.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn tenant_records(
        &self,
        tenants: &[TenantId],
    ) -> Result<Vec<Result<Record, StoreError>>, StoreError> {
        let commands: Vec<_> = tenants
            .iter()
            .map(|tenant| {
                let key = self.keys().tenant(tenant.partition(), tenant.as_str());
                let mut read = redis::cmd("HGETALL");
                read.arg(&key);
                (key, read)
            })
            .collect();
        let replies = self.query_each(&commands).await?;
        Ok(replies
            .into_iter()
            .map(|reply| reply.and_then(texts).map(Record::from_pairs))
            .collect())
    }
}

/// A plain reply that holds texts; a map is flattened.
fn texts(reply: Value) -> Result<Vec<String>, StoreError> {
    let nonsense = |found: &Value| StoreError::Refused {
        code: "REPLY".to_owned(),
        detail: format!("{found:?}").chars().take(80).collect(),
    };
    let values = match reply {
        Value::Array(values) | Value::Set(values) => values,
        Value::Map(pairs) => pairs
            .into_iter()
            .flat_map(|(name, value)| [name, value])
            .collect(),
        other => return Err(nonsense(&other)),
    };
    values
        .into_iter()
        .map(|value| match value {
            Value::BulkString(bytes) => String::from_utf8(bytes)
                .map_err(|error| nonsense(&Value::BulkString(error.into_bytes()))),
            other => Err(nonsense(&other)),
        })
        .collect()
}
