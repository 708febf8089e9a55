//! Sessions of the console. Redis holds the digest of each cookie, so that nobody who reads it can take a session over.

use super::records::command;
use super::signature::signature;
use super::{Lane, Store, StoreError, outcome};

signature! {
    /// Opens a session of the console for the holder of a key. Where they have too many, those that end first are ended.
    OPEN_SESSION: OpenSession -> OpenSessionReply = "console/open_session", flags "allow-oom";
    names { holder: &'a str }
    keys of directory { write sessions: console_sessions(holder); }
    args {
        /// Digest of the cookie.
        cookie: &'a str,
        /// Digest of the key.
        key_hash: &'a str,
        life_ms: i64,
        /// How many sessions one holder has at most.
        most: i64,
    }
    replies { opened: Opened }
    writes "The session, and how long all of them live; ended ones are removed."
}

/// How long a session lasts.
pub const SESSION_MS: i64 = 8 * 3_600_000;

/// Sessions that the holder of one key has at most.
const SESSIONS_MAX: i64 = 32;

impl Store {
    /// Opens a session of a key's holder.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable.
    pub async fn open_session(
        &self,
        holder: &str,
        cookie: &str,
        key_hash: &str,
    ) -> Result<(), StoreError> {
        let call = OpenSession {
            holder,
            cookie,
            key_hash,
            life_ms: SESSION_MS,
            most: SESSIONS_MAX,
        };
        let OpenSessionReply::Opened = outcome(self.run(Lane::Background, &call).await)?;
        Ok(())
    }

    /// The digest of the key with which a session was opened; `None` where there is none, or it has ended.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable.
    pub async fn session(&self, holder: &str, cookie: &str) -> Result<Option<String>, StoreError> {
        let key = self.keys().console_sessions(holder);
        let session: Option<String> = self.read(command("HGET", key, cookie)).await?;
        let now_ms = self.clock().now_ms();
        Ok(session.and_then(|session| {
            let (ends_at_ms, key_hash) = session.split_once(' ')?;
            (ends_at_ms.parse::<i64>().ok()? > now_ms).then(|| key_hash.to_owned())
        }))
    }

    /// Ends a session.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable.
    pub async fn end_session(&self, holder: &str, cookie: &str) -> Result<(), StoreError> {
        let key = self.keys().console_sessions(holder);
        self.write(command("HDEL", key, cookie)).await
    }
}
