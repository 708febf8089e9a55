//! A server that speaks the Redis protocol with scripted replies, in place of a Redis that is not installed.

use std::borrow::Cow;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

/// Starts it; its URL. `reply` gets the words of each command.
pub fn serve(reply: impl Fn(&[String]) -> String + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let reply = Arc::new(reply);
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let reply = Arc::clone(&reply);
            std::thread::spawn(move || serve_connection(connection, &*reply));
        }
    });
    format!("redis://127.0.0.1:{port}")
}

fn serve_connection(mut connection: TcpStream, reply: impl Fn(&[String]) -> String) {
    let mut requests = BufReader::new(connection.try_clone().expect("a second handle"));
    while let Some(words) = request(&mut requests) {
        let words = words.iter().map(|word| String::from_utf8_lossy(word));
        let words: Vec<_> = words.map(Cow::into_owned).collect();
        let sent = connection.write_all(reply(&words).as_bytes());
        if sent.is_err() {
            break;
        }
    }
}

/// A reply of one text.
pub fn text(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// The words of the next request; `None` at the end of the connection.
pub fn request(from: &mut impl BufRead) -> Option<Vec<Vec<u8>>> {
    let number = |from: &mut _| {
        let mut line = String::new();
        BufRead::read_line(from, &mut line).ok()?;
        line.trim_end().get(1..)?.parse::<usize>().ok()
    };
    let mut words = Vec::new();
    for _ in 0..number(from)? {
        let mut word = vec![0; number(from)? + 2];
        from.read_exact(&mut word).ok()?;
        word.truncate(word.len() - 2);
        words.push(word);
    }
    Some(words)
}

/// A reply of texts.
pub fn texts(texts: &[&str]) -> String {
    let bulk = |text: &&str| format!("${}\r\n{text}\r\n", text.len());
    format!(
        "*{}\r\n{}",
        texts.len(),
        texts.iter().map(bulk).collect::<String>()
    )
}
