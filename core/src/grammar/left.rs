//! How many bytes are missing to the nearest end.

use super::Grammar;
use super::program::{Kind, Member, Node, Spacing};
use super::step::{
    AFTER, COLON, COMMA, DONE, FREE, FREE_KEY, Frame, IN_KEY, KEY, LEAD, OPEN, PENDING, ROOT, Room, SPACE,
    TAIL, VALUE, body_state,
};
use super::text::{self, BODY};

/// Sums that cannot wrap; `u32::MAX` is "never".
macro_rules! sum {
    ($first:expr $(, $more:expr)* $(,)?) => {{
        let total: u32 = $first;
        $(let total = total.saturating_add($more);)*
        total
    }};
}

impl Grammar<'_> {
    /// Fewest bytes after which the text may end.
    pub(super) fn left(&self, room: &mut Room<'_>, frame: Frame) -> u32 {
        if frame.phase & PENDING == 0 {
            return sum!(self.own(&frame), self.around(room, &frame));
        }
        // A quote or backslash of the content must follow.
        let plain = Frame { phase: frame.phase & !PENDING, ..frame };
        let (from, len, pooled) = (room.from, room.len, room.pooled);
        room.from = len;
        self.unescaped(room, plain);
        let mut best = u32::MAX;
        for i in len..room.len {
            let next = room.threads[i];
            best = best.min(sum!(1, self.own(&next), self.around(room, &next)));
        }
        (room.from, room.len, room.pooled) = (from, len, pooled);
        best
    }

    /// What all nodes around need.
    fn around(&self, room: &Room<'_>, frame: &Frame) -> u32 {
        let mut total = 0u32;
        let mut next = room.parent(frame);
        while let Some(f) = next {
            total = sum!(total, self.own(&f));
            next = room.parent(&f);
        }
        total
    }

    /// What the node itself needs.
    fn own(&self, f: &Frame) -> u32 {
        match f.node {
            DONE => return 0,
            ROOT => return self.t.min(self.t.root),
            FREE => return self.free_left(f),
            _ => {}
        }
        let node = self.t.node(f.node);
        let quote = text::cost(b'"', node.inside());
        match node.kind() {
            Kind::Lexeme => self.t.state(f.at).left,
            Kind::Str => {
                let begun = u32::from(f.at != BODY);
                let due = node.b.saturating_sub(sum!(f.count(), begun));
                sum!(text::left(f.at, node.inside()), due, quote)
            }
            Kind::Texts => {
                let left = |i| self.text_of(&node, i).get(usize::from(f.at)..).unwrap_or(&[]);
                (f.low..f.high).map(|i| cost(left(i), &node)).min().unwrap_or(u32::MAX)
            }
            Kind::Object => self.object_left(&node, f),
            Kind::Array => self.array_left(&node, f),
            Kind::Encoded if f.phase == OPEN => sum!(self.t.min(node.a), 1),
            Kind::Encoded => 1,
            Kind::Never | Kind::Any => u32::MAX,
        }
    }

    fn free_left(&self, f: &Frame) -> u32 {
        let Some(wrap) = &self.wrapped else { return 0 };
        match f.phase {
            LEAD => {
                let lead = wrap.lead.len.saturating_sub(u32::from(f.at));
                sum!(lead, self.t.min(self.t.root), wrap.tail.len)
            }
            TAIL => wrap.tail.len.saturating_sub(u32::from(f.at)),
            _ => 0,
        }
    }

    /// The space that must follow a comma or colon.
    fn space(&self) -> u32 {
        u32::from(self.t.spacing == Spacing::Spaced)
    }

    fn array_left(&self, node: &Node, f: &Frame) -> u32 {
        let mark = self.t.spacing.mark();
        match f.phase {
            OPEN if node.bounds().0 == 0 => 1,
            OPEN => sum!(self.items_left(node, 0), 1) - mark,
            AFTER => sum!(self.items_left(node, f.count()), 1),
            phase => {
                let space = if phase == COMMA { self.space() } else { 0 };
                let item = self.t.min(self.t.item(node, f.count()));
                sum!(space, item, self.items_left(node, f.count().saturating_add(1)), 1)
            }
        }
    }

    /// What an array's required items from item `from` on take, a comma before
    /// each.
    pub(super) fn items_left(&self, node: &Node, from: u32) -> u32 {
        let (least, n, mark) = (node.bounds().0, u32::from(node.n), self.t.spacing.mark());
        let named = (from..least.min(n)).fold(0u32, |s, i| sum!(s, mark, self.t.min(self.t.item(node, i))));
        let more = least.saturating_sub(from.max(n));
        let each = if more == 0 { 0 } else { sum!(mark, self.t.min(node.a)) };
        sum!(named, more.saturating_mul(each))
    }

    fn object_left(&self, node: &Node, f: &Frame) -> u32 {
        let (mark, rest) = (self.t.spacing.mark(), |at| self.t.order(node, at).rest);
        let end = sum!(rest(f.next), 1);
        let quote = text::cost(b'"', node.inside());
        match f.phase {
            OPEN if rest(f.next) == 0 => 1,
            OPEN => end - mark,
            AFTER => end,
            COMMA => sum!(self.space(), quote, self.key_left(node, f)),
            KEY => sum!(quote, self.key_left(node, f)),
            IN_KEY => self.key_left(node, f),
            FREE_KEY => sum!(text::left(f.at, node.inside()), quote, mark, self.t.min(node.a), end),
            COLON => sum!(mark, self.t.min(f.low), end),
            SPACE => sum!(self.space(), self.t.min(f.low), end),
            VALUE => sum!(self.t.min(f.low), end),
            _ => u32::MAX,
        }
    }

    /// From within a key on, or from before its first character.
    fn key_left(&self, node: &Node, f: &Frame) -> u32 {
        let members = self.t.members(node);
        let (low, high, at) = if f.phase == IN_KEY { (f.low, f.high, f.at) } else { (0, node.n, 0) };
        let named = members.get(usize::from(low)..usize::from(high)).unwrap_or(&[]);
        let of = |m: &Member| {
            let key = self.t.span(m.key).get(usize::from(at)..).unwrap_or(&[]);
            let rest = self.t.order(node, m.order.saturating_add(1)).rest;
            sum!(cost(key, node), self.t.spacing.mark(), self.t.min(m.value), rest, 1)
        };
        let best = named.iter().filter(|m| self.is_open(node, f, m)).map(of).min().unwrap_or(u32::MAX);
        if !self.others(node, f) {
            return best;
        }
        let quote = text::cost(b'"', node.inside());
        let key = if at == 0 {
            sum!(node.d, quote)
        } else {
            let part = self.key_part(node, &Frame { low, high, at, ..*f });
            if part.contains(&b'\\') {
                return best;
            }
            let q = body_state(part);
            // A key that is all there but for its quote needs a letter more.
            let named = named.iter().any(|m| m.key.len == u32::from(at) + 1);
            sum!(text::left(q, node.inside()), u32::from(named && q == BODY), quote)
        };
        let end = self.t.order(node, f.next).rest;
        best.min(sum!(key, self.t.spacing.mark(), self.t.min(node.a), end, 1))
    }
}

/// What inner bytes take.
fn cost(bytes: &[u8], node: &Node) -> u32 {
    bytes.iter().fold(0u32, |s, &b| sum!(s, text::cost(b, node.inside())))
}
