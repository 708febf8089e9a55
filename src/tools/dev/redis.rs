//! A private `redis-server`, reachable by a Unix socket of its owner alone.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use super::folder::Folder;
use super::{DevError, child};

/// The system's limit for the path of a socket is 108 bytes.
const SOCKET_PATH_MAX: usize = 100;

pub(super) struct PrivateRedis {
    child: Mutex<Child>,
    socket: PathBuf,
    /// Holds the socket where the data folder's path is too long for one.
    short_folder: Option<PathBuf>,
    log: PathBuf,
}

impl PrivateRedis {
    /// Starts the server on the data of `folder`; it answers a moment later.
    pub(super) fn start(folder: &Folder) -> Result<Self, DevError> {
        let failed = |what: &str, error: io::Error| DevError::Redis(format!("{what}: {error}"));
        let mut socket = folder.path().join("redis.sock");
        let mut short_folder = None;
        if socket.as_os_str().len() > SOCKET_PATH_MAX {
            let short = std::env::temp_dir().join(format!("ba-{:08x}", rand::random::<u32>()));
            std::fs::create_dir(&short)
                .map_err(|error| failed("no folder for the socket of Redis", error))?;
            socket = short.join("redis.sock");
            short_folder = Some(short);
        }
        // Left behind by a stack that was killed; ours alone, since we hold the folder's lock.
        let _ = std::fs::remove_file(&socket);
        let log = folder.path().join("redis.log");
        let output = File::create(&log).map_err(|error| failed("no log file for Redis", error))?;
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
        let child = child::spawn(command).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => DevError::Redis(
                "redis-server is not installed: install Redis 7 or later (Debian: apt-get install redis-server), \
                 or name a running one with --redis-url"
                    .to_owned(),
            ),
            _ => failed("redis-server does not start", error),
        })?;
        Ok(Self {
            child: Mutex::new(child),
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

    /// Waits until the server ends by itself, which it should not.
    pub(super) async fn ended(&self) -> DevError {
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let state = self.child().try_wait();
            if let Ok(Some(status)) = state {
                return DevError::Redis(format!(
                    "redis-server has ended ({status}); {} says why",
                    self.log.display()
                ));
            }
        }
    }

    fn child(&self) -> std::sync::MutexGuard<'_, Child> {
        self.child
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Drop for PrivateRedis {
    fn drop(&mut self) {
        // It writes its append-only file out before it ends.
        child::stop(&mut self.child(), Duration::from_secs(5));
        if let Some(folder) = &self.short_folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}
