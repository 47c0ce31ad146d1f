//! The connection to an MQTT broker that tools and inputs share.
//!
//! A thread keeps it up: it connects, subscribes, and after a loss tries again,
//! ever more slowly. What is to be published waits in a bounded queue and goes
//! out one at a time, so that it is known what the broker has taken. With
//! quality of service 1 a message that a loss interrupts is sent again: it may
//! arrive twice, never not at all, unless its time ran out.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rumqttc::{Client, Connection, ConnectionError, Event, MqttOptions, Outgoing, Packet, QoS};

use crate::secret::Secret;
use crate::topic;

/// Between attempts to connect, at first and at most.
const WAIT: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(30));

/// A broker that does not confirm within this is not waited for.
const CONFIRM: Duration = Duration::from_secs(30);

/// Largest packet read. The connection breaks where one is larger.
const MOST_PACKET: usize = 4 << 20;

/// Largest message sent.
pub const MOST_PAYLOAD: usize = 256 << 10;

/// A broker and what to do with it.
#[derive(Clone, Debug)]
pub struct Broker {
    /// Its name or address.
    pub host: String,
    /// 1883, or 8883 with TLS.
    pub port: u16,
    /// TLS, trusting the certificates of this file only.
    pub ca_file: Option<PathBuf>,
    /// Names us to the broker.
    pub client_id: String,
    /// User and password.
    pub login: Option<(String, Secret)>,
    /// Filters of topics that requests come on.
    pub subscribe: Vec<String>,
    /// Quality of service: 0 or 1.
    pub qos: u8,
    /// Between signs of life.
    pub keep_alive: Duration,
    /// Most messages waiting to be published.
    pub queue: usize,
    /// The broker keeps requests while we are away.
    pub keep_session: bool,
    /// Messages kept by the broker from earlier count as requests.
    pub accept_retained: bool,
}

/// Told of what goes on, in lines for people.
pub type Notice = Arc<dyn Fn(&str) + Send + Sync>;

/// A message that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Incoming {
    pub(crate) topic: String,
    pub(crate) payload: Vec<u8>,
}

/// Takes a message, or answers `false` where there is no room for it.
pub(crate) type Listener = Box<dyn Fn(Incoming) -> bool + Send>;

/// A connection to a broker. Dropping it says good-bye.
pub struct Link {
    shared: Arc<Shared>,
}

struct Shared {
    broker: Broker,
    client: Client,
    notice: Notice,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    connected: bool,
    closed: bool,
    /// Why there is no connection.
    trouble: String,
    outbox: VecDeque<Item>,
    sent: Option<Item>,
    /// What became of items that somebody waits for.
    finished: Vec<(u64, Result<(), String>)>,
    numbers: u64,
    listener: Option<Listener>,
    lost: u64,
}

struct Item {
    number: u64,
    topic: String,
    payload: Vec<u8>,
    qos: u8,
    retain: bool,
    awaited: bool,
    /// When it was given to the connection, and the number it has there.
    at: Instant,
    packet: Option<u16>,
}

impl Link {
    /// Starts to connect. Errs where the TLS files are no good or there is no
    /// thread to be had.
    pub fn start(broker: &Broker, notice: Notice) -> Result<Self, String> {
        let (client, connection) = Client::new(options(broker)?, 64);
        let shared = Arc::new(Shared {
            broker: broker.clone(),
            client,
            notice,
            state: Mutex::new(State { trouble: "not connected yet".into(), ..State::default() }),
            changed: Condvar::new(),
        });
        let theirs = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("mqtt".into())
            .spawn(move || theirs.keep_up(connection))
            .map_err(|e| format!("no thread for the MQTT connection: {e}"))?;
        Ok(Self { shared })
    }

    /// Publishes and waits until the broker has taken the message, at most until
    /// `deadline`.
    pub(crate) fn publish(
        &self,
        topic: &str,
        payload: &[u8],
        qos: u8,
        retain: bool,
        deadline: Instant,
    ) -> Result<(), String> {
        let shared = &*self.shared;
        let mut state = shared.state();
        let number = shared.queue(&mut state, topic, payload, qos, retain, true)?;
        loop {
            if let Some(at) = state.finished.iter().position(|(n, _)| *n == number) {
                return state.finished.swap_remove(at).1;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(shared.give_up(&mut state, number));
            }
            state = shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Publishes when there is a connection. Errs where the queue is full.
    pub(crate) fn post(&self, topic: &str, payload: &[u8], qos: u8) -> Result<(), String> {
        let shared = &*self.shared;
        shared.queue(&mut shared.state(), topic, payload, qos, false, false).map(drop)
    }

    /// Says where messages go that come.
    pub(crate) fn listen(&self, to: Listener) {
        self.shared.state().listener = Some(to);
    }

    /// Waits until all is published; returns how many messages are not.
    pub fn flush(&self, within: Duration) -> usize {
        let deadline = Instant::now() + within;
        let mut state = self.shared.state();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let waiting = state.outbox.len() + usize::from(state.sent.is_some());
            if waiting == 0 || left.is_zero() {
                return waiting;
            }
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for a connection; whether there is one.
    pub fn wait_connected(&self, within: Duration) -> bool {
        let state = self.shared.state();
        let connected = self.shared.changed.wait_timeout_while(state, within, |s| !s.connected);
        connected.unwrap_or_else(PoisonError::into_inner).0.connected
    }

    /// Whether what is published on `topic` would come back as a request.
    pub(crate) fn is_ours(&self, topic: &str) -> bool {
        self.shared.broker.subscribe.iter().any(|filter| topic::covers(filter, topic))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.state().closed = true;
        self.shared.changed.notify_all();
        let _ = self.shared.client.try_disconnect();
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a connection to {}", self.shared.name())
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name(&self) -> String {
        format!("the broker {}:{}", self.broker.host, self.broker.port)
    }

    fn queue(
        &self,
        state: &mut State,
        topic: &str,
        payload: &[u8],
        qos: u8,
        retain: bool,
        awaited: bool,
    ) -> Result<u64, String> {
        if payload.len() > MOST_PAYLOAD {
            return Err(format!(
                "{} bytes are too many for a message: at most {MOST_PAYLOAD}",
                payload.len()
            ));
        }
        topic::check(topic)?;
        if state.outbox.len() >= self.broker.queue {
            return Err(format!(
                "{} messages wait for {} already ({})",
                state.outbox.len(),
                self.name(),
                state.trouble
            ));
        }
        state.numbers += 1;
        state.outbox.push_back(Item {
            number: state.numbers,
            topic: topic.into(),
            payload: payload.into(),
            qos,
            retain,
            awaited,
            at: Instant::now(),
            packet: None,
        });
        self.send_next(state);
        Ok(state.numbers)
    }

    /// Hands the next message to the connection, if nothing is under way.
    fn send_next(&self, state: &mut State) {
        if state.sent.as_ref().is_some_and(|s| s.at.elapsed() > CONFIRM) {
            state.sent = None;
        }
        if !state.connected || state.sent.is_some() {
            return;
        }
        let Some(mut item) = state.outbox.pop_front() else { return };
        item.at = Instant::now();
        item.packet = None;
        let qos = if item.qos == 0 { QoS::AtMostOnce } else { QoS::AtLeastOnce };
        match self.client.try_publish(item.topic.as_str(), qos, item.retain, item.payload.as_slice()) {
            Ok(()) => state.sent = Some(item),
            // Its queue holds more than we ever put there, so this is the
            // connection's end, which is dealt with where it is noticed.
            Err(_) => state.outbox.push_front(item),
        }
    }

    /// Stops waiting for a message; returns what can be said about it.
    fn give_up(&self, state: &mut State, number: u64) -> String {
        let name = self.name();
        let why = if state.connected {
            String::new()
        } else {
            format!(" and is not connected now ({})", state.trouble)
        };
        if let Some(sent) = state.sent.as_mut().filter(|s| s.number == number) {
            sent.awaited = false;
            // One that has left can be told from the next by its number there,
            // and one whose connection is gone is not sent again.
            if sent.packet.is_some() || !state.connected {
                state.sent = None;
                self.send_next(state);
            }
            return format!(
                "{name} did not confirm the message in time{why}: it may or may not have arrived"
            );
        }
        state.outbox.retain(|item| item.number != number);
        if state.connected {
            return format!("{name} is too slow: the message was not sent");
        }
        format!("{name} is not connected ({}): the message was not sent", state.trouble)
    }

    fn keep_up(&self, mut connection: Connection) {
        connection.eventloop.network_options.set_connection_timeout(5);
        let mut wait = WAIT.0;
        loop {
            let why = self.session(&mut connection, &mut wait);
            let mut state = self.state();
            if state.closed {
                return;
            }
            let (first, again) = (!std::mem::replace(&mut state.connected, false), wait);
            if !first || state.trouble != why {
                (self.notice)(&format!("{}: {why}; trying again, first after {again:?}", self.name()));
            }
            state.trouble = why;
            self.changed.notify_all();
            let slept = self.changed.wait_timeout_while(state, again, |s| !s.closed);
            if slept.unwrap_or_else(PoisonError::into_inner).0.closed {
                return;
            }
            wait = (wait * 2).min(WAIT.1);
        }
    }

    /// Connects and stays connected; returns why that ended.
    fn session(&self, connection: &mut Connection, wait: &mut Duration) -> String {
        loop {
            let event = match connection.recv() {
                Ok(Ok(event)) => event,
                Ok(Err(error)) => return explain(&error),
                Err(_) => return "closed".into(),
            };
            match event {
                Event::Incoming(Packet::ConnAck(ack)) => {
                    *wait = WAIT.0;
                    self.greet(ack.session_present);
                }
                Event::Outgoing(Outgoing::Publish(packet)) => self.went(packet),
                Event::Incoming(Packet::PubAck(ack)) => self.confirmed(|item| item.packet == Some(ack.pkid)),
                Event::Incoming(Packet::Publish(publish)) => self.came(&publish),
                Event::Incoming(Packet::SubAck(ack)) => self.subscribed(&ack),
                _ => {}
            }
            let mut state = self.state();
            if state.closed {
                return "closed".into();
            }
            // Signs of life come again and again, so nothing waits for ever
            // behind a message that is never confirmed.
            self.send_next(&mut state);
        }
    }

    fn greet(&self, session_present: bool) {
        let mut state = self.state();
        state.connected = true;
        state.trouble.clear();
        // The connection itself sends again what belongs to a session that
        // lives on, and forgets the rest.
        if !session_present && let Some(item) = state.sent.take() {
            state.outbox.push_front(item);
        }
        let qos = if self.broker.qos == 0 { QoS::AtMostOnce } else { QoS::AtLeastOnce };
        for filter in &self.broker.subscribe {
            let _ = self.client.try_subscribe(filter.as_str(), qos);
        }
        self.send_next(&mut state);
        self.changed.notify_all();
        drop(state);
        (self.notice)(&format!("{}: connected", self.name()));
    }

    fn subscribed(&self, ack: &rumqttc::SubAck) {
        if !ack.return_codes.iter().all(|c| matches!(c, rumqttc::SubscribeReasonCode::Success(_))) {
            (self.notice)(&format!("{} refuses a subscription: may we read these topics?", self.name()));
        }
    }

    /// A message has left. One that asks for no confirmation is done.
    fn went(&self, packet: u16) {
        if packet == 0 {
            return self.confirmed(|item| item.qos == 0);
        }
        if let Some(item) = &mut self.state().sent {
            item.packet.get_or_insert(packet);
        }
    }

    fn confirmed(&self, which: impl Fn(&Item) -> bool) {
        let mut state = self.state();
        let Some(item) = state.sent.take_if(|item| which(item)) else { return };
        if item.awaited {
            state.finished.push((item.number, Ok(())));
        }
        self.send_next(&mut state);
        self.changed.notify_all();
    }

    fn came(&self, publish: &rumqttc::Publish) {
        if publish.retain && !self.broker.accept_retained {
            let topic = publish.topic.escape_default();
            return (self.notice)(&format!(
                "a message that the broker kept on {topic} from earlier is passed over"
            ));
        }
        let mut state = self.state();
        let Some(listener) = &state.listener else { return };
        let incoming = Incoming { topic: publish.topic.clone(), payload: publish.payload.to_vec() };
        if !listener(incoming) {
            state.lost += 1;
            let lost = state.lost;
            drop(state);
            (self.notice)(&format!(
                "requests come faster than they are answered: one is dropped, {lost} in all"
            ));
        }
    }
}

fn options(broker: &Broker) -> Result<MqttOptions, String> {
    let mut options = MqttOptions::new(&broker.client_id, &broker.host, broker.port);
    // Shorter ones are not allowed.
    options.set_keep_alive(broker.keep_alive.max(Duration::from_secs(1)));
    options.set_clean_session(!broker.keep_session);
    options.set_max_packet_size(MOST_PACKET, 2 * MOST_PAYLOAD);
    if let Some((user, password)) = &broker.login {
        options.set_credentials(user, password.reveal());
    }
    if let Some(path) = &broker.ca_file {
        options.set_transport(transport(path)?);
    }
    Ok(options)
}

#[cfg(feature = "tls")]
fn transport(ca_file: &std::path::Path) -> Result<rumqttc::Transport, String> {
    use rustls::pki_types::{CertificateDer, pem::PemObject};
    let show = ca_file.display();
    let mut roots = rustls::RootCertStore::empty();
    let certificates =
        CertificateDer::pem_file_iter(ca_file).map_err(|e| format!("cannot read {show}: {e}"))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|e| format!("{show}: {e}"))?;
        roots.add(certificate).map_err(|e| format!("{show}: {e}"))?;
    }
    if roots.is_empty() {
        return Err(format!("{show} holds no certificate"));
    }
    // Named, so that it does not matter what else the program is built with.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(rumqttc::Transport::tls_with_config(config.into()))
}

#[cfg(not(feature = "tls"))]
fn transport(_: &std::path::Path) -> Result<rumqttc::Transport, String> {
    Err("this program was built without TLS".into())
}

fn explain(error: &ConnectionError) -> String {
    use rumqttc::ConnectReturnCode::{BadUserNamePassword, NotAuthorized};
    match error {
        ConnectionError::ConnectionRefused(BadUserNamePassword | NotAuthorized) => {
            "it refuses our user name or password".into()
        }
        ConnectionError::ConnectionRefused(code) => format!("it refuses the connection ({code:?})"),
        ConnectionError::NetworkTimeout | ConnectionError::FlushTimeout => "it does not answer".into(),
        ConnectionError::Io(e) => e.to_string(),
        ConnectionError::MqttState(rumqttc::StateError::Io(e)) => format!("the connection is gone ({e})"),
        e => e.to_string(),
    }
}
