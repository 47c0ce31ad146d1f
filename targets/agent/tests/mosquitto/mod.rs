//! A real broker for tests, of this crate and of the command: mosquitto on
//! loopback, started, stopped and killed.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use rumqttc::{Client, Event, MqttOptions, Packet, QoS};

/// Longer than anything takes that goes well.
pub(crate) const SOON: Duration = Duration::from_secs(50);

/// Waits until `ready` says something.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + SOON;
    loop {
        if let Some(it) = ready() {
            return it;
        }
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A mosquitto of our own.
pub(crate) struct Broker {
    pub(crate) folder: PathBuf,
    pub(crate) port: u16,
    child: Option<Child>,
}

impl Broker {
    /// Starts one with `more` lines in its configuration, unless there is none on
    /// this machine.
    pub(crate) fn start(more: &str) -> Option<Self> {
        let places = ["/usr/sbin", "/usr/bin", "/usr/local/sbin"];
        if !places.iter().any(|d| Path::new(d).join("mosquitto").is_file()) {
            println!("skipped: mosquitto absent");
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("broker_{port}"));
        // What a test of the past left on the same port.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let at = folder.display();
        let user = if Uid::effective().is_root() { "user root\n" } else { "" };
        let config = format!(
            "listener {port} 127.0.0.1\npersistence true\npersistence_location {at}/\n{user}{more}\n"
        );
        std::fs::write(folder.join("mosquitto.conf"), config).unwrap();
        let mut broker = Self { folder, port, child: None };
        broker.restart();
        Some(broker)
    }

    /// Starts it again after its end.
    pub(crate) fn restart(&mut self) {
        let mut command = Command::new("mosquitto");
        command.env("PATH", "/usr/local/sbin:/usr/sbin:/usr/bin:/bin");
        command.arg("-c").arg(self.folder.join("mosquitto.conf"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap());
        until("mosquitto", || TcpStream::connect(("127.0.0.1", self.port)).ok());
    }

    /// Ends it. After SIGTERM it writes down what it keeps.
    pub(crate) fn end(&mut self, signal: Signal) {
        if let Some(mut child) = self.child.take() {
            kill(Pid::from_raw(child.id() as i32), signal).unwrap();
            child.wait().unwrap();
        }
    }

    /// Another client: topic and text of what it is sent are collected, also over
    /// interruptions.
    pub(crate) fn subscriber(&self, filter: &str) -> (Client, Arc<Mutex<Vec<String>>>) {
        let name = format!("test-{}", filter.replace('/', "-"));
        let mut options = MqttOptions::new(name, "127.0.0.1", self.port);
        options.set_clean_session(false).set_keep_alive(Duration::from_secs(5));
        let (client, mut connection) = Client::new(options, 64);
        let (got, filter, again) = (Arc::new(Mutex::new(Vec::new())), filter.to_owned(), client.clone());
        let (ready, wait) = std::sync::mpsc::channel();
        let theirs = Arc::clone(&got);
        std::thread::spawn(move || {
            while let Ok(event) = connection.recv() {
                match event {
                    Ok(Event::Incoming(Packet::ConnAck(_))) => {
                        again.subscribe(&filter, QoS::AtLeastOnce).unwrap();
                    }
                    Ok(Event::Incoming(Packet::SubAck(_))) => drop(ready.send(())),
                    Ok(Event::Incoming(Packet::Publish(p))) => {
                        let text = String::from_utf8_lossy(&p.payload);
                        theirs.lock().unwrap().push(format!("{} {text}", p.topic));
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(50)),
                    _ => {}
                }
            }
        });
        wait.recv_timeout(SOON).unwrap();
        (client, got)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.end(Signal::SIGKILL);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
