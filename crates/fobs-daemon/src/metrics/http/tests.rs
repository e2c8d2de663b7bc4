use super::*;
use std::net::Ipv4Addr;

fn exporter() -> Exporter {
    let render: Render = Arc::new(|| "fobs_x 1\n# EOF\n".to_owned());
    Exporter::start((Ipv4Addr::LOCALHOST, 0).into(), render).unwrap()
}

/// Sends a request; everything that comes back. The exporter may close before all is sent.
fn ask(exporter: &Exporter, request: &[u8]) -> String {
    let mut socket = TcpStream::connect(exporter.address()).unwrap();
    let _ = socket.write_all(request);
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

#[test]
fn metrics_are_answered_and_nothing_else() {
    let exporter = exporter();
    let get = |target: &str| ask(&exporter, format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
    let (head, body) =
        get("/metrics").split_once("\r\n\r\n").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains(CONTENT_TYPE), "{head}");
    assert!(head.contains("Content-Length: 15"), "{head}");
    assert_eq!(body, "fobs_x 1\n# EOF\n");
    assert!(get("/metrics?x=1").contains(" 200 "));
    assert!(get("/secret").contains(" 404 "));
    for (request, status) in [
        (&b"POST /metrics HTTP/1.1\r\n\r\n"[..], " 405 "),
        (b"nonsense\r\n\r\n", " 400 "),
        (b"GET /metrics SMTP/1.1\r\n\r\n", " 400 "),
        (b"\xff\xfe\r\n\r\n", " 400 "),
    ] {
        let answer = ask(&exporter, request);
        assert!(answer.contains(status), "{answer}");
    }
}

#[test]
fn a_request_without_end_is_cut_off() {
    let exporter = exporter();
    let answer = ask(&exporter, &vec![b'x'; REQUEST_BYTES_MAX + 1024]);
    assert!(answer.is_empty() || answer.contains(" 431 "), "{answer}");
}

#[test]
fn idle_connections_are_bounded_and_end() {
    let exporter = exporter();
    let connect = || TcpStream::connect(exporter.address()).unwrap();
    let mut idle: Vec<_> = std::iter::repeat_with(connect).take(CONNECTIONS_MAX + 1).collect();
    // The first one is closed at once, the others when their time is up.
    for socket in &mut idle {
        let ended = socket.read(&mut [0]);
        assert!(matches!(ended, Ok(0)) || ended.is_err(), "{ended:?}");
    }
}

#[test]
fn a_scraper_is_answered_beside_any_number_that_only_hold() {
    // Silent, in the middle of a request, and after one whose answer they do not read.
    for said in [&b""[..], b"GET /metrics HTTP/1.1\r\nHost:", b"GET /metrics HTTP/1.1\r\n\r\n"] {
        let exporter = exporter();
        let mut held = Vec::new();
        for _ in 0..8 {
            for _ in 0..CONNECTIONS_MAX {
                let mut socket = TcpStream::connect(exporter.address()).unwrap();
                let _ = socket.write_all(said);
                held.push(socket);
            }
            let began = Instant::now();
            assert!(ask(&exporter, b"GET / HTTP/1.1\r\n\r\n").contains("fobs_x 1"));
            assert!(began.elapsed() < CONNECTION_TIME / 2, "{:?}", began.elapsed());
        }
    }
}
