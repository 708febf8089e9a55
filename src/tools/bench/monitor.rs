//! Counts the commands that clients send to Redis for requests, without those that scripts call.
//!
//! `MONITOR` slows Redis down, so nothing is timed while it runs.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long Redis may take to report the last command.
const LIMIT: Duration = Duration::from_secs(30);

/// In commands that a service sends whatever is requested: a look at memory, the comparison of the deployment's record, counts for
/// detectors every few seconds.
const OWN_COMMANDS: [&str; 4] = [
    "] \"INFO\"",
    ":meta\" \"secret\"",
    ":traffic\"",
    ":burning\"",
];

/// Counts from its start to its end.
pub(super) struct Monitor {
    port: u16,
    mark: String,
    counting: JoinHandle<io::Result<u64>>,
}

impl Monitor {
    /// Starts to count on the Redis at this local port, which has no password.
    pub async fn start(port: u16) -> io::Result<Self> {
        let mut lines = connect(port, "MONITOR").await?;
        lines.next_line().await?;
        let mark = format!("mark-{:016x}", rand::random::<u64>());
        let counting = tokio::spawn(count(lines, mark.clone()));
        Ok(Self {
            port,
            mark,
            counting,
        })
    }

    /// The number of commands that clients have sent since the start.
    pub async fn end(self) -> io::Result<u64> {
        let _open = connect(self.port, &format!("ECHO {}", self.mark)).await?;
        timeout(LIMIT, self.counting).await??
    }
}

async fn connect(port: u16, command: &str) -> io::Result<Lines<BufReader<TcpStream>>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream
        .write_all(format!("{command}\r\n").as_bytes())
        .await?;
    Ok(BufReader::new(stream).lines())
}

/// Counts lines up to the mark, without those of scripts and of the service's own commands.
async fn count(mut lines: Lines<BufReader<TcpStream>>, mark: String) -> io::Result<u64> {
    let mut commands = 0;
    while let Some(line) = lines.next_line().await? {
        if line.contains(&mark) {
            return Ok(commands);
        }
        // `+1700000000.000000 [0 lua] "HGET" …`
        let client = line.split(']').next().unwrap_or_default();
        let is_own = OWN_COMMANDS.iter().any(|own| line.contains(own));
        commands += u64::from(!client.ends_with(" lua") && !is_own);
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn only_what_clients_send_counts() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let printed = "+1.1 [0 127.0.0.1:5] \"EVALSHA\" \"x\"\r\n+1.2 [0 lua] \"HGET\" \"k\"\r\n\
            +1.3 [0 127.0.0.1:5] \"HGET\" \"a lua] b\"\r\n\
            +1.3 [0 127.0.0.1:5] \"INFO\" \"memory\"\r\n+1.3 [0 127.0.0.1:5] \"HGET\" \"ba:meta\" \"secret\"\r\n+1.4 [0 127.0.0.1:6] \"ECHO\" \"mark\"\r\n";
        tokio::spawn(async move {
            let (mut client, _) = listener.accept().await.expect("it connects");
            client.write_all(printed.as_bytes()).await.expect("sent");
        });
        let lines = connect(port, "").await.expect("it listens");
        let counted = count(lines, "mark".to_owned()).await;
        assert_eq!(counted.expect("the mark comes"), 2);
    }
}
