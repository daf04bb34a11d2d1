//! The built-in app: it answers with the request as JSON.
//!
//! `/delay/SECONDS` answers after a while, `/status/CODE` with that status.

use std::io;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::json;

use crate::server::{self, Server, headers_json, text};

const LONGEST_DELAY: f64 = 3600.0;

/// Starts the app on a free port of the loopback interface. It ends when the value is dropped.
pub fn start() -> io::Result<Server> {
    Server::start(echo)
}

async fn echo(request: Request<Incoming>) -> Result<Response<String>, hyper::Error> {
    let (head, mut body) = request.into_parts();
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        bytes += frame?.data_ref().map_or(0, |data| data.len());
    }
    let (status, delay) = status_and_delay(head.uri.path());
    tokio::time::sleep(delay).await;
    let reply = json!({
        "method": head.method.as_str(),
        "path": head.uri.path_and_query().map(http::uri::PathAndQuery::as_str),
        "x_forwarded_proto": head.headers.get("x-forwarded-proto").map(text),
        "headers": headers_json(&head.headers),
        "body_bytes": bytes,
    });
    Ok(server::json(status, format!("{reply:#}\n")))
}

fn status_and_delay(path: &str) -> (u16, Duration) {
    let seconds = path.strip_prefix("/delay/").and_then(|text| text.parse::<f64>().ok());
    let seconds = seconds.filter(|seconds| (0.0..=LONGEST_DELAY).contains(seconds)).unwrap_or(0.0);
    let status = path.strip_prefix("/status/").and_then(|text| text.parse().ok());
    (
        status.filter(|status| (200..600).contains(status)).unwrap_or(200),
        Duration::from_secs_f64(seconds),
    )
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Shutdown, TcpStream};

    use super::{start, status_and_delay};

    /// Everything that comes back for this text, until the echo closes the connection. With
    /// `is_cut`, the client closes its side after the text.
    fn said(text: &str, is_cut: bool) -> String {
        let echo = start().unwrap();
        let mut stream = TcpStream::connect(echo.address()).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        if is_cut {
            stream.shutdown(Shutdown::Write).unwrap();
        }
        let mut said = String::new();
        // a broken connection ends the reply, too
        let _ = stream.read_to_string(&mut said);
        said
    }

    #[test]
    fn requests_are_shown_as_they_came() {
        let first = "POST /a?b HTTP/1.1\r\nX-A: 1\r\nx-a: 2\r\ntransfer-encoding: \
            chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        let said = said(&format!("{first}GET / HTTP/1.1\r\nconnection: close\r\n\r\n"), false);
        let bodies: Vec<&str> = said
            .split("\r\n\r\n")
            .skip(1)
            .map(|body| body.split("HTTP/1.1").next().unwrap())
            .collect();
        let [first, second] =
            [0, 1].map(|index| serde_json::from_str::<serde_json::Value>(bodies[index]).unwrap());
        assert_eq!(
            (&first["method"], &first["path"], &first["body_bytes"]),
            (&"POST".into(), &"/a?b".into(), &3.into()),
            "{said}"
        );
        assert_eq!(first["headers"]["x-a"], serde_json::json!(["1", "2"]));
        assert_eq!(second["method"], "GET");
    }

    #[test]
    fn an_invalid_request_is_not_echoed() {
        for text in [
            "GET / HTTP/1.1\r\n".to_owned(),
            "\0\r\n\r\n".to_owned(),
            "GET / HTTP/1.1\r\ncontent-length: 9\r\n\r\nabc".to_owned(),
            "GET / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nx\r\n".to_owned(),
            format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(1 << 20)),
        ] {
            let said = said(&text, true);
            assert!(!said.contains("200 OK"), "{text:.80?}: {said}");
        }
    }

    #[test]
    fn invalid_values_in_the_path_mean_200_at_once() {
        assert_eq!(status_and_delay("/delay/1.5").1.as_millis(), 1500);
        assert_eq!(status_and_delay("/status/503").0, 503);
        for path in ["/delay/-1", "/delay/NaN", "/delay/1e99", "/status/7", "/status/x", "/"] {
            assert_eq!(
                (status_and_delay(path).0, status_and_delay(path).1.as_millis()),
                (200, 0),
                "{path}"
            );
        }
    }
}
