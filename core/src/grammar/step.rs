//! What one byte does to one way of reading what has come so far.
//!
//! Such a way is a [`Frame`]: where it stands in one node, and by `parent`
//! where each node around it goes on. Frames in the pool never change, so ways
//! that have begun alike share them.

use super::program::{INSIDE, Kind, Member, NONE, Node, Spacing, Span};
use super::text::{self, BODY, Step};
use super::{Grammar, Wrapped};

/// Nodes that no table has: the end, free text around the grammar, and the
/// value that the grammar is about.
pub(super) const DONE: u16 = NONE;
pub(super) const FREE: u16 = NONE - 1;
pub(super) const ROOT: u16 = NONE - 2;

/// In [`Frame::phase`]: a backslash of the string around has come.
pub(super) const PENDING: u8 = 0x80;

/// Phases of objects and arrays.
pub(super) const OPEN: u8 = 0;
pub(super) const AFTER: u8 = 1;
pub(super) const COMMA: u8 = 2;
pub(super) const KEY: u8 = 3;
pub(super) const IN_KEY: u8 = 4;
pub(super) const FREE_KEY: u8 = 5;
pub(super) const COLON: u8 = 6;
pub(super) const SPACE: u8 = 7;
pub(super) const VALUE: u8 = 8;

/// Phases of free text: a trigger being looked for; what follows it; what
/// follows the value.
pub(super) const LOOK: u8 = 0;
pub(super) const LEAD: u8 = 1;
pub(super) const TAIL: u8 = 2;

/// The quote that ends the string around, among inner bytes.
const END: u16 = 256;

/// A place in a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Frame {
    pub(super) node: u16,
    /// Pool entry where it goes on when this node ends.
    pub(super) parent: u16,
    pub(super) phase: u8,
    pub(super) depth: u8,
    /// Place in an object's order.
    pub(super) next: u16,
    /// Sorted texts that are still possible; `low` also the node of a value
    /// that is due, `high` the upper half of a count.
    pub(super) low: u16,
    pub(super) high: u16,
    /// Bytes of the text, or state of an automaton.
    pub(super) at: u16,
    /// Items or characters, the lower half of their number.
    pub(super) count: u16,
}

impl Frame {
    pub(super) fn new(node: u16, parent: u16, depth: u8) -> Self {
        Self { node, parent, phase: 0, depth, next: 0, low: 0, high: 0, at: 0, count: 0 }
    }

    /// Items or characters so far, of an array or a string.
    pub(super) fn count(&self) -> u32 {
        u32::from(self.high) << 16 | u32::from(self.count)
    }

    /// The same with `count` of them.
    fn counted(self, count: u32) -> Self {
        Self { high: (count >> 16) as u16, count: count as u16, ..self }
    }

    /// All that it is made of but for where it goes on.
    pub(super) fn words(&self) -> [u16; 7] {
        let head = u16::from(self.phase) << 8 | u16::from(self.depth);
        [self.node, head, self.next, self.low, self.high, self.at, self.count]
    }
}

/// Where frames go while a byte is taken.
pub(super) struct Room<'r> {
    pub(super) pool: &'r mut [Frame],
    pub(super) pooled: usize,
    pub(super) threads: &'r mut [Frame],
    /// The new threads are `from..len`.
    pub(super) from: usize,
    pub(super) len: usize,
    /// Most new threads.
    pub(super) most: usize,
}

impl Room<'_> {
    /// Adds a thread unless it is there already or there are too many: the
    /// fewer ways to go on are all right ones.
    pub(super) fn emit(&mut self, frame: Frame) {
        if self.len - self.from < self.most
            && !self.threads[self.from..self.len].contains(&frame)
            && let Some(slot) = self.threads.get_mut(self.len)
        {
            *slot = frame;
            self.len += 1;
        }
    }

    fn push(&mut self, frame: Frame) -> Option<u16> {
        *self.pool.get_mut(self.pooled)? = frame;
        self.pooled += 1;
        Some(self.pooled as u16 - 1)
    }

    pub(super) fn parent(&self, frame: &Frame) -> Option<Frame> {
        self.pool.get(usize::from(frame.parent)).copied().filter(|_| frame.parent != NONE)
    }
}

/// The texts `low..high` of a sorted list whose byte `at` is `b`; all agree in
/// the bytes before.
pub(super) fn narrow<'t>(text: impl Fn(u16) -> &'t [u8], low: u16, high: u16, at: u16, b: u8) -> (u16, u16) {
    let at = usize::from(at);
    // A text that has ended sorts before the others.
    let byte = |i| text(i).get(at).map_or(0, |&b| u16::from(b) + 1);
    let find = |least: u16, mut low: u16| {
        let mut high = high;
        while low < high {
            let mid = low + (high - low) / 2;
            if byte(mid) < least { low = mid + 1 } else { high = mid }
        }
        low
    };
    let from = find(u16::from(b) + 1, low);
    (from, find(u16::from(b) + 2, from))
}

impl Grammar<'_> {
    /// Adds to `room` where `frame` goes by byte `b`.
    pub(super) fn step(&self, room: &mut Room<'_>, frame: Frame, b: u8) {
        match frame.node {
            DONE => return,
            FREE => return self.free(room, frame, b),
            ROOT => return self.start(room, self.t.root, u16::from(b), NONE, 1),
            _ => {}
        }
        let node = self.t.node(frame.node);
        if !self.decodes(&node, &frame) {
            return self.inner(room, frame, u16::from(b));
        }
        let plain = Frame { phase: frame.phase & !PENDING, ..frame };
        match b {
            b'"' | b'\\' if frame.phase & PENDING != 0 => self.inner(room, plain, u16::from(b)),
            _ if frame.phase & PENDING != 0 => {}
            b'"' => self.inner(room, frame, END),
            b'\\' => {
                // Only where one of the two bytes that it may begin can come.
                let (len, pooled) = (room.len, room.pooled);
                self.unescaped(room, plain);
                let any = room.len > len;
                (room.len, room.pooled) = (len, pooled);
                if any {
                    room.emit(Frame { phase: frame.phase | PENDING, ..frame });
                }
            }
            0x20.. => self.inner(room, frame, u16::from(b)),
            _ => {}
        }
    }

    /// Whether bytes are read as those of a string's content.
    fn decodes(&self, node: &Node, frame: &Frame) -> bool {
        node.flags & INSIDE != 0 || node.kind() == Kind::Encoded && frame.phase & !PENDING == OPEN
    }

    /// What may follow a backslash of the string around.
    pub(super) fn unescaped(&self, room: &mut Room<'_>, frame: Frame) {
        self.inner(room, frame, u16::from(b'"'));
        self.inner(room, frame, u16::from(b'\\'));
    }

    fn inner(&self, room: &mut Room<'_>, f: Frame, sym: u16) {
        let node = self.t.node(f.node);
        let byte = u8::try_from(sym).ok();
        match (node.kind(), byte) {
            (Kind::Lexeme, b) => match b.and_then(|b| self.t.arc(f.at, b)) {
                Some(to) => self.lexeme(room, Frame { at: to, ..f }),
                None if self.t.state(f.at).accepts() => self.pop_then(room, f, sym),
                None => {}
            },
            (Kind::Texts, b) => {
                let text = |i| self.text_of(&node, i);
                match b.map(|b| narrow(text, f.low, f.high, f.at, b)) {
                    Some((low, high)) if low < high => {
                        self.texts(room, &node, Frame { low, high, at: f.at + 1, ..f });
                    }
                    _ if text(f.low).len() == usize::from(f.at) => self.pop_then(room, f, sym),
                    _ => {}
                }
            }
            (Kind::Str, Some(b)) => self.string(room, &node, f, b),
            (Kind::Object, Some(b)) => self.object(room, &node, f, b),
            (Kind::Array, Some(b)) => self.array(room, &node, f, b),
            (Kind::Encoded, _) if f.phase == OPEN => {
                let parent = Frame { phase: AFTER, ..f };
                self.child(room, parent, node.a, sym);
            }
            (Kind::Encoded, _) if sym == END || sym == u16::from(b'"') => self.pop(room, f),
            _ => {}
        }
    }

    /// Text `i` of a node, as it is written.
    pub(super) fn text_of(&self, node: &Node, i: u16) -> &[u8] {
        const NOTHING: Span = Span { at: 0, len: 0 };
        let span = self.t.texts.get(node.b as usize + usize::from(i)).copied();
        self.t.span(span.unwrap_or(NOTHING))
    }

    /// The node of `f` has ended.
    fn pop(&self, room: &mut Room<'_>, f: Frame) {
        let next = room.parent(&f).unwrap_or(Frame::new(DONE, NONE, 0));
        room.emit(next);
    }

    /// The node of `f` has ended before `sym`.
    fn pop_then(&self, room: &mut Room<'_>, f: Frame, sym: u16) {
        match (room.parent(&f), u8::try_from(sym)) {
            (None, _) => {}
            (Some(g), Ok(b)) if g.node == FREE => self.free(room, g, b),
            (Some(g), _) if g.node == FREE || g.node == DONE => {}
            (Some(g), _) => self.inner(room, g, sym),
        }
    }

    /// Whether a value of `node` may begin at this depth.
    pub(super) fn fits(&self, depth: u8, node: u16) -> bool {
        let node = self.t.node(node);
        node.min != u32::MAX && depth.saturating_add(node.need) <= self.t.depth
    }

    /// Begins a value within `parent`, which goes on after it.
    fn child(&self, room: &mut Room<'_>, parent: Frame, node: u16, sym: u16) {
        let (len, depth) = (room.len, parent.depth.saturating_add(1));
        let Some(at) = room.push(parent) else { return };
        self.start(room, node, sym, at, depth);
        if room.len == len {
            room.pooled -= 1;
        }
    }

    /// Begins a value with `sym`.
    fn start(&self, room: &mut Room<'_>, id: u16, sym: u16, parent: u16, depth: u8) {
        if !self.fits(depth, id) {
            return;
        }
        let node = self.t.node(id);
        let f = Frame::new(id, parent, depth);
        match (node.kind(), u8::try_from(sym)) {
            // Such nodes never lead to themselves: the compiler has checked.
            (Kind::Any, _) => {
                self.t.list(&node).iter().for_each(|&n| self.start(room, n, sym, parent, depth))
            }
            (Kind::Lexeme, Ok(b)) => {
                if let Some(at) = self.t.arc(node.a, b) {
                    self.lexeme(room, Frame { at, ..f });
                }
            }
            (Kind::Texts, Ok(b)) => {
                let (low, high) = narrow(|i| self.text_of(&node, i), 0, node.n, 0, b);
                if low < high {
                    self.texts(room, &node, Frame { low, high, at: 1, ..f });
                }
            }
            (Kind::Str | Kind::Encoded, Ok(b'"')) | (Kind::Object, Ok(b'{')) | (Kind::Array, Ok(b'[')) => {
                room.emit(f)
            }
            _ => {}
        }
    }

    fn lexeme(&self, room: &mut Room<'_>, f: Frame) {
        let state = self.t.state(f.at);
        if state.accepts() && state.n == 0 { self.pop(room, f) } else { room.emit(f) }
    }

    fn texts(&self, room: &mut Room<'_>, node: &Node, f: Frame) {
        let ended = self.text_of(node, f.low).len() == usize::from(f.at);
        if ended && f.high == f.low + 1 { self.pop(room, f) } else { room.emit(f) }
    }

    fn string(&self, room: &mut Room<'_>, node: &Node, f: Frame, b: u8) {
        let count = f.count();
        if f.at == BODY && b != b'"' && count >= node.c {
            return;
        }
        match text::step(f.at, b, node.inside()) {
            Step::Within(at) => room.emit(Frame { at, ..f }),
            // Past the fewest characters counting serves a limit only.
            Step::Char => {
                let most = if node.c == u32::MAX { node.b } else { node.c };
                room.emit(Frame { at: BODY, ..f }.counted(count.saturating_add(1).min(most)));
            }
            Step::Close if count >= node.b => self.pop(room, f),
            _ => {}
        }
    }

    fn array(&self, room: &mut Room<'_>, node: &Node, f: Frame, b: u8) {
        let ((least, most), count) = (node.bounds(), f.count());
        let more = || count < most && self.fits(f.depth.saturating_add(1), self.t.item(node, count));
        let due = |room: &mut Room<'_>| {
            // Counting stops where it no longer tells items apart.
            let last = if most == u32::MAX { least.max(node.n.into()) } else { most };
            let after = Frame { phase: AFTER, ..f }.counted(count.saturating_add(1).min(last));
            self.child(room, after, self.t.item(node, count), u16::from(b));
        };
        match (f.phase, b) {
            (OPEN | AFTER, b']') if count >= least => self.pop(room, f),
            (OPEN, _) if more() => due(room),
            (AFTER, b',') if more() => {
                let phase = if self.t.spacing == Spacing::Compact { VALUE } else { COMMA };
                room.emit(Frame { phase, ..f });
            }
            (COMMA, b' ') => room.emit(Frame { phase: VALUE, ..f }),
            (COMMA, _) if self.t.spacing == Spacing::Spaced => {}
            (COMMA | VALUE, _) => due(room),
            _ => {}
        }
    }

    fn object(&self, room: &mut Room<'_>, node: &Node, f: Frame, b: u8) {
        let spaced = self.t.spacing == Spacing::Spaced;
        match (f.phase, b) {
            (OPEN | AFTER, b'}') if self.t.order(node, f.next).until == node.n => self.pop(room, f),
            (OPEN, b'"') => self.key(room, node, f),
            (AFTER, b',') if self.any_key(node, &f) => {
                let phase = if self.t.spacing == Spacing::Compact { KEY } else { COMMA };
                room.emit(Frame { phase, ..f });
            }
            (COMMA, b' ') => room.emit(Frame { phase: KEY, ..f }),
            (COMMA, b'"') if !spaced => self.key(room, node, f),
            (KEY, b'"') => self.key(room, node, f),
            (IN_KEY, _) => self.in_key(room, node, f, b),
            (FREE_KEY, _) => self.free_key(room, node, f, f.at, b),
            (COLON, b':') => {
                let phase = if self.t.spacing == Spacing::Compact { VALUE } else { SPACE };
                room.emit(Frame { phase, ..f });
            }
            (SPACE, b' ') => room.emit(Frame { phase: VALUE, ..f }),
            (SPACE, _) if spaced => {}
            (SPACE | VALUE, _) => {
                let after = Frame { phase: AFTER, low: 0, ..f };
                self.child(room, after, f.low, u16::from(b));
            }
            _ => {}
        }
    }

    /// Whether member `m` may come now: not before one that has come, and not
    /// past a required one.
    pub(super) fn is_open(&self, node: &Node, f: &Frame, m: &Member) -> bool {
        let until = self.t.order(node, f.next).until;
        m.order >= f.next && m.order <= until && self.fits(f.depth.saturating_add(1), m.value)
    }

    /// Whether members without a name of their own may come.
    pub(super) fn others(&self, node: &Node, f: &Frame) -> bool {
        node.a != NONE && self.fits(f.depth.saturating_add(1), node.a)
    }

    fn any_key(&self, node: &Node, f: &Frame) -> bool {
        let members = self.t.members(node);
        let until = self.t.order(node, f.next).until.min(node.n.saturating_sub(1));
        let mut open =
            (f.next..=until).filter_map(|i| members.get(usize::from(self.t.order(node, i).member)));
        self.others(node, f) || open.any(|m| self.is_open(node, f, m))
    }

    /// A key's opening quote.
    fn key(&self, room: &mut Room<'_>, node: &Node, f: Frame) {
        if node.n == 0 && self.others(node, &f) {
            room.emit(Frame { phase: FREE_KEY, at: BODY, ..f });
        } else {
            self.emit_key(room, node, Frame { phase: IN_KEY, low: 0, high: node.n, at: 0, ..f });
        }
    }

    /// The part of the key that has come; members `low` to `high` begin so.
    pub(super) fn key_part(&self, node: &Node, f: &Frame) -> &[u8] {
        let member = self.t.members(node).get(usize::from(f.low));
        member.and_then(|m| self.t.span(m.key).get(..usize::from(f.at))).unwrap_or(&[])
    }

    /// Keeps a key's beginning where some key can come of it.
    fn emit_key(&self, room: &mut Room<'_>, node: &Node, f: Frame) {
        let named = self.t.members(node).get(usize::from(f.low)..usize::from(f.high)).unwrap_or(&[]);
        let other = || self.others(node, &f) && !self.key_part(node, &f).contains(&b'\\');
        if named.iter().any(|m| self.is_open(node, &f, m)) || other() {
            room.emit(f);
        }
    }

    fn in_key(&self, room: &mut Room<'_>, node: &Node, f: Frame, b: u8) {
        let members = self.t.members(node);
        let text = |i: u16| members.get(usize::from(i)).map_or(&[][..], |m| self.t.span(m.key));
        let (low, high) = narrow(text, f.low, f.high, f.at, b);
        let at = f.at.saturating_add(1);
        match members.get(usize::from(low)).filter(|_| low < high) {
            Some(m) if m.key.len == u32::from(at) => {
                if self.is_open(node, &f, m) {
                    room.emit(Frame { phase: COLON, next: m.order + 1, low: m.value, high: 0, at: 0, ..f });
                }
            }
            Some(_) => self.emit_key(room, node, Frame { low, high, at, ..f }),
            None => {
                // No named member: the key of another, read again to know where
                // in a character it stands.
                let part = self.key_part(node, &f);
                if self.others(node, &f) && !part.contains(&b'\\') {
                    self.free_key(room, node, f, body_state(part), b);
                }
            }
        }
    }

    /// A byte of a key without a name of its own. It may not hold escapes, so
    /// that it cannot spell a named one.
    fn free_key(&self, room: &mut Room<'_>, node: &Node, f: Frame, q: u16, b: u8) {
        let f = Frame { low: 0, high: 0, at: 0, ..f };
        match text::step(q, b, node.inside()) {
            _ if b == b'\\' => {}
            Step::Within(at) => room.emit(Frame { phase: FREE_KEY, at, ..f }),
            Step::Char => room.emit(Frame { phase: FREE_KEY, at: BODY, ..f }),
            Step::Close => room.emit(Frame { phase: COLON, low: node.a, ..f }),
            Step::Never => {}
        }
    }

    /// Free text, or the fixed text around a value.
    fn free(&self, room: &mut Room<'_>, f: Frame, b: u8) {
        let Some(wrap) = &self.wrapped else { return };
        let fixed = match f.phase {
            LEAD => self.t.span(wrap.lead),
            TAIL => self.t.span(wrap.tail),
            _ => return self.look(room, wrap, f, b),
        };
        let at = f.at.saturating_add(1);
        match fixed.get(usize::from(f.at)) {
            Some(&due) if due == b && usize::from(at) < fixed.len() => room.emit(Frame { at, ..f }),
            Some(&due) if due == b && f.phase == TAIL => room.emit(wrap.after()),
            // An empty lead is stepped over when the trigger ends.
            Some(&due) if due == b => room.emit(Frame { at, ..f }),
            None if f.phase == LEAD => self.child(room, wrap.around(), self.t.root, u16::from(b)),
            _ => {}
        }
    }

    /// Looks for a trigger: `low` is the one that the text ends with `at` bytes
    /// of.
    fn look(&self, room: &mut Room<'_>, wrap: &Wrapped, f: Frame, b: u8) {
        let text = |i: usize| wrap.triggers.get(i).map_or(&[][..], |t| self.t.span(t.text));
        let known = text(usize::from(f.low)).get(..usize::from(f.at)).unwrap_or(&[]);
        // The longest end of the text that begins a trigger.
        let begins = |from: usize, t: &[u8]| {
            let tail = &known[from..];
            t.get(..tail.len() + 1).is_some_and(|head| head[..tail.len()] == *tail && head[tail.len()] == b)
        };
        for from in 0..=known.len() {
            let Some(which) = (0..wrap.count).find(|&i| begins(from, text(i))) else { continue };
            let at = known.len() - from + 1;
            let next = Frame { low: which as u16, at: at as u16, ..Frame::new(FREE, NONE, 0) };
            if text(which).len() > at {
                return room.emit(next);
            }
            if wrap.triggers[which].part {
                return self.replay(room, wrap, text(which));
            }
            return room.emit(Frame { phase: LEAD, low: 0, at: 0, ..next });
        }
        room.emit(Frame::new(FREE, NONE, 0));
    }

    /// Begins the value with a trigger that is part of it.
    pub(super) fn replay(&self, room: &mut Room<'_>, wrap: &Wrapped, text: &[u8]) {
        let Some((&first, rest)) = text.split_first() else { return };
        let (outer, keep) = (room.from, room.len);
        self.child(room, wrap.around(), self.t.root, u16::from(first));
        for &b in rest {
            // The threads so far give way to those that `b` leads to.
            let (from, until) = (keep, room.len);
            room.from = until;
            for i in from..until {
                self.step(room, room.threads[i], b);
            }
            room.threads.copy_within(until..room.len, from);
            room.len -= until - from;
        }
        room.from = outer;
    }
}

/// Where in a character a string's inside ends that holds no escape.
pub(super) fn body_state(part: &[u8]) -> u16 {
    part.iter().fold(BODY, |q, &b| match text::step(q, b, false) {
        Step::Within(q) => q,
        _ => BODY,
    })
}
