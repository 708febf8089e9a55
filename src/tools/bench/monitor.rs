//! Counts the commands that clients send to Redis, without those that scripts call.
//!
//! `MONITOR` slows Redis down, so nothing is timed while it runs.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::error::BenchError;

/// How long Redis may take to report the last command.
const LIMIT: Duration = Duration::from_secs(30);

/// Counts from its start to its end.
pub(super) struct Monitor {
    port: u16,
    mark: String,
    counting: JoinHandle<io::Result<u64>>,
}

impl Monitor {
    /// Starts to count on the Redis at this local port, which has no password.
    pub async fn start(port: u16) -> Result<Self, BenchError> {
        let opened = async {
            let mut lines = BufReader::new(connect(port, b"MONITOR\r\n").await?);
            let mut first = String::new();
            lines.read_line(&mut first).await?;
            Ok::<_, io::Error>(lines)
        };
        let lines = opened.await.map_err(BenchError::Monitor)?;
        let mark = format!("mark-{:016x}", rand::random::<u64>());
        let counting = tokio::spawn(count(lines, mark.clone()));
        Ok(Self {
            port,
            mark,
            counting,
        })
    }

    /// The number of commands that clients have sent since the start.
    pub async fn end(self) -> Result<u64, BenchError> {
        let ended = async {
            let echo = format!("ECHO {}\r\n", self.mark);
            let _open = connect(self.port, echo.as_bytes()).await?;
            let counted = timeout(LIMIT, self.counting).await?;
            counted.map_err(io::Error::from)?
        };
        ended.await.map_err(BenchError::Monitor)
    }
}

async fn connect(port: u16, command: &[u8]) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(command).await?;
    Ok(stream)
}

/// Counts lines up to the mark, without those of scripts.
async fn count(mut lines: BufReader<TcpStream>, mark: String) -> io::Result<u64> {
    let (mut commands, mut line) = (0, Vec::new());
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text = String::from_utf8_lossy(&line);
        if text.contains(&mark) {
            return Ok(commands);
        }
        // `+1700000000.000000 [0 lua] "HGET" …`
        let inside = text
            .split(']')
            .next()
            .is_some_and(|head| head.ends_with(" lua"));
        commands += u64::from(!inside);
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn only_what_clients_send_counts() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let told = "+1.1 [0 127.0.0.1:5] \"EVALSHA\" \"x\"\r\n+1.2 [0 lua] \"HGET\" \"k\"\r\n\
            +1.3 [0 127.0.0.1:5] \"HGET\" \"a lua] b\"\r\n+1.4 [0 127.0.0.1:6] \"ECHO\" \"mark\"\r\n";
        tokio::spawn(async move {
            let (mut client, _) = listener.accept().await.expect("it connects");
            client.write_all(told.as_bytes()).await.expect("sent");
        });
        let lines = BufReader::new(connect(port, b"").await.expect("it listens"));
        let counted = count(lines, "mark".to_owned()).await;
        assert_eq!(counted.expect("the mark comes"), 2);
    }
}
