//! Where requests come from: lines, messages, the clock.
//!
//! Threads collect, [`Inputs::next`] hands out one at a time, whoever came first
//! within each kind and the kinds in turn. Lines wait for their turn where they
//! are; messages wait in a queue as long as the file allows, and those that find
//! it full are dropped, the newest first, with a notice. A request by the clock
//! that comes due while another is answered comes once, not once for each time
//! missed.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::audit::head;
use crate::config::{self, Config, Interval};
use crate::link::{Incoming, Link, Notice};
use crate::secret::Redactor;
use crate::value::Value;

/// Most bytes of a request.
pub const MOST_TEXT: usize = 64 << 10;

/// Something to be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Names it: a number, or what the sender chose.
    pub id: String,
    /// What is asked.
    pub text: String,
    /// Where the answer goes.
    pub reply: ReplyTo,
}

/// Where an answer goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyTo {
    /// To the output, as a line.
    Output,
    /// To the broker, on a topic.
    Topic(String),
    /// The sender wants none.
    Nowhere,
}

/// What [`Inputs::next`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// A request.
    Request(Request),
    /// Nothing in the time given.
    Nothing,
    /// There will be no more: the lines have ended, and there is no other input.
    End,
}

/// All inputs.
pub struct Inputs {
    shared: Arc<Shared>,
    link: Option<Arc<Link>>,
    output: Mutex<Box<dyn Write + Send>>,
    clock: Vec<(Interval, Instant)>,
    reply_topic: Option<String>,
    qos: u8,
    reply_bytes: usize,
    redactor: Redactor,
    numbers: u64,
    /// Lines are next in turn.
    lines_turn: bool,
    listens: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    messages: VecDeque<Incoming>,
    /// At most one, so that the rest waits where it comes from.
    line: Option<String>,
    more_lines: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inputs {
    /// Starts to collect: lines from `lines`, if given, and what `config` names.
    /// `link` is the toolbox's. Answers to lines, and to requests by the clock
    /// that name no topic, are written to `output`.
    pub fn start(
        config: &Config,
        link: Option<Arc<Link>>,
        lines: Option<Box<dyn Read + Send>>,
        output: Box<dyn Write + Send>,
        notice: &Notice,
    ) -> Result<Self, String> {
        let state = State { messages: VecDeque::new(), line: None, more_lines: lines.is_some() };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        if let Some(lines) = lines {
            let (theirs, notice) = (Arc::clone(&shared), Arc::clone(notice));
            let thread = std::thread::Builder::new().name("lines".into());
            let read = thread.spawn(move || collect(BufReader::new(lines), &theirs, &notice));
            read.map_err(|e| format!("no thread to read lines: {e}"))?;
        }
        let mqtt = config.mqtt.as_ref();
        let listens = mqtt.is_some_and(|m| !m.broker.subscribe.is_empty()) && link.is_some();
        if let (Some(link), Some(mqtt)) = (&link, mqtt.filter(|_| listens)) {
            let (theirs, most) = (Arc::clone(&shared), mqtt.broker.queue);
            link.listen(Box::new(move |message| {
                let mut state = theirs.state();
                let fits = state.messages.len() < most;
                if fits {
                    state.messages.push_back(message);
                    theirs.changed.notify_all();
                }
                fits
            }));
        }
        let now = Instant::now();
        Ok(Self {
            shared,
            link,
            output: Mutex::new(output),
            clock: config.intervals.iter().map(|i| (i.clone(), now + i.every)).collect(),
            reply_topic: mqtt.and_then(|m| m.reply_topic.clone()),
            qos: mqtt.map_or(0, |m| m.broker.qos),
            reply_bytes: config.agent.reply_bytes,
            redactor: config.redactor.clone(),
            numbers: 0,
            lines_turn: true,
            listens,
        })
    }

    /// The next request; waits for one at most `within`.
    pub fn next(&mut self, within: Duration) -> Next {
        let until = Instant::now().checked_add(within);
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state();
        loop {
            if let Some(request) = self.due(Instant::now()).or_else(|| self.take(&mut state)) {
                shared.changed.notify_all();
                return Next::Request(request);
            }
            if !state.more_lines && !self.listens && self.clock.is_empty() {
                return Next::End;
            }
            let now = Instant::now();
            let wake = self.clock.iter().map(|(_, due)| *due).chain(until).min();
            if until.is_some_and(|u| now >= u) {
                return Next::Nothing;
            }
            let wait = wake.map_or(Duration::from_secs(3600), |w| w.saturating_duration_since(now));
            state = shared.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn number(&mut self) -> String {
        self.numbers += 1;
        self.numbers.to_string()
    }

    /// A request whose time has come.
    fn due(&mut self, now: Instant) -> Option<Request> {
        let (interval, due) = self.clock.iter_mut().find(|(_, due)| *due <= now)?;
        *due += interval.every;
        if *due <= now {
            *due = now + interval.every;
        }
        let (text, topic) = (interval.prompt.clone(), interval.reply_topic.clone());
        let id = self.number();
        let reply = topic.map_or(ReplyTo::Output, |t| ReplyTo::Topic(config::reply_topic(&t, &id, "clock")));
        Some(Request { id, text, reply })
    }

    fn take(&mut self, state: &mut State) -> Option<Request> {
        let lines = self.lines_turn || state.messages.is_empty();
        if lines && let Some(text) = state.line.take() {
            self.lines_turn = false;
            return Some(Request { id: self.number(), text, reply: ReplyTo::Output });
        }
        let message = state.messages.pop_front()?;
        self.lines_turn = true;
        Some(self.read(&message))
    }

    /// A message is the text itself, or `{"id":…,"text":…}`.
    fn read(&mut self, message: &Incoming) -> Request {
        let payload = String::from_utf8_lossy(&message.payload);
        let payload = head(&payload, MOST_TEXT);
        let parsed = Value::parse(payload).ok();
        let member = |key: &str| parsed.as_ref().and_then(|v| v.get(key)?.as_str());
        let plain = |id: &&str| {
            (1..=64).contains(&id.len())
                && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        };
        let number = self.number();
        let id = member("id").filter(plain).map_or(number, String::from);
        let text = member("text").unwrap_or(payload).to_owned();
        let reply = match &self.reply_topic {
            Some(template) => ReplyTo::Topic(config::reply_topic(template, &id, &message.topic)),
            None => ReplyTo::Nowhere,
        };
        Request { id, text, reply }
    }

    /// Sends an answer where its request wants it, cut to the file's limit. To a
    /// broker that is away it goes later. Errs where it cannot be kept.
    pub fn reply(&self, request: &Request, text: &str) -> Result<(), String> {
        let text = self.redactor.mask(text);
        let text = head(&text, self.reply_bytes);
        match &request.reply {
            ReplyTo::Nowhere => Ok(()),
            ReplyTo::Output => {
                let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
                writeln!(output, "{text}")
                    .and_then(|()| output.flush())
                    .map_err(|e| format!("the output: {e}"))
            }
            ReplyTo::Topic(topic) => {
                let Some(link) = &self.link else { return Err("there is no broker to reply to".into()) };
                if link.is_ours(topic) {
                    return Err(format!("{topic}: the reply would come back as a request"));
                }
                link.post(topic, text.as_bytes(), self.qos).map_err(|e| format!("the reply is lost: {e}"))
            }
        }
    }
}

impl std::fmt::Debug for Inputs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "inputs, {} of them by the clock", self.clock.len())
    }
}

/// Hands lines on one by one.
fn collect(mut from: impl BufRead, shared: &Shared, notice: &Notice) {
    loop {
        let line = match line(&mut from) {
            Ok(Some((line, cut))) => {
                if cut {
                    notice(&format!("a line of more than {MOST_TEXT} bytes is cut"));
                }
                line
            }
            Ok(None) => break,
            Err(e) => {
                notice(&format!("lines cannot be read any more: {e}"));
                break;
            }
        };
        let text = String::from_utf8_lossy(&line);
        if text.trim().is_empty() {
            continue;
        }
        let mut state = shared
            .changed
            .wait_while(shared.state(), |s| s.line.is_some())
            .unwrap_or_else(PoisonError::into_inner);
        state.line = Some(text.trim().to_owned());
        shared.changed.notify_all();
    }
    shared.state().more_lines = false;
    shared.changed.notify_all();
}

/// A line of at most [`MOST_TEXT`] bytes, and whether it was longer; `None` at
/// the end.
fn line(from: &mut impl BufRead) -> std::io::Result<Option<(Vec<u8>, bool)>> {
    let (mut line, mut cut, mut any) = (Vec::new(), false, false);
    loop {
        let buffer = match from.fill_buf() {
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        if buffer.is_empty() {
            return Ok(any.then_some((line, cut)));
        }
        any = true;
        let end = buffer.iter().position(|&b| b == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        let room = MOST_TEXT - line.len();
        line.extend_from_slice(&part[..part.len().min(room)]);
        cut |= part.len() > room;
        let used = end.map_or(buffer.len(), |e| e + 1);
        from.consume(used);
        if end.is_some() {
            return Ok(Some((line, cut)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// An output that can be looked at.
    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<u8>>>);

    impl Write for Seen {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn inputs(toml: &str, lines: Option<&'static [u8]>) -> (Inputs, Seen) {
        let config = Config::parse(Path::new("/x/tools.toml"), toml).unwrap();
        let seen = Seen::default();
        let lines = lines.map(|l| Box::new(l) as Box<dyn Read + Send>);
        let notice: Notice = Arc::new(|_| {});
        (Inputs::start(&config, None, lines, Box::new(seen.clone()), &notice).unwrap(), seen)
    }

    fn text(next: Next) -> String {
        match next {
            Next::Request(request) => request.text,
            other => format!("{other:?}"),
        }
    }

    const SOON: Duration = Duration::from_secs(20);

    #[test]
    fn lines_come_one_by_one_and_are_answered() {
        let (mut inputs, seen) = inputs("[agent]\nreply_bytes = 64", Some(b"one\n\n  \r\ntwo \xff\nlast"));
        let Next::Request(one) = inputs.next(SOON) else { panic!("no request") };
        assert_eq!((one.id.as_str(), one.text.as_str(), &one.reply), ("1", "one", &ReplyTo::Output));
        inputs.reply(&one, &format!("an answer {}", "x".repeat(99))).unwrap();
        assert_eq!(seen.0.lock().unwrap().len(), 65);
        assert_eq!(text(inputs.next(SOON)), "two \u{fffd}");
        assert_eq!(text(inputs.next(SOON)), "last");
        assert_eq!(inputs.next(SOON), Next::End);
    }

    #[test]
    fn long_lines_are_cut_and_the_next_is_whole() {
        let mut bytes = vec![b'x'; 3 * MOST_TEXT];
        bytes.extend_from_slice(b"\nnext\n");
        let (mut inputs, _) = inputs("", Some(bytes.leak()));
        assert_eq!(text(inputs.next(SOON)).len(), MOST_TEXT);
        assert_eq!(text(inputs.next(SOON)), "next");
    }

    #[test]
    fn the_clock_asks_once_however_late() {
        let toml = "[[interval]]\nevery = \"1s\"\nprompt = \"tick\"";
        let (mut inputs, _) = inputs(toml, None);
        assert_eq!(inputs.next(Duration::from_millis(10)), Next::Nothing);
        std::thread::sleep(Duration::from_millis(2100));
        assert_eq!(text(inputs.next(Duration::ZERO)), "tick");
        assert_eq!(inputs.next(Duration::ZERO), Next::Nothing, "only once for the time missed");
        assert_eq!(text(inputs.next(SOON)), "tick");
    }

    #[test]
    fn messages_may_name_themselves() {
        let (mut inputs, _) = inputs("[mqtt]\nhost = \"h\"\nreply_topic = \"a/{topic}/{id}\"", None);
        let mut read =
            |payload: &str| inputs.read(&Incoming { topic: "t/u".into(), payload: payload.into() });
        let plain = read("{\"on\"");
        assert_eq!((plain.text.as_str(), &plain.reply), ("{\"on\"", &ReplyTo::Topic("a/t/u/1".into())));
        let named = read(r#"{"id":"x-7","text":"light?"}"#);
        assert_eq!((named.text.as_str(), &named.reply), ("light?", &ReplyTo::Topic("a/t/u/x-7".into())));
        let hostile = read(r##"{"id":"../#","text":"x"}"##);
        assert_eq!(hostile.reply, ReplyTo::Topic("a/t/u/3".into()));
        assert!(inputs.reply(&hostile, "x").unwrap_err().contains("no broker"));
    }
}
