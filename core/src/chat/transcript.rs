//! Which tokens a model has seen, and how much of a conversation they say.

use core::fmt;

use super::Out;
use crate::arena::{ArenaFull, Space};
use crate::plan::Part;
use crate::text::{TextError, TokenKind, Tokenizer, scratch_len};

/// Bytes of text between two control tokens, for each token of context. Text
/// that takes more would hardly fit the context.
const BYTES_PER_TOKEN: usize = 8;

/// The tokens of a conversation, and room to compare another with it.
pub(super) struct Transcript<'a> {
    ids: &'a mut [u32],
    known: usize,
    fresh: &'a mut [u32],
    text: &'a mut [u8],
    scratch: &'a mut [u32],
}

impl<'a> Transcript<'a> {
    pub(super) fn lay_out<S: Space<'a>>(space: &mut S, context: usize) -> Result<Self, ArenaFull> {
        let text = context.saturating_mul(BYTES_PER_TOKEN);
        let part = Part::Scratch;
        Ok(Self {
            ids: space.take(part, "conversation tokens", context)?,
            known: 0,
            fresh: space.take(part, "new tokens", context)?,
            text: space.take(part, "conversation text", text)?,
            scratch: space.take(part, "conversation words", scratch_len(text))?,
        })
    }

    /// The tokens, in order.
    pub(super) fn ids(&self) -> &[u32] {
        &self.ids[..self.known]
    }

    pub(super) fn is_full(&self) -> bool {
        self.known == self.ids.len()
    }

    /// Adds a token; there must be room.
    pub(super) fn push(&mut self, id: u32) {
        self.ids[self.known] = id;
        self.known += 1;
    }

    /// Forgets all tokens from `n` on.
    pub(super) fn truncate(&mut self, n: usize) {
        self.known = self.known.min(n);
    }

    /// Begins to compare a conversation with the tokens.
    pub(super) fn compare<'t>(&'t mut self, tokenizer: &'t Tokenizer<'a>) -> Comparison<'t, 'a> {
        Comparison {
            of: self,
            tokenizer,
            at: 0,
            kept: None,
            len: 0,
            run: None,
            after: None,
            begun: false,
            failed: None,
        }
    }
}

/// Why a conversation is no sequence of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// It is longer than the context.
    Full,
    /// Its text has no tokens.
    Text(TextError),
}

/// A conversation being written, compared with the tokens as it comes. The
/// tokens stay the old ones as far as they say the same, however they cut it;
/// from there on they are replaced.
pub(super) struct Comparison<'t, 'a> {
    of: &'t mut Transcript<'a>,
    tokenizer: &'t Tokenizer<'a>,
    /// Tokens of the conversation so far.
    at: usize,
    /// How many of them are old, once one is not.
    kept: Option<usize>,
    /// Bytes of text since the last control token.
    len: usize,
    /// Where in them the template's own text begins that has not been searched
    /// for control tokens.
    run: Option<usize>,
    /// The last control token, where there is one.
    after: Option<u32>,
    begun: bool,
    failed: Option<Failed>,
}

/// How far known tokens say a text.
struct Said {
    tokens: usize,
    bytes: usize,
    /// They end before the text or with it; otherwise they say something else.
    agrees: bool,
}

impl Comparison<'_, '_> {
    /// Ends the conversation: how many tokens it has, and how many of those are
    /// the old ones. What was replaced is forgotten even where this fails.
    pub(super) fn finish(mut self) -> Result<(usize, usize), Failed> {
        if self.failed.is_none() {
            let _ = self.search().and_then(|()| self.flush(self.len));
        }
        let kept = self.kept.unwrap_or(self.at);
        match self.failed {
            None => {
                self.of.known = self.at;
                Ok((self.at, kept))
            }
            Some(failed) => {
                self.of.truncate(kept);
                Err(failed)
            }
        }
    }

    fn fail(&mut self, failed: Failed) -> fmt::Error {
        self.failed.get_or_insert(failed);
        fmt::Error
    }

    /// Adds text.
    fn append(&mut self, s: &str) -> fmt::Result {
        if self.len + s.len() > self.of.text.len() {
            self.search()?;
        }
        let Some(room) = self.of.text.get_mut(self.len..self.len + s.len()) else {
            return Err(self.fail(Failed::Full));
        };
        room.copy_from_slice(s.as_bytes());
        self.len += s.len();
        Ok(())
    }

    /// Takes the control tokens out of the template's own text, and with each
    /// the text before it.
    fn search(&mut self) -> fmt::Result {
        let Some(mut run) = self.run.take() else { return Ok(()) };
        while let Some((id, found)) = self.tokenizer.find_special(&self.of.text[run..self.len]) {
            self.flush(run + found.start)?;
            self.begin(id)?;
            self.put(id)?;
            self.of.text.copy_within(run + found.end..self.len, 0);
            self.len -= run + found.end;
            (run, self.after) = (0, Some(id));
        }
        Ok(())
    }

    /// The token that begins texts, where `first` is another.
    fn begin(&mut self, first: u32) -> fmt::Result {
        if core::mem::replace(&mut self.begun, true) || !self.tokenizer.adds_bos() {
            return Ok(());
        }
        match self.tokenizer.bos().filter(|&bos| bos != first) {
            Some(bos) => self.put(bos),
            None => Ok(()),
        }
    }

    fn is_old(&self) -> bool {
        self.kept.is_none()
    }

    /// Adds one token.
    fn put(&mut self, id: u32) -> fmt::Result {
        if self.is_old() && self.of.ids().get(self.at) == Some(&id) {
            self.at += 1;
            return Ok(());
        }
        self.kept.get_or_insert(self.at);
        let Some(slot) = self.of.ids.get_mut(self.at) else { return Err(self.fail(Failed::Full)) };
        *slot = id;
        self.at += 1;
        Ok(())
    }

    /// Adds the first `len` bytes of text, which lie between control tokens.
    fn flush(&mut self, len: usize) -> fmt::Result {
        let strip = self.tokenizer.stripped_after(self.after, &self.of.text[..len]);
        if strip == len {
            return Ok(());
        }
        self.begin(u32::MAX)?;
        if !self.is_old() {
            return self.encode(strip, len, true);
        }
        let said = self.said(&self.of.text[strip..len]);
        if said.agrees && (said.bytes == len - strip || self.at + said.tokens == self.of.known) {
            self.at += said.tokens;
            if said.bytes == len - strip {
                return Ok(());
            }
            self.kept = Some(self.at);
            return self.encode(strip + said.bytes, len, said.tokens == 0);
        }
        // Cut as it would be without the old tokens; some of those may be the same.
        let n = self.tokens_of(strip, len, true)?;
        let old = &self.of.ids[self.at..self.of.known];
        let same = old.iter().zip(&self.of.fresh[..n]).take_while(|(a, b)| a == b).count();
        self.kept = Some(self.at + same);
        self.copy(n)
    }

    /// Adds the tokens of text bytes `from..to`.
    fn encode(&mut self, from: usize, to: usize, first: bool) -> fmt::Result {
        let n = self.tokens_of(from, to, first)?;
        self.copy(n)
    }

    fn copy(&mut self, n: usize) -> fmt::Result {
        self.of.ids[self.at..self.at + n].copy_from_slice(&self.of.fresh[..n]);
        self.at += n;
        Ok(())
    }

    /// Encodes text bytes `from..to` for the room that is left; `first` where
    /// nothing but a control token is before them.
    fn tokens_of(&mut self, from: usize, to: usize, first: bool) -> Result<usize, fmt::Error> {
        let Transcript { ids, fresh, text, scratch, .. } = &mut *self.of;
        let room = ids.len() - self.at;
        match self.tokenizer.encode_piece(&text[from..to], first, scratch, &mut fresh[..room]) {
            Ok(n) => Ok(n),
            Err(TextError::Out { .. } | TextError::Scratch { .. }) => Err(self.fail(Failed::Full)),
            Err(e) => Err(self.fail(Failed::Text(e))),
        }
    }

    /// How far the known tokens from here on say `text`.
    fn said(&self, text: &[u8]) -> Said {
        let mut said = Said { tokens: 0, bytes: 0, agrees: true };
        for &id in &self.of.ids()[self.at..] {
            let rest = &text[said.bytes..];
            if rest.is_empty() {
                break;
            }
            let Some(n) = self.says(id, rest, said.tokens == 0) else {
                said.agrees = false;
                break;
            };
            (said.tokens, said.bytes) = (said.tokens + 1, said.bytes + n);
        }
        said
    }

    /// How many bytes token `id` says, where `text` begins with them. The space
    /// that `SentencePiece` puts before a text, here where it is the `first`,
    /// says nothing.
    fn says(&self, id: u32, text: &[u8], first: bool) -> Option<usize> {
        if matches!(self.tokenizer.token_kind(id), TokenKind::Control | TokenKind::Unknown) {
            return None;
        }
        let says = |skip: usize| {
            let mut n = 0;
            self.tokenizer.bytes(id, false).skip(skip).all(|b| {
                n += 1;
                text.get(n - 1) == Some(&b)
            }) && n > 0
        };
        let len = self.tokenizer.bytes(id, false).count();
        let space =
            || first && self.tokenizer.adds_space() && self.tokenizer.bytes(id, false).next() == Some(b' ');
        match () {
            () if says(0) => Some(len),
            () if space() && (len == 1 || says(1)) => Some(len - 1),
            () => None,
        }
    }
}

impl Out for Comparison<'_, '_> {
    fn control(&mut self, s: &str) -> fmt::Result {
        if self.failed.is_some() {
            return Err(fmt::Error);
        }
        let at = self.len;
        self.run.get_or_insert(at);
        self.append(s)
    }

    fn text(&mut self, s: &str) -> fmt::Result {
        if self.failed.is_some() {
            return Err(fmt::Error);
        }
        self.search()?;
        self.append(s)
    }
}
