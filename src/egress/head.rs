//! The head of a response, and where its body ends.

use httparse::{EMPTY_HEADER, Header, Response, Status};

/// The headers that a response may have.
const HEADERS_MAX: usize = 100;

/// What is needed of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub status: u16,
    /// Its length in bytes.
    pub length: usize,
    pub body: Body,
    /// Whether the connection stays open after the body.
    pub keeps: bool,
}

/// Where a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// After so many bytes.
    Length(u64),
    /// With its last chunk.
    Chunked(Chunks),
    /// With the connection.
    Rest,
}

/// A head that is not valid HTTP/1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

impl Head {
    /// Reads the head at the start of `bytes`; `None` when it is incomplete.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, Malformed> {
        let mut headers = [EMPTY_HEADER; HEADERS_MAX];
        let mut response = Response::new(&mut headers);
        let length = match response.parse(bytes) {
            Ok(Status::Complete(length)) => length,
            Ok(Status::Partial) => return Ok(None),
            Err(_) => return Err(Malformed),
        };
        let status = response.code.ok_or(Malformed)?;
        let is_11 = response.version == Some(1);
        let headers = &*response.headers;
        let (length_of_body, encoded) =
            (content_length(headers)?, has(headers, "transfer-encoding"));
        let body = match (status, length_of_body) {
            (100..=199 | 204 | 304, _) => Body::Length(0),
            _ if encoded && chunked(headers) => Body::Chunked(Chunks::default()),
            (_, Some(length)) if !encoded => Body::Length(length),
            _ => Body::Rest,
        };
        // Two statements of where the body ends: the receiver may believe the other one.
        let ambiguous = encoded && length_of_body.is_some();
        let closes = tokens(headers, "connection").any(|token| token.eq_ignore_ascii_case("close"));
        Ok(Some(Self {
            status,
            length,
            body,
            keeps: is_11 && !closes && !ambiguous && body != Body::Rest,
        }))
    }

    /// Whether another head follows instead of a body.
    pub fn is_interim(&self) -> bool {
        (100..200).contains(&self.status) && self.status != 101
    }
}

fn values<'a>(headers: &'a [Header<'a>], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    let named = headers
        .iter()
        .filter(move |header| header.name.eq_ignore_ascii_case(name));
    named.map(|header| header.value)
}

fn has(headers: &[Header<'_>], name: &str) -> bool {
    values(headers, name).next().is_some()
}

fn tokens<'a>(headers: &'a [Header<'a>], name: &'a str) -> impl Iterator<Item = &'a str> {
    let texts = values(headers, name).map(|value| str::from_utf8(value).unwrap_or_default());
    texts.flat_map(|text| text.split(',')).map(str::trim)
}

/// Whether the only encoding is `chunked`.
fn chunked(headers: &[Header<'_>]) -> bool {
    let mut encodings = tokens(headers, "transfer-encoding");
    let first = encodings.next();
    first.is_some_and(|name| name.eq_ignore_ascii_case("chunked")) && encodings.next().is_none()
}

/// The length that the headers state. Several must agree.
fn content_length(headers: &[Header<'_>]) -> Result<Option<u64>, Malformed> {
    let mut length = None;
    for text in tokens(headers, "content-length") {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let stated = text.parse().ok().filter(|_| digits).ok_or(Malformed)?;
        if length.is_some_and(|known| known != stated) {
            return Err(Malformed);
        }
        length = Some(stated);
    }
    Ok(length)
}

/// How far a chunked body has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Chunks {
    at: At,
    /// The digits of a size, then the bytes of the chunk that are to come.
    size: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum At {
    #[default]
    SizeStart,
    Size,
    Extension,
    SizeEnd,
    Data,
    DataEnd,
    DataEndLf,
    LineStart,
    Line,
    LineEnd,
    LastLf,
    End,
}

impl Chunks {
    /// Reads on. Returns whether the body has ended with the last byte.
    pub fn read(&mut self, bytes: &[u8]) -> Result<bool, Malformed> {
        for byte in bytes {
            self.at = self.next(*byte)?;
        }
        Ok(self.at == At::End)
    }

    fn next(&mut self, byte: u8) -> Result<At, Malformed> {
        Ok(match (self.at, byte) {
            (At::SizeStart | At::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16).ok_or(Malformed)?;
                let shifted = self.size.checked_mul(16).ok_or(Malformed)?;
                self.size = shifted | digit;
                At::Size
            }
            (At::Size | At::Extension, b'\r') => At::SizeEnd,
            (At::Size, b';' | b' ' | b'\t') => At::Extension,
            (At::Extension, byte) if byte != b'\n' => At::Extension,
            (At::SizeEnd, b'\n') if self.size == 0 => At::LineStart,
            (At::SizeEnd, b'\n') => At::Data,
            (At::Data, _) => {
                self.size -= 1;
                if self.size == 0 {
                    At::DataEnd
                } else {
                    At::Data
                }
            }
            (At::DataEnd, b'\r') => At::DataEndLf,
            (At::DataEndLf, b'\n') => At::SizeStart,
            // Trailers, until an empty line.
            (At::LineStart, b'\r') => At::LastLf,
            (At::Line, b'\r') => At::LineEnd,
            (At::LineStart | At::Line, byte) if byte != b'\n' => At::Line,
            (At::LineEnd, b'\n') => At::LineStart,
            (At::LastLf, b'\n') => At::End,
            _ => return Err(Malformed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_tells_where_its_body_ends_and_whether_the_connection_stays_open() {
        let chunked = Body::Chunked(Chunks::default());
        for (head, body, keeps) in [
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 3",
                Body::Length(3),
                true,
            ),
            (
                "HTTP/1.1 200\r\nContent-Length: 3, 3",
                Body::Length(3),
                true,
            ),
            (
                "HTTP/1.0 200 OK\r\nContent-Length: 3",
                Body::Length(3),
                false,
            ),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: x, Close",
                Body::Length(0),
                false,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked",
                chunked,
                true,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked",
                Body::Rest,
                false,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3",
                chunked,
                false,
            ),
            ("HTTP/1.1 200 OK\r\nServer: x", Body::Rest, false),
            (
                "HTTP/1.1 204 None\r\nContent-Length: 3",
                Body::Length(0),
                true,
            ),
            ("HTTP/1.1 304 Same\r\nServer: x", Body::Length(0), true),
        ] {
            let bytes = format!("{head}\r\n\r\nbody");
            let parsed = Head::parse(bytes.as_bytes()).expect(head).expect(head);
            assert_eq!((parsed.body, parsed.keeps), (body, keeps), "{head}");
            assert_eq!(parsed.length, bytes.len() - 4, "{head}");
            for end in 0..parsed.length {
                assert_eq!(Head::parse(&bytes.as_bytes()[..end]), Ok(None), "{head}");
            }
        }
        for head in [
            "HTTP/1.1 200 OK\r\nContent-Length: +3",
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999",
            "HTTP/1.1 200 OK\r\nContent-Length:",
            "HTTP/1.1 20 OK\r\nServer: x",
            "HTTP/2.0 200 OK\r\nServer: x",
        ] {
            let bytes = format!("{head}\r\n\r\n");
            assert_eq!(Head::parse(bytes.as_bytes()), Err(Malformed), "{head}");
        }
    }

    #[test]
    fn a_chunked_body_ends_after_its_trailers() {
        for body in [
            "0\r\n\r\n",
            "2\r\nok\r\n0\r\n\r\n",
            "00A;name=value\r\n0123456789\r\n2 \r\n\r\n\r\n0\r\nX: y\r\nZ: z\r\n\r\n",
        ] {
            let bytes = body.as_bytes();
            assert_eq!(Chunks::default().read(bytes), Ok(true), "{body}");
            let mut chunks = Chunks::default();
            for byte in &bytes[..bytes.len() - 1] {
                assert_eq!(chunks.read(&[*byte]), Ok(false), "{body}");
            }
            assert_eq!(chunks.read(b"\n"), Ok(true), "{body}");
            assert_eq!(chunks.read(b"H"), Err(Malformed), "{body}");
        }
        for body in [
            "\r\n",
            "x\r\n",
            "2\nok",
            "2\r\nokay",
            "2\r\nok\n",
            "123456789\r\n",
            "1;\n",
            "0\r\nX\n",
        ] {
            assert_eq!(
                Chunks::default().read(body.as_bytes()),
                Err(Malformed),
                "{body}"
            );
        }
    }
}
