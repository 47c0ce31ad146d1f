//! The recent tokens, and what they cost.

use super::params::Params;

/// The last tokens, in no particular order: penalties only count them.
pub(super) struct History<'a> {
    /// A ring of which the first `window` places are used.
    ring: &'a mut [u32],
    /// Work space: the ring, sorted.
    sorted: &'a mut [u32],
    window: usize,
    len: usize,
    next: usize,
}

impl<'a> History<'a> {
    /// An empty history over two buffers of equal size.
    pub(super) fn new(ring: &'a mut [u32], sorted: &'a mut [u32]) -> Self {
        Self { ring, sorted, window: 0, len: 0, next: 0 }
    }

    /// The longest window there is room for.
    pub(super) fn room(&self) -> usize {
        self.ring.len().min(self.sorted.len())
    }

    /// Forgets all and keeps the last `window` tokens from now on; at most
    /// [`Self::room`].
    pub(super) fn restart(&mut self, window: usize) {
        (self.window, self.len, self.next) = (window.min(self.room()), 0, 0);
    }

    pub(super) fn push(&mut self, id: u32) {
        if let Some(slot) = self.ring[..self.window].get_mut(self.next) {
            *slot = id;
            self.len = self.len.max(self.next + 1);
            self.next = (self.next + 1) % self.window;
        }
    }

    /// Takes the penalties of recent tokens off their logits. Ids without a
    /// logit are passed over.
    pub(super) fn penalize(&mut self, params: &Params, logits: &mut [f32]) {
        let sorted = &mut self.sorted[..self.len];
        sorted.copy_from_slice(&self.ring[..self.len]);
        sorted.sort_unstable();
        for same in sorted.chunk_by(|a, b| a == b) {
            if let Some(logit) = logits.get_mut(same[0] as usize) {
                // Below zero, dividing would make the token likelier.
                let scaled = if *logit > 0.0 {
                    *logit / params.repeat_penalty
                } else {
                    *logit * params.repeat_penalty
                };
                let counted = same.len() as f32 * params.frequency_penalty;
                *logit = scaled - (counted + params.presence_penalty);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn penalties_follow_their_definitions() {
        let (mut ring, mut sorted) = ([9; 4], [9; 4]);
        let mut history = History::new(&mut ring, &mut sorted);
        history.restart(4);
        let params = Params {
            repeat_penalty: 2.0,
            frequency_penalty: 0.5,
            presence_penalty: 0.25,
            ..Params::default()
        };
        [7, 0, 1, 1, 900].into_iter().for_each(|id| history.push(id)); // 7 falls out, 900 has no logit
        let mut logits = [4.0, -4.0, 0.0, 4.0, f32::INFINITY, 0.0, 0.0, 1.0];
        history.penalize(&params, &mut logits);
        assert_eq!(logits, [2.0 - 0.75, -8.0 - 1.25, 0.0, 4.0, f32::INFINITY, 0.0, 0.0, 1.0]);
    }

    #[test]
    fn keeps_exactly_the_window() {
        let (mut ring, mut sorted) = ([0; 8], [0; 8]);
        let mut history = History::new(&mut ring, &mut sorted);
        let params = Params { presence_penalty: 1.0, ..Params::default() };
        for window in [0, 1, 3, 8] {
            history.restart(window);
            for id in 0..20u32 {
                history.push(id);
                let mut logits = [0.0f32; 20];
                history.penalize(&params, &mut logits);
                for (other, &logit) in logits.iter().enumerate() {
                    let recent = other as u32 <= id && other + window > id as usize;
                    assert_eq!(logit, if recent { -1.0 } else { 0.0 }, "window {window}, {id}: {other}");
                }
            }
        }
    }
}
