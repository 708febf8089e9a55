//! A proxy before Redis that delays replies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// See the module documentation.
pub struct SlowProxy {
    port: u16,
    delay_ms: Arc<AtomicU64>,
}

impl SlowProxy {
    /// To the Redis on this port; without delay so far.
    pub async fn to(port: u16) -> Self {
        Self::of(port, |_| true).await
    }

    /// The same, which delays the replies to such requests alone.
    pub async fn of(port: u16, slows: fn(&[u8]) -> bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let delay_ms = Arc::new(AtomicU64::new(0));
        let way = Self {
            port: listener.local_addr().expect("bound").port(),
            delay_ms: Arc::clone(&delay_ms),
        };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", port)).await;
                let (mut requests, mut back) = client.into_split();
                let (mut replies, mut sent) = server.expect("Redis runs").into_split();
                let delay_ms = Arc::clone(&delay_ms);
                let is_slow = Arc::new(AtomicBool::new(false));
                let slowed = Arc::clone(&is_slow);
                tokio::spawn(async move {
                    let mut buffer = vec![0; 1 << 20];
                    while let Ok(length @ 1..) = requests.read(&mut buffer).await {
                        slowed.fetch_or(slows(&buffer[..length]), Ordering::SeqCst);
                        if sent.write_all(&buffer[..length]).await.is_err() {
                            break;
                        }
                    }
                });
                tokio::spawn(async move {
                    let mut buffer = vec![0; 1 << 20];
                    while let Ok(1..) = {
                        let read = replies.read(&mut buffer).await;
                        if is_slow.swap(slows(&[]), Ordering::SeqCst) {
                            let delay = Duration::from_millis(delay_ms.load(Ordering::Relaxed));
                            // The delay that the test asks for.
                            tokio::time::sleep(delay).await;
                        }
                        match read {
                            Ok(length) => back.write_all(&buffer[..length]).await.map(|()| length),
                            failed => failed,
                        }
                    } {}
                });
            }
        });
        way
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Delays each reply from now on.
    pub fn delay(&self, delay: Duration) {
        let delay_ms = u64::try_from(delay.as_millis()).expect("not that long");
        self.delay_ms.store(delay_ms, Ordering::Relaxed);
    }
}
