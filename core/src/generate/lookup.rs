//! Guessing what comes next from what came before (prompt lookup; Saxena,
//! 2023): the tokens that followed the earlier place most like this one, which
//! is the one that shares the longest run of last tokens.
//!
//! A wrong guess costs time. How likely a guess is to come true depends on how
//! long the run is, and on the text; how much it costs, on the machine. Both are
//! learnt on the way, and as many tokens are guessed as should gain most.

use crate::arena::{ArenaFull, Space};
use crate::plan::Part;

/// Most tokens guessed at once.
pub const MOST_DRAFTS: usize = 7;

/// Shortest and longest run of tokens looked for.
const SHORTEST: usize = 2;
const LONGEST: usize = 24;

/// Runs are as good as others up to these lengths.
const UP_TO: [usize; 6] = [2, 3, 5, 8, 15, LONGEST];

/// How likely the token after a run of each length comes true in a text of which
/// nothing is known yet: what JSON and tool calls were found to have.
const AT_FIRST: [f32; 6] = [0.5, 0.65, 0.75, 0.85, 0.9, 0.95];

/// How much one outcome counts.
const LEARN: f32 = 0.1;

/// How much each token takes what was learnt back to what was known at first,
/// so that a text that changes is tried again.
const FORGET: f32 = 1.0 / 256.0;

/// What a guess must promise to gain: the promise is not exact.
const MARGIN: f32 = 1.02;

/// What each further token of a batch costs before it has been measured, as a
/// part of a token alone.
const COST_AT_FIRST: f32 = 0.3;

/// The text so far, and how well guessing went.
pub struct Lookup<'a> {
    history: &'a mut [u32],
    len: usize,
    /// How likely a token comes true, by length of the run before it.
    odds: [f32; UP_TO.len()],
    /// Which of them the last guess was made by.
    tried: usize,
    /// Microseconds that a token takes with so many guesses after it; 0 where it
    /// was never measured.
    times: [f32; 1 + MOST_DRAFTS],
}

impl<'a> Lookup<'a> {
    /// Takes memory for a text of `tokens`.
    pub fn lay_out<S: Space<'a>>(space: &mut S, tokens: usize) -> Result<Self, ArenaFull> {
        let history = space.take(Part::Scratch, "text so far", tokens)?;
        Ok(Self { history, len: 0, odds: AT_FIRST, tried: 0, times: [0.0; 1 + MOST_DRAFTS] })
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
        for (odds, first) in self.odds.iter_mut().zip(AT_FIRST) {
            *odds += (first - *odds) * FORGET;
        }
    }

    /// Guesses what follows the text; returns how many tokens, 0 for none.
    pub fn draft(&mut self, out: &mut [u32]) -> usize {
        // What a token alone takes must be known first.
        if self.times[0] == 0.0 {
            return 0;
        }
        let text = &self.history[..self.len];
        let Some((run, follows)) = most_alike(text) else { return 0 };
        self.tried = UP_TO.iter().position(|&to| run <= to).unwrap_or(UP_TO.len() - 1);
        let n = self.best(out.len().min(MOST_DRAFTS).min(text.len() - follows));
        out[..n].copy_from_slice(&text[follows..follows + n]);
        n
    }

    /// How many guesses, up to `most`, promise most tokens for the time.
    fn best(&self, most: usize) -> usize {
        let odds = self.odds[self.tried];
        let (mut best, mut gain) = (0, MARGIN);
        let (mut tokens, mut all) = (1.0, 1.0);
        for n in 1..=most {
            all *= odds;
            tokens += all;
            let promise = tokens / self.cost(n);
            if promise > gain {
                (best, gain) = (n, promise);
            }
        }
        best
    }

    /// What a token with `n` guesses takes, in times of a token alone.
    fn cost(&self, n: usize) -> f32 {
        match self.times[n] {
            0.0 => 1.0 + COST_AT_FIRST * n as f32,
            time => time / self.times[0],
        }
    }

    /// Takes note that a token with `guessed` guesses after it took `micros`.
    pub fn took(&mut self, guessed: usize, micros: u64) {
        let (time, new) = (&mut self.times[guessed.min(MOST_DRAFTS)], micros.max(1) as f32);
        *time = if *time == 0.0 { new } else { (3.0 * *time + new) / 4.0 };
    }

    /// Takes note that of `guessed` tokens the first `kept` came true.
    pub fn learn(&mut self, guessed: usize, kept: usize) {
        let odds = &mut self.odds[self.tried];
        for _ in 0..kept {
            *odds += (1.0 - *odds) * LEARN;
        }
        if kept < guessed {
            *odds -= *odds * LEARN;
        }
    }
}

/// The longest run of tokens, up to [`LONGEST`], that ends the text and occurs
/// earlier; the latest such place, as the run's length and where it goes on.
fn most_alike(text: &[u32]) -> Option<(usize, usize)> {
    let (&last, before) = text.split_last()?;
    let (mut longest, mut follows) = (SHORTEST - 1, None);
    for at in (1..text.len()).rev() {
        if text[at - 1] != last {
            continue;
        }
        let same = before.iter().rev().zip(text[..at - 1].iter().rev()).take(LONGEST - 1);
        let run = 1 + same.take_while(|(a, b)| a == b).count();
        if run > longest {
            (longest, follows) = (run, Some(at));
            if run == LONGEST {
                break;
            }
        }
    }
    Some((longest, follows?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::Arena;

    fn drafts(text: &[u32], room: usize) -> std::vec::Vec<u32> {
        let mut memory = [0u8; 1024];
        let mut lookup = Lookup::lay_out(&mut Arena::new(&mut memory), 64).unwrap();
        lookup.took(0, 100);
        // Batches cost next to nothing: as many as there are.
        (1..=MOST_DRAFTS).for_each(|n| lookup.took(n, 101));
        text.iter().for_each(|&id| lookup.push(id));
        let mut out = std::vec![0; room];
        let n = lookup.draft(&mut out);
        out.truncate(n);
        out
    }

    #[test]
    fn guesses_what_followed_the_longest_run() {
        assert_eq!(drafts(&[1, 2, 3, 4, 5, 9, 1, 2, 3], 7), [4, 5, 9, 1, 2, 3]);
        assert_eq!(drafts(&[1, 2, 7, 7, 1, 2, 8, 8, 1, 2], 3), [8, 8, 1]);
        // Three alike far back beat two alike nearby.
        assert_eq!(drafts(&[6, 1, 2, 7, 7, 1, 2, 8, 8, 6, 1, 2], 2), [7, 7]);
        assert_eq!(drafts(&[5, 5, 5, 5], 7), [5]);
        assert!(drafts(&[1, 2, 3, 4], 7).is_empty());
        assert!(drafts(&[9, 1, 8, 1], 7).is_empty(), "one token alike is too few");
        assert!(drafts(&[], 7).is_empty());
        assert!(drafts(&[1, 2, 3, 4, 1, 2], 0).is_empty());
    }

    #[test]
    fn guesses_as_many_as_pay() {
        let mut memory = [0u8; 1024];
        let mut lookup = Lookup::lay_out(&mut Arena::new(&mut memory), 64).unwrap();
        let mut out = [0; MOST_DRAFTS];
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3].iter().for_each(|&id| lookup.push(id));
        assert_eq!(lookup.draft(&mut out), 0, "nothing is known of time");
        lookup.took(0, 100);
        let usual = lookup.draft(&mut out);
        assert!((1..MOST_DRAFTS).contains(&usual), "{usual}");
        (0..20).for_each(|_| lookup.learn(usual, usual));
        assert_eq!(lookup.draft(&mut out), MOST_DRAFTS, "all came true");
        (1..=MOST_DRAFTS).for_each(|n| lookup.took(n, 100 * (1 + n as u64)));
        assert_eq!(lookup.draft(&mut out), 0, "a batch costs as much as its tokens");
    }

    #[test]
    fn failures_end_guessing_for_a_while() {
        let mut memory = [0u8; 4096];
        let mut lookup = Lookup::lay_out(&mut Arena::new(&mut memory), 600).unwrap();
        let mut out = [0; MOST_DRAFTS];
        lookup.took(0, 100);
        [1, 2, 3, 1, 2].iter().for_each(|&id| lookup.push(id));
        let mut failures = 0;
        while lookup.draft(&mut out) > 0 {
            lookup.learn(1, 0);
            failures += 1;
        }
        assert!((1..10).contains(&failures), "{failures}");
        (0..200).for_each(|_| [1, 2].iter().for_each(|&id| lookup.push(id)));
        assert!(lookup.draft(&mut out) > 0, "tried again after hundreds of tokens");
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
