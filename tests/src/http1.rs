//! HTTP/1.1 as the bytes it is: tests must see exactly what came, and answer with what no HTTP
//! library would let them write.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};

/// A request, as it came over the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The method, for example `POST`.
    pub method: String,
    /// The request target, for example `/hook?a=1`.
    pub target: String,
    /// Names and values in the order in which they came; bytes beyond ASCII as Latin-1.
    pub headers: Vec<(String, String)>,
    /// The body's bytes, without any transfer coding.
    pub body: Vec<u8>,
}

impl Request {
    /// The one value of a header, whose name is compared without regard to case.
    ///
    /// # Panics
    /// If the header came more than once.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self
            .headers
            .iter()
            .filter(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str());
        let first = values.next();
        assert_eq!(values.next(), None, "header {name} came twice: {self:?}");
        first
    }

    /// The names of all headers, in lower case, sorted.
    #[must_use]
    pub fn header_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .headers
            .iter()
            .map(|(name, _)| name.to_ascii_lowercase())
            .collect();
        names.sort();
        names
    }

    /// The body as text.
    ///
    /// # Panics
    /// If it is not UTF-8.
    #[must_use]
    pub fn text(&self) -> &str {
        str::from_utf8(&self.body).expect("the body is UTF-8")
    }
}

/// Reads one request, or `None` if the peer ended the connection before its first byte.
///
/// # Errors
/// If the connection breaks or what comes is not a request.
pub async fn read_request(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Request>> {
    let Some(line) = read_line(reader).await? else {
        return Ok(None);
    };
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some("HTTP/1.1"), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(invalid(format!("not a request line: {line:?}")));
    };
    let mut request = Request {
        method: method.to_owned(),
        target: target.to_owned(),
        ..Request::default()
    };
    loop {
        let line = read_line(reader).await?.ok_or_else(cut)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| invalid(format!("not a header: {line:?}")))?;
        let value = value.trim_matches([' ', '\t']);
        request.headers.push((name.to_owned(), value.to_owned()));
    }
    if request.header("transfer-encoding") == Some("chunked") {
        read_chunks(reader, &mut request.body).await?;
    } else if let Some(length) = request.header("content-length") {
        let length = length.parse().map_err(|_| invalid(length.to_owned()))?;
        request.body.resize(length, 0);
        reader.read_exact(&mut request.body).await?;
    }
    Ok(Some(request))
}

/// A whole response with these headers, in this order, and nothing that was not asked for except
/// the length of the body.
#[must_use]
pub fn response(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 {status} Reason\r\n").into_bytes();
    for (name, value) in headers {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    // RFC 9110 §8.6: neither 1xx nor 204 may have a length.
    if status >= 200 && status != 204 {
        bytes.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}

/// A date in the two obsolete forms that RFC 9110 §5.6.7 still obliges a recipient to accept, made
/// of the preferred one, `Mon, 30 Nov 2026 12:02:00 GMT`.
///
/// # Panics
/// If it is not of that form.
#[must_use]
pub fn obsolete_dates(date: &str) -> [String; 2] {
    const DAYS: [&str; 7] = [
        "Monday",
        "Tuesday",
        "Wednesday",
        "Thursday",
        "Friday",
        "Saturday",
        "Sunday",
    ];
    let [weekday, day, month, year, clock, "GMT"] = date.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{date}");
    };
    let weekday = weekday.trim_end_matches(',');
    let long = DAYS.iter().find(|name| name.starts_with(weekday)).unwrap();
    let short_day = day.trim_start_matches('0');
    [
        format!("{long}, {day}-{month}-{} {clock} GMT", &year[2..]),
        format!("{weekday} {month} {short_day:>2} {clock} {year}"),
    ]
}

async fn read_chunks(
    reader: &mut (impl AsyncBufRead + Unpin),
    body: &mut Vec<u8>,
) -> io::Result<()> {
    loop {
        let line = read_line(reader).await?.ok_or_else(cut)?;
        let length = usize::from_str_radix(&line, 16).map_err(|_| invalid(line))?;
        let start = body.len();
        body.resize(start + length, 0);
        reader.read_exact(&mut body[start..]).await?;
        if !read_line(reader).await?.ok_or_else(cut)?.is_empty() {
            return Err(invalid("a chunk of another length".into()));
        }
        if length == 0 {
            return Ok(());
        }
    }
}

/// One line without its end, each byte as the Latin-1 character of that number.
async fn read_line(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    if reader.read_until(b'\n', &mut line).await? == 0 {
        return Ok(None);
    }
    match line.strip_suffix(b"\r\n") {
        Some(line) => Ok(Some(line.iter().copied().map(char::from).collect())),
        None => Err(cut()),
    }
}

fn cut() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::obsolete_dates;

    #[test]
    fn the_obsolete_forms_are_those_of_the_rfc() {
        assert_eq!(
            obsolete_dates("Sun, 06 Nov 1994 08:49:37 GMT"),
            ["Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        );
    }
}
