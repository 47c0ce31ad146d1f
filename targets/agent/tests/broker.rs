//! Tools and inputs with a real broker: mosquitto on loopback, started, stopped
//! and killed; and with one that breaks off in the middle of a message.

mod mosquitto;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use katydid_agent::config::Config;
use katydid_agent::inputs::{Inputs, Next, Request};
use katydid_agent::toolbox::{Approve, At, Options, Outcome, Toolbox};
use katydid_core::chat::Call;
use mosquitto::{Broker, SOON, until};
use nix::sys::signal::Signal;
use rumqttc::QoS;

struct Bench {
    toolbox: Toolbox,
    told: Arc<Mutex<Vec<String>>>,
}

fn bench(port: u16, mqtt: &str) -> Bench {
    let text = format!(
        r#"
[mqtt]
host = "127.0.0.1"
port = {port}
{mqtt}
[[tool]]
name = "tell"
description = "Tells."
policy = "auto"
timeout = "3s"
parameters = {{ type = "object", properties = {{ to = {{ type = "string" }}, text = {{ type = "string" }} }}, required = ["to", "text"] }}
mqtt = {{ topic = "out/{{to}}", payload = "{{text}}" }}
[[tool]]
name = "time"
builtin = "time"
"#
    );
    let config = Config::parse(Path::new("/nowhere/tools.toml"), &text).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let theirs = Arc::clone(&told);
    let notice = Arc::new(move |n: &str| theirs.lock().unwrap().push(n.to_owned()));
    Bench { toolbox: Toolbox::new(config, &Options { notice, ..Options::default() }).unwrap(), told }
}

impl Bench {
    fn tell(&self, text: &str) -> Outcome {
        let arguments = format!("{{\"to\":\"door\",\"text\":{text:?}}}");
        self.call("tell", &arguments)
    }

    fn call(&self, name: &str, arguments: &str) -> Outcome {
        let at = At { request: "r", step: 1 };
        self.toolbox.call(at, &Call { id: "c", name, arguments }, Approve::Nobody)
    }

    fn inputs(&self) -> Inputs {
        let link = self.toolbox.link().cloned();
        let notice: katydid_agent::link::Notice = Arc::new(|_| {});
        Inputs::start(self.toolbox.config(), link, None, Box::new(std::io::sink()), &notice).unwrap()
    }

    #[track_caller]
    fn was_told(&self, part: &str) {
        until(part, || self.told.lock().unwrap().iter().any(|t| t.contains(part)).then_some(()));
    }
}

fn request(inputs: &mut Inputs) -> Request {
    match inputs.next(SOON) {
        Next::Request(request) => request,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_broker_that_dies_mid_call_comes_back() {
    let Some(mut broker) = Broker::start("allow_anonymous true") else { return };
    let b = bench(broker.port, "");
    let (_client, got) = broker.subscriber("out/#");
    let done = b.tell("one");
    assert!(done.ok && done.content == "published on out/door", "{done:?}");
    until("the message", || (*got.lock().unwrap() == ["out/door one"]).then_some(()));
    broker.end(Signal::SIGKILL);
    // Killed, and back while the call waits.
    let done = std::thread::scope(|scope| {
        let call = scope.spawn(|| b.tell("two"));
        std::thread::sleep(Duration::from_millis(300));
        broker.restart();
        call.join().unwrap()
    });
    assert!(done.ok, "{done:?} {:?}", b.told);
    b.was_told("trying again");
    // Killed, and gone for good.
    let losses = |b: &Bench| b.told.lock().unwrap().iter().filter(|t| t.contains("trying again")).count();
    let before = losses(&b);
    broker.end(Signal::SIGKILL);
    let done = b.tell("just after");
    assert!(!done.ok && done.content.contains("not connected"), "{done:?}");
    until("a notice", || (losses(&b) > before).then_some(()));
    let start = Instant::now();
    let done = b.tell("three");
    assert!(
        !done.ok && done.content.contains("is not connected (") && done.content.contains("not sent"),
        "{done:?}"
    );
    assert!(start.elapsed() < Duration::from_secs(10));
    assert!(b.call("time", "{}").ok, "the agent lives on");
}

#[test]
fn requests_are_answered_across_an_outage() {
    let Some(mut broker) = Broker::start("allow_anonymous true") else { return };
    let b = bench(
        broker.port,
        "subscribe = [\"ask/#\"]\nreply_topic = \"answer/{id}\"\nclient_id = \"agent\"\nkeep_session = true",
    );
    let mut inputs = b.inputs();
    assert!(b.toolbox.link().unwrap().wait_connected(SOON));
    let (client, got) = broker.subscriber("answer/#");
    client.publish("ask/a", QoS::AtLeastOnce, false, "warm?").unwrap();
    let first = request(&mut inputs);
    assert_eq!(first.text, "warm?");
    inputs.reply(&first, "yes").unwrap();
    until("the answer", || (*got.lock().unwrap() == ["answer/1 yes"]).then_some(()));
    client.publish("ask/a", QoS::AtLeastOnce, false, r#"{"id":"x9","text":"wet?"}"#).unwrap();
    let second = request(&mut inputs);
    assert_eq!((second.id.as_str(), second.text.as_str()), ("x9", "wet?"));
    // The broker goes while the answer is thought of, and comes back later.
    broker.end(Signal::SIGTERM);
    b.was_told("trying again");
    inputs.reply(&second, "a bit").unwrap();
    broker.restart();
    until("the late answer", || got.lock().unwrap().iter().any(|g| g == "answer/x9 a bit").then_some(()));
    // And requests come again.
    until("a request", || {
        client.publish("ask/b", QoS::AtLeastOnce, false, "again?").ok()?;
        matches!(inputs.next(Duration::from_millis(300)), Next::Request(r) if r.text == "again?")
            .then_some(())
    });
    assert_eq!(b.toolbox.link().unwrap().flush(SOON), 0);
}

#[test]
fn floods_loops_and_old_messages_are_stopped() {
    let Some(broker) = Broker::start("allow_anonymous true") else { return };
    let (client, _) = broker.subscriber("none");
    client.publish("out/door", QoS::AtLeastOnce, true, "kept from earlier").unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let b = bench(broker.port, "subscribe = [\"out/+\"]\nqueue = 2");
    let mut inputs = b.inputs();
    b.was_told("kept on out/door from earlier is passed over");
    assert!(b.tell("x").content.contains("the agent itself listens on out/door"));
    for i in 0..5 {
        client.publish("out/door", QoS::AtLeastOnce, false, format!("{i}")).unwrap();
    }
    b.was_told("3 in all");
    // The oldest are kept.
    assert_eq!((request(&mut inputs).text, request(&mut inputs).text), ("0".into(), "1".into()));
    assert_eq!(inputs.next(Duration::ZERO), Next::Nothing);
}

#[test]
fn a_wrong_password_is_named_and_not_shown() {
    let Some(mut broker) = Broker::start("") else { return };
    broker.end(Signal::SIGKILL);
    let passwords = broker.folder.join("passwords");
    let made = Command::new("mosquitto_passwd")
        .args(["-b", "-c"])
        .arg(&passwords)
        .args(["me", "right-one"])
        .status();
    assert!(made.unwrap().success());
    let config = broker.folder.join("mosquitto.conf");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{text}allow_anonymous false\npassword_file {}\n", passwords.display()))
        .unwrap();
    broker.restart();
    for (password, says) in [("wrong-one", "refuses our user name or password"), ("right-one", ": connected")]
    {
        let file = broker.folder.join("secret");
        std::fs::write(&file, password).unwrap();
        let b = bench(broker.port, &format!("username = \"me\"\npassword_file = \"{}\"", file.display()));
        b.was_told(says);
        let done = b.tell("x");
        assert_eq!(done.ok, password == "right-one", "{done:?}");
        assert!(!format!("{:?}{done:?}{:?}", b.told, b.toolbox.config()).contains(password));
    }
}

/// One packet of a client: its first byte and the rest.
fn packet(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 2];
    stream.read_exact(&mut head).ok()?;
    let mut body = vec![0; usize::from(head[1])];
    stream.read_exact(&mut body).ok()?;
    Some((head[0], body))
}

/// A broker that deals with the n-th connection's publishes as `answer` says:
/// whether to confirm them.
fn unreliable(answer: impl Fn(usize) -> Option<bool> + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for (n, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            while let Some((kind, body)) = packet(&mut stream) {
                let reply: &[u8] = match kind >> 4 {
                    1 => &[0x20, 2, 0, 0],
                    12 => &[0xd0, 0],
                    3 => match answer(n) {
                        // The packet's number comes after the topic.
                        Some(true) => {
                            &[0x40, 2, body[2 + usize::from(body[1])], body[3 + usize::from(body[1])]]
                        }
                        Some(false) => &[],
                        None => break,
                    },
                    _ => &[],
                };
                stream.write_all(reply).unwrap();
            }
        }
    });
    port
}

#[test]
fn a_message_that_a_loss_interrupts_is_sent_again() {
    // Twice it takes the message and breaks off; then it confirms.
    let b = bench(unreliable(|n| (n >= 2).then_some(true)), "");
    let done = b.tell("hello");
    assert!(done.ok, "{done:?} {:?}", b.told);
    b.was_told("trying again");
    // One that never confirms.
    let b = bench(unreliable(|_| Some(false)), "");
    let done = b.tell("hello");
    assert!(!done.ok && done.content.contains("may or may not have arrived"), "{done:?}");
    assert!(b.call("time", "{}").ok);
    // One that speaks something else.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.unwrap().write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n\xff\xff\xff\xff");
        }
    });
    let b = bench(port, "");
    let done = b.tell("hello");
    assert!(!done.ok && done.content.contains("not connected"), "{done:?}");
}
