//! Where `$ref` leads, and whether the alternatives of `oneOf` are apart.

use super::spec::{self, Types};
use super::{Compiler, Conj, Res, Why};
use crate::Name;
use crate::grammar::json::{Kind, Text};

impl Compiler<'_, '_, '_> {
    /// The subschema that `$ref: name` of `loc` names: `#` or `#/…`, from the
    /// nearest schema around with an `$id` of its own.
    pub(super) fn target(&self, loc: u32, name: u32) -> Res<u32> {
        let text = self.doc.text(name);
        let lost = (Why::Ref(Name::new(text.raw())), name);
        let Some(path) = text.raw().strip_prefix('#') else { return Err(lost) };
        let mut here = self.base(loc);
        if path.is_empty() {
            return Ok(here);
        }
        let Some(path) = path.strip_prefix('/') else { return Err(lost) };
        for part in path.split('/') {
            here = self.step_into(here, part).ok_or(lost)?;
        }
        if self.doc.is_schema(here) { Ok(here) } else { Err(lost) }
    }

    fn step_into(&self, here: u32, part: &str) -> Option<u32> {
        match self.doc.kind(here) {
            Kind::Object => {
                let is = |key: Text<'_>| key.chars().eq(pointer_chars(part));
                self.doc.members(here).find(|&(k, _)| is(self.doc.text(k))).map(|(_, v)| v)
            }
            Kind::Array => self.doc.elements(here).nth(part.parse().ok()?),
            _ => None,
        }
    }

    /// The nearest schema around `loc`, itself included, that has an `$id`.
    fn base(&self, loc: u32) -> u32 {
        let (mut here, mut base) = (0, 0);
        loop {
            if self.doc.get(here, "$id").is_some_and(|id| self.doc.kind(id) == Kind::Str) {
                base = here;
            }
            let holds = |v: u32| v <= loc && loc < self.doc.next(v);
            let member = self.doc.members(here).map(|m| m.1).find(|&v| holds(v));
            match member.or_else(|| self.doc.elements(here).find(|&v| holds(v))) {
                Some(next) if here != loc => here = next,
                _ => return base,
            }
        }
    }

    /// Errs unless no value satisfies two of the alternatives.
    pub(super) fn check_apart(&self, list: u32) -> Res<()> {
        for (i, a) in self.doc.elements(list).enumerate() {
            for (j, b) in self.doc.elements(list).enumerate().skip(i + 1) {
                if !self.apart(a, b)? {
                    return Err((Why::OneOf { first: i as u32, second: j as u32 }, list));
                }
            }
        }
        Ok(())
    }

    fn whole(&self, loc: u32) -> Res<Conj> {
        let mut conj = Conj::new(0);
        conj.add(loc)?;
        self.expand(&mut conj)?;
        Ok(conj)
    }

    fn apart(&self, a: u32, b: u32) -> Res<bool> {
        let (a, b) = (self.whole(a)?, self.whole(b)?);
        let (x, y) = (self.types(&a)?, self.types(&b)?);
        if x & y == 0 || self.constants_apart(&a, &b) {
            return Ok(true);
        }
        if x & y != spec::OBJECT {
            return Ok(false);
        }
        // A member that both require and of which both name the values.
        for loc in a.locs() {
            let listed = self.doc.get(loc, "properties");
            for (key, value) in listed.into_iter().flat_map(|p| self.doc.members(p)) {
                let key = self.doc.text(key);
                let other = b.locs().find_map(|l| self.doc.get_text(self.doc.get(l, "properties")?, key));
                if let Some(other) = other
                    && self.requires(&a, key)
                    && self.requires(&b, key)
                    && self.constants_apart(&self.whole(value)?, &self.whole(other)?)
                {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Whether a member is required.
    pub(super) fn requires(&self, conj: &Conj, key: Text<'_>) -> bool {
        let mut lists = conj.locs().filter_map(|l| self.doc.get(l, "required"));
        lists.any(|list| self.doc.elements(list).any(|name| self.doc.text(name).same(key)))
    }

    /// Types of a set, by what it says and the constants it lists.
    fn types(&self, conj: &Conj) -> Res<Types> {
        let types = spec::types(&self.doc, conj)?;
        let listed = self.constants(conj).fold(0, |m, c| m | spec::type_of(&self.doc, c));
        Ok(if listed == 0 { types } else { types & listed })
    }

    /// Both list their values, and none is in both lists.
    fn constants_apart(&self, a: &Conj, b: &Conj) -> bool {
        let (mut x, y) = (self.constants(a).peekable(), || self.constants(b));
        x.peek().is_some() && y().next().is_some() && x.all(|i| y().all(|j| self.unlike(i, j)))
    }

    /// Whether two values surely differ.
    fn unlike(&self, a: u32, b: u32) -> bool {
        use crate::grammar::number::Decimal;
        match (self.doc.kind(a), self.doc.kind(b)) {
            (Kind::Number, Kind::Number) => {
                let read = |i| Decimal::read(self.doc.raw(i));
                read(a).zip(read(b)).is_some_and(|(a, b)| a != b)
            }
            (Kind::Array, Kind::Array) | (Kind::Object, Kind::Object) => false,
            _ => !self.doc.same(a, b),
        }
    }
}

/// The characters that part of a JSON pointer in a URI fragment stands for.
/// Percent signs escape ASCII only.
fn pointer_chars(part: &str) -> impl Iterator<Item = char> {
    let mut rest = Text::plain(part).chars();
    let percent = move || {
        let c = rest.next()?;
        let mut ahead = rest.clone();
        let digits = ahead.next().and_then(|c| c.to_digit(16)).zip(ahead.next().and_then(|c| c.to_digit(16)));
        let (high, low) = match digits {
            Some(d) if c == '%' => d,
            _ => return Some(c),
        };
        rest = ahead;
        char::from_u32(high * 16 + low)
    };
    let mut plain = core::iter::from_fn(percent).peekable();
    core::iter::from_fn(move || match (plain.next()?, plain.peek()) {
        ('~', Some('0')) => plain.next().map(|_| '~'),
        ('~', Some('1')) => plain.next().map(|_| '/'),
        (c, _) => Some(c),
    })
}
