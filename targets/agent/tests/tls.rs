//! TLS to a server and to a broker of our own, with certificates made for it.
#![cfg(feature = "tls")]

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use katydid_agent::config::Config;
use katydid_agent::toolbox::{Approve, At, Options, Outcome, Toolbox};
use katydid_core::chat::Call;

/// A program that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve(command: &mut Command, port: u16) -> Server {
    command.env("PATH", "/usr/local/sbin:/usr/sbin:/usr/bin:/bin");
    let server =
        Server(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let end = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < end, "{command:?} does not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    server
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A certificate for 127.0.0.1 and its key, `NAME.pem` and `NAME.key`.
fn certificate(folder: &Path, name: &str) -> bool {
    let mut command = Command::new("openssl");
    command.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]);
    command.args(["-subj", "/CN=katydid test", "-addext", "subjectAltName=IP:127.0.0.1"]);
    command
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-out"])
        .arg(folder.join(format!("{name}.pem")));
    command.arg("-keyout").arg(folder.join(format!("{name}.key")));
    command.output().is_ok_and(|o| o.status.success())
}

fn call(folder: &Path, toml: &str) -> Outcome {
    let config = Config::parse(&folder.join("tools.toml"), toml).unwrap();
    let toolbox = Toolbox::new(config, &Options { notice: Arc::new(|_| {}), ..Options::default() }).unwrap();
    let call = Call { id: "c", name: "t", arguments: "{}" };
    toolbox.call(At { request: "r", step: 1 }, &call, Approve::Nobody)
}

#[test]
fn certificates_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    if !certificate(dir.path(), "right") || !certificate(dir.path(), "wrong") {
        println!("skipped: openssl absent");
        return;
    }
    let tool = "[[tool]]\nname = \"t\"\ndescription = \"x\"\npolicy = \"auto\"\ntimeout = \"4s\"\n";
    let port = free_port();
    let mut command = Command::new("openssl");
    command.args(["s_server", "-quiet", "-www", "-accept", &port.to_string()]);
    command.arg("-cert").arg(dir.path().join("right.pem")).arg("-key").arg(dir.path().join("right.key"));
    let _server = serve(&mut command, port);
    for (ca, says) in [
        ("ca_file = \"right.pem\"", "HTTP"),
        ("ca_file = \"wrong.pem\"", "request failed"),
        ("", "request failed"),
    ] {
        let http = format!(
            "{tool}max_output = 20000\n[tool.http]\nurl = \"https://127.0.0.1:{port}/\"\nallow_private = true\n{ca}"
        );
        let done = call(dir.path(), &http);
        assert_eq!(done.ok, says == "HTTP", "{ca}: {done:?}");
        assert!(done.ok || done.content.contains(says), "{ca}: {done:?}");
    }
    if !Path::new("/usr/sbin/mosquitto").is_file() {
        println!("skipped: mosquitto absent");
        return;
    }
    let port = free_port();
    let (at, conf) = (dir.path().display(), dir.path().join("mosquitto.conf"));
    let user = if nix::unistd::Uid::effective().is_root() { "user root\n" } else { "" };
    let text = format!(
        "listener {port} 127.0.0.1\nallow_anonymous true\ncertfile {at}/right.pem\nkeyfile {at}/right.key\n{user}"
    );
    std::fs::write(&conf, text).unwrap();
    let _broker = serve(Command::new("mosquitto").arg("-c").arg(&conf), port);
    for (ca, ok) in [("right", true), ("wrong", false)] {
        let mqtt = format!(
            "[mqtt]\nhost = \"127.0.0.1\"\nport = {port}\ntls = true\nca_file = \"{ca}.pem\"\n{tool}mqtt = {{ topic = \"a\", payload = \"b\" }}"
        );
        let done = call(dir.path(), &mqtt);
        assert_eq!(done.ok, ok, "{ca}: {done:?}");
    }
}
