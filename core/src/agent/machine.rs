//! The loop: what is to be done next, and what came of it.

use core::fmt::Write;

use super::arguments::Arguments;
use super::cut::{Capped, Cut};
use super::doors::{AgentError, Bounds, CallView, Door, End, Outcome, Step};
use super::log::{CallId, Log, LogFull, short};
use super::slot::{Bar, MOST_CALLS, Say, Slot, Stand};
use crate::Name;
use crate::chat::{ToolSpec, Turn};
use crate::json::NotJson;

/// Room kept for a result from the moment on that its call is known; what is
/// said of a call that is not run always fits.
const RESULT_ROOM: usize = 160;

/// What stands for the answer of a request that ended without one: most
/// templates want the sides to alternate.
const NO_ANSWER: &str = "(no answer)";

/// Where no turn is.
const NOWHERE: usize = usize::MAX;

/// A conversation with a model that may call tools; see [the module](super).
#[derive(Debug)]
pub struct Agent<'a> {
    log: Log<'a>,
    tools: &'a [ToolSpec<'a>],
    bounds: Bounds,
    step: Step,
    steps: u16,
    /// Where in the log the answer at hand begins.
    answer: usize,
    slots: [Slot; MOST_CALLS + 1],
    calls: usize,
    ignored: u32,
    last: u64,
    repeats: u16,
    forgotten: u32,
}

impl<'a> Agent<'a> {
    /// An agent that goes on with the conversation in `log` and may call `tools`.
    /// Bounds out of range are taken as the nearest in range.
    pub fn new(log: Log<'a>, tools: &'a [ToolSpec<'a>], bounds: Bounds) -> Self {
        let bounds = Bounds {
            steps: bounds.steps.max(1),
            calls: bounds.calls.clamp(1, MOST_CALLS as u8),
            repeats: bounds.repeats.max(1),
            ..bounds
        };
        let slots = [Slot::NONE; MOST_CALLS + 1];
        Self {
            log,
            tools,
            bounds,
            step: Step::Idle,
            steps: 0,
            answer: 0,
            slots,
            calls: 0,
            ignored: 0,
            last: 0,
            repeats: 0,
            forgotten: 0,
        }
    }

    /// The conversation as it stands.
    pub fn log(&self) -> &Log<'a> {
        &self.log
    }

    /// The tools.
    pub fn tools(&self) -> &'a [ToolSpec<'a>] {
        self.tools
    }

    /// The conversation, to change it while no request is under way.
    pub fn edit(&mut self) -> Result<&mut Log<'a>, AgentError> {
        self.free(Door::Edit)?;
        self.answer = NOWHERE;
        Ok(&mut self.log)
    }

    /// What the model said last in this request; empty where it said nothing.
    /// Whole once the request is over.
    pub fn answer(&self) -> &str {
        self.log.text(self.answer)
    }

    /// How many answers of this request called tools.
    pub fn steps(&self) -> u16 {
        self.steps
    }

    /// How many calls of this request were passed over: beyond the first one
    /// too many of an answer, or where no tools were shown.
    pub fn ignored(&self) -> u32 {
        self.ignored
    }

    /// How many exchanges were forgotten for want of room.
    pub fn forgotten(&self) -> u32 {
        self.forgotten
    }

    /// Begins a request. Where the question does not fit, old exchanges are
    /// forgotten; errs where that is not enough, without forgetting any.
    pub fn ask(&mut self, text: &str) -> Result<(), AgentError> {
        self.free(Door::Ask)?;
        let need = Log::turn_bytes(text.len()).saturating_add(Log::turn_bytes(NO_ANSWER.len()));
        let have = self.log.most_free();
        if need > have {
            return Err(AgentError::Full(LogFull { need, have }));
        }
        self.answer = NOWHERE;
        while need > self.log.free() {
            self.forgotten = self.forgotten.saturating_add(1);
            if self.log.forget() == 0 {
                self.log.clear();
            }
        }
        self.log.push(Turn::User(text)).map_err(AgentError::Full)?;
        self.begin();
        Ok(())
    }

    /// Begins a request whose question, or results, are in the log already.
    pub fn resume(&mut self) -> Result<(), AgentError> {
        self.free(Door::Ask)?;
        self.begin();
        Ok(())
    }

    /// What is to be done next. Changes nothing.
    pub fn step(&self) -> Step {
        self.step
    }

    /// Takes note of text of the answer, all of it or the next piece.
    pub fn said(&mut self, text: &str) -> Result<(), AgentError> {
        self.thinking(Door::Said)?;
        if text.is_empty() {
            return Ok(());
        }
        let done =
            self.make_room(Log::turn_bytes(text.len())).and_then(|()| self.log.add_text(self.answer, text));
        done.map_err(|full| self.overflow(full))
    }

    /// Takes note of a call in the answer. It is run after the answer's end, if
    /// at all.
    pub fn called(&mut self, name: &str, arguments: &str) -> Result<(), AgentError> {
        let tools = self.thinking(Door::Called)?;
        if !tools || self.calls > usize::from(self.bounds.calls) {
            self.ignored = self.ignored.saturating_add(1);
            return Ok(());
        }
        let tool = self.tools.iter().position(|t| t.name == name).unwrap_or(self.tools.len());
        let name = self.tools.get(tool).map_or(short(name), |t| t.name);
        let (arguments, broken) = match Arguments::read(arguments) {
            Ok(read) => (read.as_str(), None),
            Err(e) => ("{}", Some(e)),
        };
        let stand = self.bar(tool, name, arguments, broken).map_or(Stand::Due, Stand::Barred);
        let call = Log::turn_bytes(CallId::LEN).saturating_add(name.len()).saturating_add(arguments.len());
        let done = self
            .make_room(call.saturating_add(result_room(name.len().max(Name::MAX))))
            .and_then(|()| self.log.push_call(name, arguments));
        let id = done.map_err(|full| self.overflow(full))?;
        // There are as many slots as calls get here.
        if let Some(slot) = self.slots.get_mut(self.calls) {
            *slot = Slot { id, tool, stand };
            self.calls += 1;
        }
        Ok(())
    }

    /// Takes note that the answer has ended.
    pub fn answered(&mut self, end: End) -> Result<(), AgentError> {
        self.thinking(Door::Answered)?;
        if end == End::Stopped {
            self.stop();
            return Ok(());
        }
        if self.calls == 0 {
            let silent = self.answer().trim().is_empty();
            self.finish(match end {
                _ if silent && self.steps >= self.bounds.steps => Outcome::Exhausted,
                End::Natural if silent => Outcome::Silent,
                End::Natural => Outcome::Answered,
                _ => Outcome::Cut,
            });
            return Ok(());
        }
        self.steps += 1;
        if end == End::Cut
            && let Some(Slot { stand: Stand::Barred(bar @ Bar::Broken(_)), .. }) =
                self.slots[..self.calls].last_mut()
        {
            *bar = Bar::Cut;
        }
        self.step = Step::Calls;
        self.say_bars();
        self.go_on();
        Ok(())
    }

    /// The next call to run. Each is handed out once; all may be under way at
    /// the same time.
    pub fn next_call(&mut self) -> Option<CallView<'_>> {
        if self.step != Step::Calls {
            return None;
        }
        let slot = self.slots[..self.calls].iter_mut().find(|s| s.stand == Stand::Due)?;
        slot.stand = Stand::Out;
        let (id, tool) = (slot.id, slot.tool);
        Some(CallView { id, tool, call: self.log.call(self.answer, id)? })
    }

    /// Takes note of what came of a call: its output where `ok`, else what went
    /// wrong, which includes that it was not allowed to run. Results may come in
    /// any order, also for calls not handed out.
    pub fn result(&mut self, id: &str, ok: bool, content: &str) -> Result<(), AgentError> {
        if self.step != Step::Calls {
            return Err(AgentError::Order { door: Door::Result, due: self.step });
        }
        let at = self.slots[..self.calls].iter().position(|s| s.id.as_str() == id);
        let at = at.ok_or(AgentError::NoCall(Name::new(id)))?;
        if !self.slots[at].is_open() {
            return Err(AgentError::Twice(Name::new(id)));
        }
        self.put(at, ok, content);
        self.go_on();
        Ok(())
    }

    /// Ends the request, if one is under way: calls without result get one that
    /// says so, and what came of the answer stays.
    pub fn stop(&mut self) {
        self.end(Outcome::Stopped);
    }

    /// Ends the request because the model cannot read a conversation as long;
    /// see [`Agent::shorten`].
    pub fn give_up(&mut self) {
        self.end(Outcome::TooLong);
    }

    /// Makes the conversation shorter where it is longer than the model can
    /// read: forgets the oldest exchange, or where only the current one is left,
    /// cuts the longest result by half. Returns whether it could.
    pub fn shorten(&mut self) -> bool {
        let freed = self.log.forget();
        if freed > 0 {
            self.forgotten = self.forgotten.saturating_add(1);
        }
        // While an answer comes in, what follows its start must not move.
        let cut = if freed == 0 && self.answer == self.log.used() { self.log.halve_longest() } else { 0 };
        if self.answer != NOWHERE {
            self.answer = self.answer.saturating_sub(freed + cut);
        }
        freed + cut > 0
    }

    fn free(&self, door: Door) -> Result<(), AgentError> {
        match self.step {
            Step::Idle | Step::Done(_) => Ok(()),
            due => Err(AgentError::Order { door, due }),
        }
    }

    /// Whether the answer at hand may call tools.
    fn thinking(&self, door: Door) -> Result<bool, AgentError> {
        match self.step {
            Step::Think { tools } => Ok(tools),
            due => Err(AgentError::Order { door, due }),
        }
    }

    fn begin(&mut self) {
        (self.steps, self.ignored, self.repeats, self.last) = (0, 0, 0, 0);
        self.think();
    }

    fn think(&mut self) {
        (self.calls, self.answer) = (0, self.log.used());
        let tools = self.steps < self.bounds.steps && !self.tools.is_empty();
        self.step = Step::Think { tools };
    }

    /// Thinks on once every call has its result.
    fn go_on(&mut self) {
        if self.step == Step::Calls && !self.slots[..self.calls].iter().any(Slot::is_open) {
            self.think();
        }
    }

    /// Why a call is not to be run.
    fn bar(&mut self, tool: usize, name: &str, arguments: &str, broken: Option<NotJson>) -> Option<Bar> {
        let hash = hash(name, arguments);
        self.repeats = if self.repeats > 0 && hash == self.last { self.repeats.saturating_add(1) } else { 1 };
        self.last = hash;
        if self.calls == usize::from(self.bounds.calls) {
            return Some(Bar::TooMany(self.bounds.calls));
        }
        if tool == self.tools.len() {
            return Some(Bar::Unknown(Name::new(name)));
        }
        let repeated = (self.repeats > self.bounds.repeats).then_some(Bar::Repeated(self.repeats));
        broken.map(Bar::Broken).or(repeated)
    }

    /// Bytes spoken for: results of open calls, and a last word.
    fn owed(&self) -> usize {
        let open = self.slots[..self.calls].iter().filter(|s| s.is_open());
        open.fold(Log::turn_bytes(NO_ANSWER.len()), |sum, s| {
            let name = self.tools.get(s.tool).map_or(Name::MAX, |t| t.name.len());
            sum.saturating_add(result_room(name))
        })
    }

    /// Forgets old exchanges until `need` bytes are free besides those owed.
    fn make_room(&mut self, need: usize) -> Result<(), LogFull> {
        let need = need.saturating_add(self.owed());
        while need > self.log.free() {
            let freed = self.log.forget();
            if freed == 0 {
                return Err(LogFull { need, have: self.log.free() });
            }
            self.answer = self.answer.saturating_sub(freed);
            self.forgotten = self.forgotten.saturating_add(1);
        }
        Ok(())
    }

    /// Puts the result of slot `at` into the log, before those of later calls.
    fn put(&mut self, at: usize, ok: bool, content: &str) {
        let sign = if ok { "" } else { "error: " };
        let Slot { id, tool, .. } = self.slots[at];
        // Names of tools that there are not are short: they were cut.
        let unknown = Name::new(self.log.call(self.answer, id).map_or("", |c| c.name));
        let name = self.tools.get(tool).map_or(unknown.as_str(), |t| t.name);
        self.slots[at].stand = Stand::Answered;
        let most = self.bounds.result.max(RESULT_ROOM) - sign.len();
        let turn = Log::turn_bytes(CallId::LEN + name.len() + sign.len());
        // Where even forgetting makes no room, what is owed is there.
        let _ = self.make_room(turn.saturating_add(content.len().min(most)));
        let room = self.log.free().saturating_sub(self.owed()).saturating_sub(turn);
        let cut = Cut::new(content, most.min(room));
        let later = self.slots[at + 1..self.calls].iter().map(|s| s.id.as_str());
        let done = self.log.put_result(self.answer, id.as_str(), name, &[sign, cut.kept, cut.note()], later);
        if let Err(full) = done {
            self.overflow(full);
        }
    }

    /// Gives barred calls their results.
    fn say_bars(&mut self) {
        for at in 0..self.calls {
            if let Stand::Barred(bar) = self.slots[at].stand {
                self.put_bar(at, bar);
            }
        }
    }

    fn put_bar(&mut self, at: usize, bar: Bar) {
        let mut text = [0; 512];
        let mut page = Capped::new(&mut text);
        // Never fails: what does not fit is cut.
        let _ = write!(page, "{}", Say(bar, self.tools));
        self.put(at, false, page.finish());
    }

    /// Ends the request where it stands.
    fn end(&mut self, outcome: Outcome) {
        if !matches!(self.step, Step::Think { .. } | Step::Calls) {
            return;
        }
        for at in 0..self.calls {
            match self.slots[at].stand {
                Stand::Due | Stand::Out => self.put_bar(at, Bar::Stopped),
                Stand::Barred(bar) => self.put_bar(at, bar),
                Stand::Answered => {}
            }
        }
        self.finish(outcome);
    }

    /// Drops the answer at hand, which does not fit, and ends the request.
    fn overflow(&mut self, full: LogFull) -> AgentError {
        self.log.truncate(self.answer);
        self.calls = 0;
        self.finish(Outcome::Full(full));
        AgentError::Full(full)
    }

    fn finish(&mut self, outcome: Outcome) {
        self.step = Step::Done(outcome);
        self.calls = 0;
        if self.answer().is_empty() {
            self.answer = NOWHERE;
        }
        if !matches!(self.log.last(), Some(Turn::Assistant(_))) {
            // Room for it was owed; a log given without is left as it is.
            let _ = self.log.push(Turn::Assistant(NO_ANSWER));
        }
    }
}

/// Bytes kept for the result of a call of a tool whose name has `name` bytes.
fn result_room(name: usize) -> usize {
    Log::turn_bytes(CallId::LEN + RESULT_ROOM).saturating_add(name)
}

/// Tells calls apart (FNV-1a).
fn hash(name: &str, arguments: &str) -> u64 {
    let bytes = name.bytes().chain([0xff]).chain(arguments.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, b| (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}
