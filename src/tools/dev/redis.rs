//! A private `redis-server`, reachable by a Unix socket of its owner alone.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::child::Process;
use super::folder::Folder;

/// The system's limit for the path of a socket is 108 bytes.
const SOCKET_PATH_MAX: usize = 100;

/// The private Redis does not start, or has ended.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PrivateRedisError(String);

pub(super) struct PrivateRedis {
    process: Mutex<Process>,
    socket: PathBuf,
    /// Holds the socket when the data folder's path is too long for one.
    short_folder: Option<PathBuf>,
    log: PathBuf,
}

impl PrivateRedis {
    /// Starts the server on the data of `folder`; it accepts connections a moment later.
    pub(super) fn start(folder: &Folder) -> Result<Self, PrivateRedisError> {
        let failed = |what: &str, error: io::Error| PrivateRedisError(format!("{what}: {error}"));
        let mut socket = folder.path().join("redis.sock");
        let mut short_folder = None;
        if socket.as_os_str().len() > SOCKET_PATH_MAX {
            let short = std::env::temp_dir().join(format!("ba-{:08x}", rand::random::<u32>()));
            std::fs::create_dir(&short)
                .map_err(|error| failed("cannot create a folder for the socket of Redis", error))?;
            socket = short.join("redis.sock");
            short_folder = Some(short);
        }
        // A stack that was killed left it behind; the folder's lock proves that no other stack uses it.
        let _ = std::fs::remove_file(&socket);
        let log = folder.path().join("redis.log");
        let output = File::create(&log)
            .map_err(|error| failed("cannot create the log file of Redis", error))?;
        let mut command = Command::new("redis-server");
        command
            .args(["--port", "0", "--unixsocketperm", "700", "--unixsocket"])
            .arg(&socket)
            .arg("--dir")
            .arg(folder.path())
            .args(["--save", "", "--appendfsync", "everysec", "--appendonly"])
            .arg(if folder.is_ephemeral() { "no" } else { "yes" })
            .args([
                "--hash-max-listpack-value",
                "1024",
                "--maxmemory",
                "1gb",
                "--maxmemory-policy",
                "noeviction",
            ])
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(Stdio::null());
        let process = Process::start(command).map_err(|error| {
            PrivateRedisError(format!(
                "{error}: install Redis 7 or later (Debian: apt-get install redis-server), or name a running one with \
                 --redis-url"
            ))
        })?;
        Ok(Self {
            process: Mutex::new(process),
            socket,
            short_folder,
            log,
        })
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The connection URL.
    pub(super) fn url(&self) -> String {
        // The path is percent-encoded as in any URL.
        let path = url::Url::from_file_path(&self.socket).map(|url| url.path().to_owned());
        format!("redis+unix://{}", path.unwrap_or_default())
    }

    /// Waits until the server ends unexpectedly.
    pub(super) async fn ended(&self) -> PrivateRedisError {
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(status) = process.ended() {
                return PrivateRedisError(format!(
                    "redis-server has ended ({status}); see {}",
                    self.log.display()
                ));
            }
        }
    }
}

impl Drop for PrivateRedis {
    fn drop(&mut self) {
        if let Some(folder) = &self.short_folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}
