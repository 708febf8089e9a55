//! A private `redis-server`, reachable by a Unix socket of its owner alone.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::child::Process;
use super::folder::Folder;

/// The system's limit for the path of a socket is 108 bytes.
const SOCKET_PATH_MAX: usize = 100;

/// A `redis-server` with data and log in `folder`, without snapshots, and with the settings that the service needs.
///
/// # Errors
/// When the log cannot be written.
pub(in crate::tools) fn server(folder: &Path) -> io::Result<Command> {
    let mut command = Command::new("redis-server");
    command
        .args(["--save", "", "--maxmemory-policy", "noeviction"])
        .args(["--hash-max-listpack-value", "1024", "--dir"])
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(File::create(log(folder))?)
        .stderr(Stdio::null());
    Ok(command)
}

fn log(folder: &Path) -> PathBuf {
    folder.join("redis.log")
}

pub(super) struct PrivateRedis {
    process: Process,
    socket: PathBuf,
    /// Holds the socket when the data folder's path is too long for one.
    short_folder: Option<PathBuf>,
    log: PathBuf,
}

impl PrivateRedis {
    /// Starts the server on the data of `folder`; it accepts connections a moment later.
    pub(super) fn start(folder: &Folder) -> io::Result<Self> {
        let failed = |what: &str, error| io::Error::other(format!("{what}: {error}"));
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
        let mut command = server(folder.path())
            .map_err(|error| failed("cannot create the log file of Redis", error))?;
        command
            .args(["--port", "0", "--unixsocketperm", "700", "--unixsocket"])
            .arg(&socket)
            .args(["--maxmemory", "1gb", "--appendfsync", "everysec"])
            .arg("--appendonly")
            .arg(if folder.is_ephemeral() { "no" } else { "yes" });
        let process = Process::start(command).map_err(|error| {
            io::Error::other(format!(
                "{error}: install Redis 7 or later (Debian: apt-get install redis-server), or name a running one with \
                 --redis-url"
            ))
        })?;
        Ok(Self {
            process,
            socket,
            short_folder,
            log: log(folder.path()),
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
    pub(super) async fn ended(&mut self) -> io::Error {
        let (status, log) = (self.process.exited().await, self.log.display());
        io::Error::other(format!("redis-server has ended ({status}); see {log}"))
    }
}

impl Drop for PrivateRedis {
    fn drop(&mut self) {
        if let Some(folder) = &self.short_folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}
