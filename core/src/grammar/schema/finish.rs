//! What can be said of nodes only when all are known: whether they lead to
//! themselves, how short their values are, how deep.

use super::{Compiler, Res, Why};
use crate::grammar::Grammar;
use crate::grammar::program::{Kind, Member, NONE, Node, Span, Tables};
use crate::grammar::text;

/// A value whose shortest text takes more bytes than these is none: nothing
/// would hold it.
const LONGEST: u32 = 1 << 24;

/// Most alternatives within alternatives without a byte between.
const NESTED: u16 = 16;

impl Compiler<'_, '_, '_> {
    /// Alternatives that lead back to themselves before any byte have no end.
    pub(super) fn check_loops(&mut self) -> Res<()> {
        // Work space: how many alternatives lie below each node; the sets are
        // no longer needed but for their first entry.
        let n = self.out.nodes.len;
        let mut changed = true;
        let mut level = 0;
        self.conjs[..n].iter_mut().for_each(|c| c.flags = 0);
        while changed {
            changed = false;
            level += 1;
            for id in 0..n {
                let node = self.out.nodes.all[id];
                if node.kind() != Kind::Any {
                    continue;
                }
                let list = &self.out.lists.all[node.b as usize..][..usize::from(node.n)];
                let below = list.iter().map(|&i| self.conjs[usize::from(i)].flags).max().unwrap_or(0) + 1;
                if below > self.conjs[id].flags {
                    self.conjs[id].flags = below;
                    changed = true;
                }
                if below > NESTED || level > n + 1 {
                    let at = if self.conjs[id].n == super::MADE {
                        0
                    } else {
                        self.conjs[id].all[0] >> super::SHIFT
                    };
                    return Err((Why::RefLoop, at));
                }
            }
        }
        Ok(())
    }

    /// Finds the shortest value of every node, then how deep it is.
    pub(super) fn finish(&mut self) {
        // To and fro, since a node's number says little of those that it leads to.
        let mut back = true;
        while self.shorten(back) {
            back = !back;
        }
        while self.deepen(back) {
            back = !back;
        }
    }

    /// Why there is no value of `root`.
    pub(super) fn no_value(&mut self, root: u16) -> (Why, u32) {
        // Work space: whether there is a value of a node, however long.
        let n = self.out.nodes.len;
        self.conjs[..n].iter_mut().for_each(|c| c.flags = 0);
        let (mut changed, mut back) = (true, true);
        while changed {
            changed = false;
            for i in 0..n {
                let id = if back { n - 1 - i } else { i };
                let node = self.out.nodes.all[id];
                if self.conjs[id].flags == 0
                    && self.view(|g| g.is_possible(&node, |id| self.conjs[usize::from(id)].flags != 0))
                {
                    self.conjs[id].flags = 1;
                    changed = true;
                }
            }
            back = !back;
        }
        if self.conjs[usize::from(root)].flags == 0 {
            return (Why::Never, self.never);
        }
        // The innermost of them, which are the later ones.
        let long = (0..n).rev().find(|&id| {
            self.conjs[id].flags != 0
                && self.out.nodes.all[id].min == u32::MAX
                && self.conjs[id].n != super::MADE
        });
        let at = long.map_or(0, |id| self.conjs[id].all[0] >> super::SHIFT);
        (Why::TooLong { limit: LONGEST }, at)
    }

    /// One round; whether anything changed.
    fn shorten(&mut self, back: bool) -> bool {
        let (mut changed, n) = (false, self.out.nodes.len);
        for i in 0..n {
            let id = if back { n - 1 - i } else { i };
            let node = self.out.nodes.all[id];
            if node.kind() == Kind::Object {
                self.sum_members(&node);
            }
            let min = self.view(|g| g.shortest(&node));
            let min = if min > LONGEST { u32::MAX } else { min };
            changed |= min < node.min;
            self.out.nodes.all[id].min = min;
        }
        changed
    }

    /// Bytes that required members take from each place of the order on.
    fn sum_members(&mut self, node: &Node) {
        let (members, orders, n) = (node.b as usize, node.c as usize, usize::from(node.n));
        let mark = self.options.spacing.mark();
        for i in (0..n).rev() {
            let m = self.out.members.all[members + usize::from(self.out.orders.all[orders + i].member)];
            let mut rest = self.out.orders.all[orders + i + 1].rest;
            if m.required != 0 {
                let key = &self.out.bytes.all[m.key.at as usize..][..m.key.len as usize];
                let key = key
                    .iter()
                    .fold(text::cost(b'"', node.inside()), |s, &b| s + text::cost(b, node.inside()));
                let value = self.out.nodes.all[usize::from(m.value)].min;
                rest = rest.saturating_add(2 * mark + key).saturating_add(value);
            }
            self.out.orders.all[orders + i].rest = rest;
        }
    }

    fn deepen(&mut self, back: bool) -> bool {
        let (mut changed, n) = (false, self.out.nodes.len);
        for i in 0..n {
            let id = if back { n - 1 - i } else { i };
            let node = self.out.nodes.all[id];
            if node.min == u32::MAX {
                continue;
            }
            let need = self.view(|g| g.depth(&node));
            changed |= need > node.need;
            self.out.nodes.all[id].need = need.max(node.need);
        }
        changed
    }

    /// Looks at the tables as a grammar does.
    fn view<R>(&self, look: impl FnOnce(&Grammar<'_>) -> R) -> R {
        let t = Tables {
            nodes: self.out.nodes.used(),
            lists: self.out.lists.used(),
            members: self.out.members.used(),
            orders: self.out.orders.used(),
            texts: self.out.texts.used(),
            bytes: self.out.bytes.used(),
            states: self.out.states.used(),
            arcs: self.out.arcs.used(),
            root: 0,
            depth: self.out.depth,
            spacing: self.options.spacing,
        };
        look(&Grammar { t, wrapped: None })
    }
}

impl Grammar<'_> {
    /// Bytes of a node's shortest value, going by what is known of others.
    fn shortest(&self, node: &Node) -> u32 {
        let (inside, mark) = (node.inside(), self.t.spacing.mark());
        let cost = |bytes: &[u8]| bytes.iter().fold(0u32, |s, &b| s.saturating_add(text::cost(b, inside)));
        match node.kind() {
            Kind::Never => u32::MAX,
            Kind::Lexeme => self.t.state(node.a).left,
            Kind::Str => (2 * text::cost(b'"', inside)).saturating_add(node.b),
            Kind::Texts => {
                let span = |i: u16| self.t.texts.get(node.b as usize + usize::from(i)).copied();
                let of = |s: Span| cost(self.t.span(s));
                (0..node.n).filter_map(span).map(of).min().unwrap_or(u32::MAX)
            }
            Kind::Any => self.t.list(node).iter().map(|&n| self.t.min(n)).min().unwrap_or(u32::MAX),
            Kind::Encoded => self.t.min(node.a).saturating_add(2),
            Kind::Object => match self.t.order(node, 0).rest {
                0 => 2,
                rest => rest.saturating_add(2) - if rest == u32::MAX { 0 } else { mark },
            },
            Kind::Array if node.bounds().0 == 0 => 2,
            Kind::Array if node.bounds().0 > node.n.into() && node.a == NONE => u32::MAX,
            Kind::Array => match self.items_left(node, 0) {
                u32::MAX => u32::MAX,
                items => items.saturating_add(2) - mark,
            },
        }
    }

    /// Whether there is a value of a node, however long, going by what `is` says
    /// of others.
    fn is_possible(&self, node: &Node, is: impl Fn(u16) -> bool) -> bool {
        match node.kind() {
            Kind::Never => false,
            Kind::Lexeme | Kind::Str | Kind::Texts => true,
            Kind::Any => self.t.list(node).iter().any(|&n| is(n)),
            Kind::Encoded => is(node.a),
            Kind::Object => self.t.members(node).iter().all(|m| m.required == 0 || is(m.value)),
            Kind::Array => {
                let (least, n) = (node.bounds().0, u32::from(node.n));
                (0..least.min(n)).all(|i| is(self.t.item(node, i)))
                    && (least <= n || node.a != NONE && is(node.a))
            }
        }
    }

    /// Frames below a node's own while its shortest value is written.
    fn depth(&self, node: &Node) -> u8 {
        let need = |id: u16| self.t.node(id).need;
        let below = |id: u16| need(id).saturating_add(1);
        match node.kind() {
            Kind::Any => {
                let best = self.t.list(node).iter().copied().filter(|&n| self.t.min(n) == node.min);
                best.map(need).min().unwrap_or(0)
            }
            Kind::Encoded => below(node.a),
            Kind::Object => {
                let required = |m: &&Member| m.required != 0;
                self.t.members(node).iter().filter(required).map(|m| below(m.value)).max().unwrap_or(0)
            }
            Kind::Array => {
                let least = node.bounds().0;
                let n = u32::from(node.n);
                let more = if least > n { below(node.a) } else { 0 };
                (0..least.min(n)).map(|i| below(self.t.item(node, i))).max().unwrap_or(0).max(more)
            }
            _ => 0,
        }
    }
}
