//! Nodes of plain sets of keywords, one type after another.

use core::ops::Range;

use super::spec::{self, Types};
use super::{Compiler, Conj, Res, Why};
use crate::Name;
use crate::grammar::dfa::{self, Machine};
use crate::grammar::formats;
use crate::grammar::json::{Kind as Json, Text};
use crate::grammar::program::{INSIDE, Kind, Member, NONE, Node, Order, Span};
use crate::grammar::regex::Programs;
use crate::grammar::strings::Strings;

/// In `Compiler::plain`, after the formats.
const ANY_INTEGER: usize = formats::COUNT;
const ANY_NUMBER: usize = formats::COUNT + 1;

impl Compiler<'_, '_, '_> {
    /// A set without alternatives.
    pub(super) fn plain_node(&mut self, conj: &Conj) -> Res<Node> {
        let types = spec::types(&self.doc, conj)?;
        let (flags, loc) = (conj.flags as u8, conj.locs().next().unwrap_or(0));
        let node = match self.listed(conj, types)? {
            Some(node) => node,
            None => self.typed(conj, types, flags, loc)?,
        };
        if node.kind() == Kind::Never && self.never == 0 {
            self.never = loc;
        }
        Ok(node)
    }

    fn typed(&mut self, conj: &Conj, types: Types, flags: u8, loc: u32) -> Res<Node> {
        let mut nodes = [Node::NEVER; 5];
        let mut n = 0;
        let mut add = |node: Node| {
            nodes[n] = node;
            n += usize::from(node.kind() != Kind::Never);
        };
        let words: &[&str] = match (types & spec::NULL != 0, types & spec::BOOL != 0) {
            (true, true) => &["false", "null", "true"],
            (true, false) => &["null"],
            (false, true) => &["false", "true"],
            (false, false) => &[],
        };
        if !words.is_empty() {
            add(self.words(words, flags, loc)?);
        }
        if types & spec::NUMBER != 0 {
            add(self.number(conj, types & spec::FRACTION == 0, loc)?);
        }
        if types & spec::STRING != 0 {
            add(self.string(conj, loc)?);
        }
        if types & spec::ARRAY != 0 {
            add(self.array(conj, loc)?);
        }
        if types & spec::OBJECT != 0 {
            add(self.object(conj, loc)?);
        }
        if n < 2 {
            return Ok(nodes[0]);
        }
        let mut ids = [NONE; 5];
        for (id, node) in ids.iter_mut().zip(&nodes[..n]) {
            *id = self.made(*node, loc)?;
        }
        let from = self.out.lists.len;
        for &id in &ids[..n] {
            self.out.lists.push(id).map_err(|why| (why, loc))?;
        }
        Ok(self.any(flags, from))
    }

    /// The node of an automaton's first state.
    fn lexeme(state: Option<u16>, flags: u8) -> Node {
        state.map_or(Node::NEVER, |a| Node { a, ..Node::new(Kind::Lexeme, flags) })
    }

    /// The automaton of a machine, made once where `plain` numbers it.
    fn automaton(
        &mut self,
        machine: &impl Machine,
        plain: Option<usize>,
        flags: u8,
    ) -> Result<Option<u16>, Why> {
        let inside = flags & INSIDE != 0;
        let known = plain.map(|p| self.plain[p][usize::from(inside)]).filter(|&s| s != NONE);
        if known.is_some() {
            return Ok(known);
        }
        let state = dfa::build(machine, inside, &mut self.out, self.states)?;
        if let (Some(p), Some(s)) = (plain, state) {
            self.plain[p][usize::from(inside)] = s;
        }
        Ok(state)
    }

    fn number(&mut self, conj: &Conj, integer: bool, loc: u32) -> Res<Node> {
        let numbers = spec::numbers(&self.doc, conj, integer)?;
        let bounded = numbers.low.is_some() || numbers.high.is_some() || numbers.divisor.is_some();
        let plain = (!bounded).then_some(if integer { ANY_INTEGER } else { ANY_NUMBER });
        let flags = conj.flags as u8;
        let state = self.automaton(&numbers, plain, flags).map_err(|why| (why, loc))?;
        Ok(Self::lexeme(state, flags))
    }

    fn string(&mut self, conj: &Conj, loc: u32) -> Res<Node> {
        let least = spec::count(&self.doc, conj, "minLength", false)?;
        let most = spec::count(&self.doc, conj, "maxLength", true)?;
        let flags = conj.flags as u8;
        let shaped = ["pattern", "format"].iter().any(|k| conj.locs().any(|l| self.doc.get(l, k).is_some()));
        if let Some(content) = self.content(conj)? {
            let other = ["minLength", "maxLength", "pattern", "format"];
            let said = |k: &&&str| conj.locs().any(|l| self.doc.get(l, k).is_some());
            if let Some(key) = other.iter().find(said) {
                return Err((
                    Why::Keyword(Name::format(format_args!("{key} beside contentSchema"))),
                    content,
                ));
            }
            return self.encoded(conj, content);
        }
        if shaped {
            return self.pattern(conj, least.unwrap_or(0), most, loc);
        }
        let (least, most) = (least.unwrap_or(0), most.unwrap_or(u32::MAX));
        let kind = if least > most { Kind::Never } else { Kind::Str };
        Ok(Node { b: least, c: most, ..Node::new(kind, flags) })
    }

    fn pattern(&mut self, conj: &Conj, least: u32, most: Option<u32>, loc: u32) -> Res<Node> {
        let (doc, flags) = (self.doc, conj.flags as u8);
        let mut programs = Programs::new(self.code, self.ranges, self.chars);
        let (mut formats, mut patterns) = (None, 0);
        for l in conj.locs() {
            if let Some(value) = doc.get(l, "pattern") {
                if doc.kind(value) != Json::Str {
                    return Err((Why::Value { wanted: "a string" }, value));
                }
                programs.add(doc.text(value).chars()).map_err(|why| (why, value))?;
                patterns += 1;
            }
            if let Some(value) = doc.get(l, "format") {
                let unknown = Why::Format(Name::new(doc.text(value).raw()));
                let format = formats::find(|name| doc.text(value).is(name)).ok_or((unknown, value))?;
                programs.add(formats::pattern(format).chars()).map_err(|why| (why, value))?;
                patterns += 1;
                formats = Some(format);
            }
        }
        let plain = formats.filter(|_| patterns == 1 && least == 0 && most.is_none());
        let inside = flags & INSIDE != 0;
        if let Some(state) = plain.map(|p| self.plain[p][usize::from(inside)]).filter(|&s| s != NONE) {
            return Ok(Self::lexeme(Some(state), flags));
        }
        let strings = Strings { programs: &programs, least, most, inside };
        let state = dfa::build(&strings, inside, &mut self.out, self.states).map_err(|why| (why, loc))?;
        if let (Some(p), Some(s)) = (plain, state) {
            self.plain[p][usize::from(inside)] = s;
        }
        Ok(Self::lexeme(state, flags))
    }

    /// The schema of a string's content, where that is JSON.
    fn content(&self, conj: &Conj) -> Res<Option<u32>> {
        let mut found = None;
        for loc in conj.locs() {
            let json = self
                .doc
                .get(loc, "contentMediaType")
                .is_some_and(|m| self.doc.text(m).is("application/json"));
            if let Some(schema) = self.doc.get(loc, "contentSchema").filter(|_| json) {
                if found.is_some() || Self::is_inside(conj) {
                    let what = if found.is_some() {
                        "a second contentSchema"
                    } else {
                        "contentSchema within contentSchema"
                    };
                    return Err((Why::Keyword(Name::new(what)), schema));
                }
                found = Some(schema);
            }
        }
        Ok(found)
    }

    fn encoded(&mut self, conj: &Conj, content: u32) -> Res<Node> {
        let mut inner = Conj::new(INSIDE);
        inner.add(content)?;
        let a = self.intern(inner, content)?;
        Ok(Node { a, ..Node::new(Kind::Encoded, conj.flags as u8) })
    }

    /// The node of what all of `parts` say.
    fn both(&mut self, conj: &Conj, parts: impl Iterator<Item = u32>, loc: u32) -> Res<u16> {
        let mut set = Conj::new(conj.flags as u8);
        for part in parts {
            // Anything goes: nothing to keep.
            if self.doc.kind(part) != Json::True {
                set.add(part)?;
            }
        }
        self.intern(set, loc)
    }

    fn array(&mut self, conj: &Conj, loc: u32) -> Res<Node> {
        let doc = self.doc;
        let least = spec::count(&doc, conj, "minItems", false)?.unwrap_or(0);
        let most = spec::count(&doc, conj, "maxItems", true)?.unwrap_or(u32::MAX);
        // Older drafts put the first items' schemas into `items` itself.
        let listed = |l: u32| {
            doc.get(l, "prefixItems").or_else(|| doc.get(l, "items").filter(|&i| doc.kind(i) == Json::Array))
        };
        let others = |l: u32| {
            doc.get(l, "additionalItems")
                .or_else(|| doc.get(l, "items").filter(|&i| doc.kind(i) != Json::Array))
        };
        let prefix = conj.locs().filter_map(listed).map(|p| doc.elements(p).count()).max().unwrap_or(0);
        if prefix > 1000 {
            return Err((Why::Limit { what: "prefixItems", limit: 1000 }, loc));
        }
        let from = self.out.lists.len;
        for i in 0..prefix {
            let parts = conj
                .locs()
                .filter_map(|l| listed(l).and_then(|p| doc.elements(p).nth(i)).or_else(|| others(l)));
            let id = self.both(conj, parts, loc)?;
            self.out.lists.push(id).map_err(|why| (why, loc))?;
        }
        let said = conj.locs().any(|l| others(l).is_some());
        let closed = conj.locs().any(|l| others(l).is_some_and(|i| doc.kind(i) == Json::False))
            || self.options.closed && prefix > 0 && !said;
        let a = if closed { NONE } else { self.both(conj, conj.locs().filter_map(others), loc)? };
        if least > most {
            return Ok(Node::NEVER);
        }
        let node = Node::new(Kind::Array, conj.flags as u8);
        Ok(Node { a, n: prefix as u16, b: from as u32, c: least, d: most, ..node })
    }

    fn object(&mut self, conj: &Conj, loc: u32) -> Res<Node> {
        let doc = self.doc;
        for l in conj.locs() {
            let map = doc.get(l, "properties").filter(|&p| doc.kind(p) != Json::Object);
            let list = doc.get(l, "required").filter(|&r| {
                doc.kind(r) != Json::Array || !doc.elements(r).all(|e| doc.kind(e) == Json::Str)
            });
            if let Some(at) = map {
                return Err((Why::Value { wanted: "an object of schemas" }, at));
            }
            if let Some(at) = list {
                return Err((Why::Value { wanted: "a list of member names" }, at));
            }
        }
        let first = self.out.members.len;
        for l in conj.locs() {
            // The keys of one object differ from each other.
            let others = self.out.members.len;
            for (key, value) in doc.get(l, "properties").into_iter().flat_map(|p| doc.members(p)) {
                let span = self.key(conj, doc.text(key), key)?;
                if self.find_key(first..others, span).is_some() {
                    self.out.bytes.len = span.at as usize;
                    continue;
                }
                self.member(conj, span, first, key, |at| {
                    if at == l {
                        Some(value)
                    } else {
                        doc.get_text(doc.get(at, "properties")?, doc.text(key))
                    }
                })?;
            }
        }
        self.require(conj, first)?;
        let n = self.out.members.len - first;
        if n >= usize::from(NONE) {
            return Err((self.out.members.full(), loc));
        }
        let c = self.orders(first, n, loc)?;
        let a = self.other_members(conj, loc)?;
        let empty = self.out.members.all[first..first + n].iter().any(|m| m.key.len == 1);
        let node = Node::new(Kind::Object, conj.flags as u8);
        Ok(Node { a, n: n as u16, b: first as u32, c, d: empty.into(), ..node })
    }

    /// Writes a key as it stands in a text, its closing quote included.
    fn key(&mut self, conj: &Conj, key: Text<'_>, loc: u32) -> Res<Span> {
        let (start, inside) = (self.out.bytes.len, Self::is_inside(conj));
        let written = key.chars().try_for_each(|c| self.out.push_char(c, inside));
        written.and_then(|()| self.out.push_bytes(b"\"")).map_err(|why| (why, loc))?;
        self.out.span_from(start).map_err(|why| (why, loc))
    }

    /// The one of `members` that has a key.
    fn find_key(&self, mut members: Range<usize>, key: Span) -> Option<usize> {
        members.find(|&i| self.key_bytes(self.out.members.all[i].key) == self.key_bytes(key))
    }

    fn key_bytes(&self, key: Span) -> &[u8] {
        self.out.bytes.used().get(key.at as usize..(key.at + key.len) as usize).unwrap_or(&[])
    }

    /// Adds a member to those from `first` on. Its value keeps to what `named`
    /// gives for each part of the set, and else to what others keep to.
    fn member(
        &mut self,
        conj: &Conj,
        key: Span,
        first: usize,
        loc: u32,
        named: impl Fn(u32) -> Option<u32>,
    ) -> Res<usize> {
        let doc = self.doc;
        let order = (self.out.members.len - first).min(65534) as u16;
        let parts = conj.locs().filter_map(|l| named(l).or_else(|| doc.get(l, "additionalProperties")));
        let value = self.both(conj, parts, loc)?;
        let member = Member { key, value, order, required: 0, pad: 0 };
        self.out.members.push(member).map_err(|why| (why, loc))
    }

    /// Marks the members from `first` on that are required, and adds those that
    /// no `properties` name. Sorts the others.
    fn require(&mut self, conj: &Conj, first: usize) -> Res<()> {
        let (doc, named) = (self.doc, self.out.members.len);
        self.sort_members(first..named);
        for key in conj.locs().filter_map(|l| doc.get(l, "required")).flat_map(|r| doc.elements(r)) {
            let span = self.key(conj, doc.text(key), key)?;
            let known = &self.out.members.all[first..named];
            let known = known.binary_search_by(|m| self.key_bytes(m.key).cmp(self.key_bytes(span))).ok();
            let known = known.map(|i| first + i);
            let at = match known.or_else(|| self.find_key(named..self.out.members.len, span)) {
                Some(at) => {
                    self.out.bytes.len = span.at as usize;
                    at
                }
                None => self.member(conj, span, first, key, |_| None)?,
            };
            self.out.members.all[at].required = 1;
        }
        Ok(())
    }

    fn sort_members(&mut self, which: Range<usize>) {
        let bytes = self.out.bytes.used();
        let of = |m: &Member| bytes.get(m.key.at as usize..(m.key.at + m.key.len) as usize).unwrap_or(&[]);
        self.out.members.all[which].sort_unstable_by(|a, b| of(a).cmp(of(b)));
    }

    /// Sorts the members from `first` on and writes down their order.
    fn orders(&mut self, first: usize, n: usize, loc: u32) -> Res<u32> {
        self.sort_members(first..first + n);
        let from = self.out.orders.len;
        for _ in 0..=n {
            let order = Order { member: NONE, until: n as u16, rest: 0 };
            self.out.orders.push(order).map_err(|why| (why, loc))?;
        }
        let orders = &mut self.out.orders.all[from..];
        for (i, m) in self.out.members.all[first..first + n].iter().enumerate() {
            orders[usize::from(m.order)].member = i as u16;
        }
        for i in (0..n).rev() {
            let required = self.out.members.all[first + usize::from(orders[i].member)].required != 0;
            orders[i].until = if required { i as u16 } else { orders[i + 1].until };
        }
        Ok(from as u32)
    }

    /// The node of members that are not named; `NONE` where there may be none.
    fn other_members(&mut self, conj: &Conj, loc: u32) -> Res<u16> {
        let doc = self.doc;
        let others = |l: u32| doc.get(l, "additionalProperties");
        if conj.locs().filter_map(others).any(|o| doc.kind(o) == Json::False) {
            return Ok(NONE);
        }
        let said = conj.locs().any(|l| others(l).is_some());
        let named = conj.locs().any(|l| doc.get(l, "properties").is_some());
        if self.options.closed && named && !said {
            return Ok(NONE);
        }
        self.both(conj, conj.locs().filter_map(others), loc)
    }
}
