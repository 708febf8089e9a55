//! `begin_replay.lua`, `queue_replay.lua`, `end_replay.lua`, and the reading of event logs that a replay chooses from.

use redis::{Cmd, Value};

use crate::domain::ids::Partition;
use crate::domain::record::Record;
use crate::domain::refusal::admin::AdminRefusal;
use crate::domain::webhook::{Owner, ReplayId, SubscriptionId};
use crate::driver::clock::Day;
use crate::driver::reply::Reply;
use crate::store::admin::{AdminError, Pairs, push_day, push_pairs, refused};
use crate::store::scripts::{BEGIN_REPLAY, END_REPLAY, QUEUE_REPLAY};
use crate::store::{Arg, Store, StoreError};

/// How long choosing the events may take; then another replay may begin.
const CLAIM_MS: i64 = 60_000;
/// Logs that are read at once.
const LOGS: usize = 64;

/// The log of a day of one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventLog {
    /// Where it lies.
    pub partition: Partition,
    /// Whose it is; perhaps no tenant's.
    pub tenant: String,
    /// Of which day.
    pub day: Day,
}

/// An entry of an event log.
#[derive(Debug)]
pub struct LogEntry {
    /// Place of the log among those that were asked for.
    pub log: usize,
    /// Id of the entry in its stream.
    pub entry: String,
    /// What the script appended.
    pub facts: Record,
}

/// Events to be delivered again.
#[derive(Debug)]
pub struct ReplayJob<'a> {
    /// Names the replay.
    pub replay_id: &'a ReplayId,
    /// To which subscription.
    pub subscription_id: &'a SubscriptionId,
    /// Whose.
    pub owner: &'a Owner,
    /// The claim under which the events were chosen; `None` where none was needed.
    pub token: Option<&'a str>,
    /// In order.
    pub event_ids: &'a [String],
    /// Who asked.
    pub cause: &'a str,
    /// After how long the job is given up, in milliseconds.
    pub keep_ms: i64,
}

impl Store {
    /// Claims the right to choose events for a replay.
    ///
    /// # Errors
    /// [`AdminRefusal::ReplayInProgress`].
    pub async fn begin_replay(
        &self,
        subscription_id: &SubscriptionId,
        token: &str,
    ) -> Result<(), AdminError> {
        let args = [Arg::from(token), Arg::from(CLAIM_MS)];
        let key = self.replay_lock_key(subscription_id);
        let mut reply = Reply::new(
            &BEGIN_REPLAY,
            self.call(&BEGIN_REPLAY, &[key], &args).await?,
        )?;
        match reply.next_str()?.as_str() {
            "begun" => Ok(()),
            "locked" => Err(AdminRefusal::ReplayInProgress.into()),
            other => Err(reply.unknown(other).into()),
        }
    }

    /// Gives a claim back.
    ///
    /// # Errors
    /// [`StoreError`]; the claim lapses by itself.
    pub async fn end_replay(
        &self,
        subscription_id: &SubscriptionId,
        token: &str,
    ) -> Result<(), StoreError> {
        let key = self.replay_lock_key(subscription_id);
        self.call(&END_REPLAY, &[key], &[Arg::from(token)])
            .await
            .map(drop)
    }

    /// Keeps the events of a replay for the dispatcher, with the audit entry.
    ///
    /// # Errors
    /// Refusals: the subscription or the claim is gone; the owner is closed.
    pub async fn queue_replay(&self, job: &ReplayJob<'_>, audit: &Pairs) -> Result<(), AdminError> {
        let (keys, owner) = (self.keys(), job.owner.as_str());
        let (partition, id) = (job.owner.partition(), job.subscription_id.as_str());
        let replay_id = job.replay_id.as_str();
        let build = |day: Day| {
            let key_names = vec![
                keys.webhook(partition, id),
                keys.replay_lock(partition, id),
                keys.replay(partition, replay_id),
                keys.replay_events(partition, replay_id),
                keys.replays(partition),
                keys.audit(partition, owner, day),
                keys.chain(partition, owner),
                keys.unsealed(partition),
                keys.days(partition),
                keys.tenant(partition, owner),
            ];
            let mut args = vec![owner.to_owned()];
            push_day(&mut args, day);
            let token = job.token.unwrap_or_default();
            args.extend([id, token, replay_id].map(str::to_owned));
            args.extend([job.keep_ms.to_string(), job.cause.to_owned()]);
            args.push(job.event_ids.len().to_string());
            args.extend_from_slice(job.event_ids);
            push_pairs(&mut args, audit);
            (key_names, args)
        };
        let (word, reply) = self.admin_call(&QUEUE_REPLAY, build).await?;
        match word.as_str() {
            "queued" => Ok(()),
            "not_found" => Err(AdminRefusal::WebhookNotFound.into()),
            // Somebody else has claimed it after ours lapsed.
            "lost" => Err(AdminRefusal::ReplayInProgress.into()),
            other => Err(refused(other, reply)),
        }
    }

    /// The logs of days that retention knows of, in these partitions: of one tenant or of all.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn event_logs(
        &self,
        partitions: &[Partition],
        tenant: Option<&str>,
        days: (Option<Day>, Option<Day>),
    ) -> Result<Vec<EventLog>, StoreError> {
        let command = |partition: &Partition| {
            let key = self.keys().days(*partition);
            let mut read = redis::cmd("ZRANGE");
            read.arg(&key).arg(0).arg(-1);
            (key, read)
        };
        let commands: Vec<(String, Cmd)> = partitions.iter().map(command).collect();
        let replies = self.query_all(&commands).await?;
        let mut logs = Vec::new();
        for (partition, reply) in partitions.iter().zip(replies) {
            let members: Vec<String> = redis::from_redis_value(reply).unwrap_or_default();
            for member in members {
                let Some((name, day)) = member.rsplit_once(':') else {
                    continue;
                };
                let Some(day) = Day::parse(day) else { continue };
                let wanted = tenant.is_none_or(|tenant| tenant == name)
                    && days.0.is_none_or(|first| first <= day)
                    && days.1.is_none_or(|last| day <= last);
                if wanted {
                    logs.push(EventLog {
                        partition: *partition,
                        tenant: name.to_owned(),
                        day,
                    });
                }
            }
        }
        logs.sort_by_key(|log| log.day);
        Ok(logs)
    }

    /// The entries of these logs, up to `most` and one more.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn event_entries(
        &self,
        logs: &[EventLog],
        (from_ms, to_ms): (Option<i64>, Option<i64>),
        most: usize,
    ) -> Result<Vec<LogEntry>, StoreError> {
        let bound =
            |ms: Option<i64>, open: &str| ms.map_or(open.to_owned(), |ms| ms.max(0).to_string());
        // An entry's id is at most a little later than the time that its event tells.
        let (from, to) = (
            bound(from_ms, "-"),
            bound(to_ms.map(|ms| ms.saturating_add(5_000)), "+"),
        );
        let mut entries: Vec<LogEntry> = Vec::new();
        for (chunk, some) in logs.chunks(LOGS).enumerate() {
            let left = (most + 1).saturating_sub(entries.len());
            if left == 0 {
                break;
            }
            let command = |log: &EventLog| {
                let key = self.keys().events(log.partition, &log.tenant, log.day);
                let mut read = redis::cmd("XRANGE");
                read.arg(&key).arg(&from).arg(&to);
                read.arg("COUNT").arg(left);
                (key, read)
            };
            let commands: Vec<(String, Cmd)> = some.iter().map(command).collect();
            for (place, reply) in self.query_all(&commands).await?.into_iter().enumerate() {
                let log = chunk * LOGS + place;
                entries.extend(read_entries(reply).map(|(entry, facts)| LogEntry {
                    log,
                    entry,
                    facts,
                }));
            }
        }
        Ok(entries)
    }

    fn replay_lock_key(&self, subscription_id: &SubscriptionId) -> String {
        self.keys()
            .replay_lock(subscription_id.partition(), subscription_id.as_str())
    }
}

fn read_entries(reply: Value) -> impl Iterator<Item = (String, Record)> {
    let entries: Vec<(String, Vec<String>)> = redis::from_redis_value(reply).unwrap_or_default();
    let read = |(entry, facts)| (entry, Record::from_pairs(facts));
    entries.into_iter().map(read)
}
