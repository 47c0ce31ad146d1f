//! Guessing what comes next from what came before (prompt lookup; Saxena,
//! 2023): the tokens that followed the latest earlier occurrence of the last
//! few.
//!
//! A wrong guess costs time, so guesses grow while they come true and pause for
//! longer and longer while they do not.

use crate::arena::{ArenaFull, Space};
use crate::plan::Part;

/// Most tokens guessed at once.
pub const MOST_DRAFTS: usize = 7;

/// How many last tokens must have occurred before: more is surer. Two are
/// enough only while guesses come true.
const LONGEST: usize = 4;
const SURE: usize = 3;

/// Fewest tokens guessed; one alone hardly pays for its batch.
const FEWEST: usize = 2;

/// Longest pause, in tokens.
const LONGEST_PAUSE: usize = 64;

/// The text so far, and how well guessing went.
pub struct Lookup<'a> {
    history: &'a mut [u32],
    len: usize,
    /// Tokens to guess next time.
    reach: usize,
    /// Tokens to let pass before the next guess, and after the next failure.
    wait: usize,
    pause: usize,
}

impl<'a> Lookup<'a> {
    /// Takes memory for a text of `tokens`.
    pub fn lay_out<S: Space<'a>>(space: &mut S, tokens: usize) -> Result<Self, ArenaFull> {
        let history = space.take(Part::Scratch, "text so far", tokens)?;
        Ok(Self { history, len: 0, reach: 3, wait: 0, pause: 1 })
    }

    /// Forgets the text, but not how well guessing goes.
    pub fn forget(&mut self) {
        self.len = 0;
    }

    /// Adds a token to the text. Past the memory, the older half is forgotten.
    pub fn push(&mut self, id: u32) {
        if self.history.is_empty() {
            return;
        }
        if self.len == self.history.len() {
            let half = self.len.div_ceil(2);
            self.history.copy_within(half.., 0);
            self.len -= half;
        }
        self.history[self.len] = id;
        self.len += 1;
        self.wait = self.wait.saturating_sub(1);
    }

    /// Guesses what follows the text; returns how many tokens, 0 for none.
    pub fn draft(&self, out: &mut [u32]) -> usize {
        let reach = self.reach.min(out.len());
        if self.wait > 0 || reach < FEWEST {
            return 0;
        }
        let text = &self.history[..self.len];
        let least = if self.pause == 1 { 2 } else { SURE };
        for n in (least..=LONGEST).rev() {
            if let Some(follows) = latest(text, n) {
                let guess = &text[follows..text.len().min(follows + reach)];
                if guess.len() >= FEWEST {
                    out[..guess.len()].copy_from_slice(guess);
                    return guess.len();
                }
            }
        }
        0
    }

    /// Takes note that of `guessed` tokens the first `kept` came true, and
    /// whether that saved time.
    pub fn learn(&mut self, guessed: usize, kept: usize, pays: bool) {
        if pays && kept == guessed {
            (self.reach, self.pause) = ((self.reach + 2).min(MOST_DRAFTS), 1);
        } else if pays {
            (self.reach, self.pause) = (kept.max(FEWEST), 1);
        } else {
            self.reach = (self.reach / 2).max(FEWEST);
            self.wait = self.pause;
            self.pause = (self.pause * 4).min(LONGEST_PAUSE);
        }
    }
}

/// Where the text goes on after the latest earlier occurrence of its last `n`
/// tokens.
fn latest(text: &[u32], n: usize) -> Option<usize> {
    let end = text.len();
    let last = &text[end.checked_sub(n)?..];
    // The occurrence ends before the text does, so that something follows it.
    (n..end).rev().find(|&at| text[at - n..at] == *last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::Arena;

    fn drafts(text: &[u32], room: usize) -> std::vec::Vec<u32> {
        let mut memory = [0u8; 1024];
        let mut lookup = Lookup::lay_out(&mut Arena::new(&mut memory), 64).unwrap();
        text.iter().for_each(|&id| lookup.push(id));
        let mut out = std::vec![0; room];
        let n = lookup.draft(&mut out);
        out.truncate(n);
        out
    }

    #[test]
    fn guesses_what_followed_last_time() {
        assert_eq!(drafts(&[1, 2, 3, 4, 5, 9, 1, 2, 3], 7), [4, 5, 9]);
        assert_eq!(drafts(&[1, 2, 7, 7, 1, 2, 8, 8, 1, 2], 7), [8, 8, 1]);
        assert_eq!(drafts(&[5, 5, 5, 5, 5, 5, 5, 5], 2).len(), 0); // one would follow
        assert!(drafts(&[1, 2, 3, 4], 7).is_empty());
        assert!(drafts(&[], 7).is_empty());
        assert!(drafts(&[1, 2, 3, 4, 1, 2], 1).is_empty());
    }

    #[test]
    fn failures_pause_and_successes_reach_further() {
        let mut memory = [0u8; 1024];
        let mut lookup = Lookup::lay_out(&mut Arena::new(&mut memory), 64).unwrap();
        let mut out = [0; MOST_DRAFTS];
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3].iter().for_each(|&id| lookup.push(id));
        assert_eq!(lookup.draft(&mut out), 3);
        lookup.learn(3, 3, true);
        assert_eq!(lookup.draft(&mut out), 5);
        lookup.learn(5, 0, false);
        assert_eq!(lookup.draft(&mut out), 0);
        lookup.push(4);
        assert_eq!(lookup.draft(&mut out), 2);
        lookup.learn(2, 0, false);
        (0..3).for_each(|_| lookup.push(1));
        assert_eq!(lookup.draft(&mut out), 0);
    }

    #[test]
    fn forgets_the_older_half_when_full() {
        let mut memory = [0u8; 1024];
        let mut lookup = Lookup::lay_out(&mut Arena::new(&mut memory), 8).unwrap();
        (0..100).for_each(|id| lookup.push(id));
        assert!(lookup.len <= 8 && lookup.history[lookup.len - 1] == 99);
        let mut none = Lookup::lay_out(&mut crate::plan::MemoryPlan::new(), 8).unwrap();
        none.push(1);
    }
}
