//! Values that a schema lists one by one.

use super::spec::{self, Types};
use super::{Compiler, Conj, Res, Why};
use crate::Name;
use crate::grammar::json::Kind as Json;
use crate::grammar::program::{Kind, NONE, Node, Spacing, Span};

impl<'c> Compiler<'c, '_, '_> {
    /// The set's first `const`, or else its first `enum`.
    fn source(&self, conj: &Conj) -> (Option<u32>, Option<u32>) {
        let said = |key| conj.locs().find_map(|loc| self.doc.get(loc, key));
        let one = said("const");
        (one, if one.is_some() { None } else { said("enum") })
    }

    /// What the set's first `const`, or else its first `enum`, lists.
    pub(super) fn constants(&self, conj: &Conj) -> impl Iterator<Item = u32> + use<'c> {
        let (doc, (one, list)) = (self.doc, self.source(conj));
        one.into_iter().chain(list.into_iter().flat_map(move |l| doc.elements(l)))
    }

    /// Whether value `at`, of the list `from` where it is of one, is one that all
    /// of the set's lists hold.
    fn is_listed(&self, conj: &Conj, at: u32, from: Option<u32>) -> bool {
        conj.locs().all(|loc| {
            let one = self.doc.get(loc, "const").is_none_or(|v| self.doc.same(v, at));
            let list = self.doc.get(loc, "enum").filter(|&list| Some(list) != from);
            one && list.is_none_or(|l| self.doc.elements(l).any(|v| self.doc.same(v, at)))
        })
    }

    /// The node of a set that lists its values, where it does.
    pub(super) fn listed(&mut self, conj: &Conj, types: Types) -> Res<Option<Node>> {
        let says = |key| conj.locs().find_map(|loc| self.doc.get(loc, key));
        let Some(at) = says("const").or_else(|| says("enum")) else { return Ok(None) };
        if let Some(list) = says("enum").filter(|&l| self.doc.elements(l).next().is_none()) {
            return Err((Why::Value { wanted: "a list of values" }, list));
        }
        let (inside, from, (_, source)) = (Self::is_inside(conj), self.out.texts.len, self.source(conj));
        for value in self.constants(conj) {
            let kind = spec::type_of(&self.doc, value);
            if kind & types == 0 || !self.is_listed(conj, value, source) {
                continue;
            }
            if let Some(key) = spec::bounding(&self.doc, conj, kind) {
                return Err((Why::Beside(Name::new(key)), at));
            }
            let start = self.out.bytes.len;
            self.write(value, inside).map_err(|why| (why, value))?;
            let span = self.out.span_from(start).map_err(|why| (why, value))?;
            self.out.texts.push(span).map_err(|why| (why, value))?;
        }
        self.texts(from, conj.flags as u8).map(Some).map_err(|why| (why, at))
    }

    /// The node of the texts from `from` on.
    pub(super) fn texts(&mut self, from: usize, flags: u8) -> Result<Node, Why> {
        let bytes = self.out.bytes.used();
        let of = |s: &Span| bytes.get(s.at as usize..(s.at + s.len) as usize).unwrap_or(&[]);
        let new = &mut self.out.texts.all[from..self.out.texts.len];
        new.sort_unstable_by(|a, b| of(a).cmp(of(b)));
        let mut n = 0;
        for i in 0..new.len() {
            if n == 0 || of(&new[n - 1]) != of(&new[i]) {
                new[n] = new[i];
                n += 1;
            }
        }
        self.out.texts.len = from + n;
        let kind = if n == 0 { Kind::Never } else { Kind::Texts };
        let most = usize::from(NONE - 1);
        if n > most {
            return Err(Why::Limit { what: "constants in one list", limit: most });
        }
        Ok(Node { b: from as u32, n: n as u16, ..Node::new(kind, flags) })
    }

    /// The node of some words.
    pub(super) fn words(&mut self, words: &[&str], flags: u8, loc: u32) -> Res<Node> {
        let from = self.out.texts.len;
        for word in words {
            let span = self.copy(word).map_err(|why| (why, loc))?;
            self.out.texts.push(span).map_err(|why| (why, loc))?;
        }
        self.texts(from, flags).map_err(|why| (why, loc))
    }

    /// Writes a value of the schema as it will be generated.
    fn write(&mut self, value: u32, inside: bool) -> Result<(), Why> {
        let doc = self.doc;
        let end = doc.next(value);
        // Where each list that is open ends, and whether it is an object.
        let (mut open, mut depth) = ([(0u32, false); 64], 0);
        let mut at = value;
        loop {
            let kind = doc.kind(at);
            match kind {
                Json::Str => self.write_text(at, inside)?,
                Json::Array | Json::Object => {
                    self.out.push_bytes(if kind == Json::Array { b"[" } else { b"{" })?;
                    let limit = Why::Limit { what: "levels of a constant", limit: open.len() };
                    *open.get_mut(depth).ok_or(limit)? = (doc.next(at), kind == Json::Object);
                    depth += 1;
                }
                _ => self.out.push_bytes(doc.raw(at).as_bytes())?,
            }
            let begun = matches!(kind, Json::Array | Json::Object);
            at += 1;
            while let Some(&(stop, object)) = open[..depth].last()
                && stop <= at
            {
                self.out.push_bytes(if object { b"}" } else { b"]" })?;
                depth -= 1;
            }
            if at >= end {
                return Ok(());
            }
            let object = open[..depth].last().is_some_and(|o| o.1);
            if !(begun && doc.next(at - 1) != at) {
                self.mark(b',')?;
            }
            if object {
                self.write_text(at, inside)?;
                self.mark(b':')?;
                at += 1;
            }
        }
    }

    fn mark(&mut self, mark: u8) -> Result<(), Why> {
        let space: &[u8] = if self.options.spacing == Spacing::Spaced { b" " } else { b"" };
        self.out.push_bytes(&[mark])?;
        self.out.push_bytes(space)
    }

    fn write_text(&mut self, text: u32, inside: bool) -> Result<(), Why> {
        self.out.push_bytes(b"\"")?;
        self.doc.text(text).chars().try_for_each(|c| self.out.push_char(c, inside))?;
        self.out.push_bytes(b"\"")
    }
}
