//! A proxy before Redis that breaks a connection instead of passing a reply on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// See the module documentation.
pub struct LossyProxy {
    pub port: u16,
    armed: Arc<AtomicBool>,
}

impl LossyProxy {
    /// To the Redis on this port. `loses`: of which requests the reply may be lost.
    pub async fn to(port: u16, loses: fn(&[u8]) -> bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let armed = Arc::new(AtomicBool::new(false));
        let way = Self {
            port: listener.local_addr().expect("bound").port(),
            armed: Arc::clone(&armed),
        };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", port)).await;
                let server = server.expect("Redis runs");
                tokio::spawn(pass(client, server, Arc::clone(&armed), loses));
            }
        });
        way
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Loses the next reply of such a request.
    pub fn lose_one(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }

    /// Whether it was lost.
    pub fn has_lost(&self) -> bool {
        !self.armed.load(Ordering::SeqCst)
    }
}

async fn pass(
    mut client: TcpStream,
    mut server: TcpStream,
    armed: Arc<AtomicBool>,
    loses: fn(&[u8]) -> bool,
) {
    let (mut requests, mut replies) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let is_passed = tokio::select! {
            read = client.read(&mut requests) => {
                let Ok(length @ 1..) = read else { return };
                let request = &requests[..length];
                let sent = server.write_all(request).await;
                if loses(request) && armed.swap(false, Ordering::SeqCst) {
                    // The script has run when its reply is there.
                    let _ = server.read(&mut replies).await;
                    return;
                }
                sent
            }
            read = server.read(&mut replies) => {
                let Ok(length @ 1..) = read else { return };
                client.write_all(&replies[..length]).await
            }
        };
        if is_passed.is_err() {
            return;
        }
    }
}
