//! Requests to servers on loopback, well-behaved and other.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use super::super::testing::Bench;
use super::*;

/// A server that treats each connection with `answer`; returns its address.
fn serve(answer: impl Fn(&str, &mut TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let request = receive(&stream);
            answer(&request, &mut stream);
        }
    });
    address
}

/// Head and body of a request.
fn receive(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let (mut text, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
            break;
        }
        if let Some(n) = line.to_lowercase().strip_prefix("content-length:") {
            length = n.trim().parse().unwrap();
        }
        text += &line;
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    text + "\n" + &String::from_utf8(body).unwrap()
}

fn reply(stream: &mut TcpStream, status: &str, headers: &str, body: &str) {
    let length = body.len();
    let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{headers}\r\n{body}");
}

fn echo() -> String {
    serve(|request, stream| reply(stream, "200 OK", "", request))
}

fn bench() -> Bench {
    Bench::new(
        r#"{"text":{"type":"string"},"n":{"type":"integer","default":0},"who":{"type":"string","default":"me"}}"#,
    )
}

fn ask(bench: &Bench, toml: &str, arguments: &str) -> Done {
    let http = bench.check(toml, Http::check).unwrap();
    let arguments = bench.schema.read(arguments).unwrap();
    match http.prepare(&arguments) {
        Ok(ask) => bench.run(&ask),
        Err(why) => Done::failed(why),
    }
}

#[test]
fn arguments_are_encoded_for_where_they_stand() {
    let at = echo();
    let mut bench = bench();
    bench.capture = 2000;
    std::fs::write(bench.folder.path().join("key"), "very-secret").unwrap();
    let toml = format!(
        "method = \"post\"\nurl = \"http://{at}/v1/{{who}}/x?fixed=1\"\nallow_private = true\n\
         query = {{ q = \"{{text}}\" }}\nheaders = {{ Authorization = \"Bearer ${{file:key}}\" }}\n\
         json = {{ n = \"{{n}}\", say = \"<{{text}}>\", deep = [\"{{text}}\"] }}"
    );
    let done = ask(&bench, &toml, r#"{"who":"a/../b?c","text":"x&y=\" ü","n":3}"#);
    assert!(done.ok, "{done:?}");
    let head = done.content.to_lowercase();
    assert!(
        head.starts_with("post /v1/a%2f..%2fb%3fc/x?fixed=1&q=x%26y%3d%22%20%c3%bc http/1.1\r\n"),
        "{head}"
    );
    assert!(
        head.contains("authorization: bearer very-secret") && head.contains("content-type: application/json")
    );
    assert!(done.content.ends_with(r#"{"n":3,"say":"<x&y=\" ü>","deep":["x&y=\" ü"]}"#), "{}", done.content);
    // What is absent is left out.
    let done = ask(&bench, &toml, "{}");
    assert!(
        done.content.starts_with("POST /v1/me/x?fixed=1 HTTP/1.1\r\n")
            && done.content.ends_with(r#"{"n":0,"deep":[]}"#)
    );
    let done = ask(&bench, &toml, r#"{"who":".."}"#);
    assert!(!done.ok && done.content.contains("\"..\""), "{done:?}");
    let form = format!(
        "method = \"POST\"\nurl = \"http://{at}\"\nallow_private = true\nform = {{ a = \"{{text}}\" }}"
    );
    assert!(ask(&bench, &form, r#"{"text":"1&b=2"}"#).content.ends_with("\na=1%26b%3D2"));
    let header = format!("url = \"http://{at}\"\nallow_private = true\nheaders = {{ X-A = \"{{text}}\" }}");
    let done = ask(&bench, &header, r#"{"text":"1\r\nX-B: 2"}"#);
    assert!(!done.ok && done.content.contains("control"), "{done:?}");
}

#[test]
fn addresses_that_are_not_for_tools_are_refused() {
    let at = echo();
    let bench = bench();
    let done = ask(&bench, &format!("url = \"http://{at}\""), "{}");
    assert!(!done.ok && done.content.contains("allow_private"), "{done:?}");
    for host in ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "0.0.0.0", "224.0.0.1"] {
        let done =
            ask(&bench, &format!("url = \"http://{host}/latest/meta-data\"\nallow_private = true"), "{}");
        assert!(!done.ok && done.content.starts_with("refused: "), "{host}: {done:?}");
    }
}

#[test]
fn redirects_stay_on_the_host_and_are_counted() {
    let other = echo();
    let at = serve(move |request, stream| {
        let to = match request.split(' ').nth(1).unwrap() {
            "/here" => "/there".to_owned(),
            "/loop" => "/loop".to_owned(),
            "/meta" => "http://169.254.169.254/".to_owned(),
            "/other" => format!("http://{other}/"),
            "/slashes" => format!("//{other}/"),
            _ => return reply(stream, "200 OK", "", "arrived"),
        };
        reply(stream, "302 Found", &format!("Location: {to}\r\n"), "");
    });
    let bench = bench();
    let go = |path: &str, redirects: u32| {
        ask(
            &bench,
            &format!("url = \"http://{at}{path}\"\nallow_private = true\nredirects = {redirects}"),
            "{}",
        )
    };
    assert_eq!(go("/here", 1), Done::ok("arrived"));
    assert!(go("/here", 0).content.contains("does not follow"));
    assert_eq!(go("/loop", 3), Done::failed("more than 3 redirects"));
    for path in ["/meta", "/other", "/slashes"] {
        assert!(go(path, 3).content.contains("another host"), "{path}");
    }
}

#[test]
fn servers_that_misbehave_cost_little() {
    let mut bench = bench();
    bench.timeout = Duration::from_millis(400);
    let ask = |at: &str| {
        let started = Instant::now();
        let done = ask(&bench, &format!("url = \"http://{at}\"\nallow_private = true"), "{}");
        assert!(started.elapsed() < Duration::from_secs(8), "{done:?}");
        done
    };
    // Silence, and a drop every now and then.
    let silent = serve(|_, _| std::thread::sleep(Duration::from_secs(60)));
    assert_eq!(ask(&silent), Done::failed("no full answer within 0.4 s"));
    let slow = serve(|_, stream| {
        let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
        while write!(stream, "x").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    assert_eq!(ask(&slow), Done::failed("no full answer within 0.4 s"));
    // Without end, in the body and in the head.
    let endless = serve(|_, stream| {
        let _ = write!(stream, "HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    });
    let done = ask(&endless);
    assert!(done.ok && done.content.len() == 1000 && done.dropped > 0, "{done:?}");
    let headers = serve(|_, stream| {
        let _ = write!(stream, "HTTP/1.1 200 OK\r\n");
        while write!(stream, "X-Y: {}\r\n", "z".repeat(999)).is_ok() {}
    });
    assert!(!ask(&headers).ok);
    let gone = serve(|_, _| {});
    assert!(ask(&gone).content.starts_with("the request failed"));
    let rubbish = serve(|_, stream| drop(stream.write_all(b"\xff\xfe\x00 nonsense\r\n\r\n")));
    assert!(!ask(&rubbish).ok);
    let error = serve(|_, stream| reply(stream, "404 Not Found", "", "no such lamp"));
    assert_eq!(ask(&error), Done::failed("404 Not Found\nno such lamp"));
    let binary =
        serve(|_, stream| drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na\xffb")));
    assert_eq!(ask(&binary), Done::ok("a\u{fffd}b"));
    // Nobody there.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(ask(&port.to_string()).content.starts_with("the request failed"));
}

#[test]
fn mistakes_are_refused() {
    let bench = bench();
    for (toml, says) in [
        ("url = \"ftp://x/\"", "https://"),
        ("url = \"http://{text}/\"", "written out"),
        ("url = \"http://a@b/\"", "written out"),
        ("url = \"http://h/{text}\"", "may be absent"),
        ("url = \"http://h/\"\nbody = \"x\"", "has no body"),
        ("url = \"http://h/\"\nmethod = \"CONNECT\"", "one of GET"),
        ("url = \"http://h/\"\nheaders = { Host = \"x\" }", "cannot be set"),
        ("url = \"http://h/\"\nredirects = 50", "at most 5"),
        ("url = \"http://h/\"\nmethod = \"POST\"\nbody = \"x\"\njson = {}", "exclude"),
        ("url = \"http://h/\"\nca_file = \"none.pem\"", "cannot read"),
        ("url = \"http://h/\"\nfollow = true", "unknown field `follow`"),
    ] {
        let error = bench.check(toml, Http::check).unwrap_err();
        assert!(error.contains(says), "{toml}: {error}");
    }
}
