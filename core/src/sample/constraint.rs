//! What a sampler asks of whoever limits its choice.

/// A limit on the tokens that may come, such as a grammar.
///
/// The sampler chooses freely first and asks about its choice; only where that
/// is refused are all other tokens looked at. The choice is then made again
/// among those allowed, so that each comes with the probability that it has
/// among them.
pub trait Constraint {
    /// Whether token `id` may come next.
    fn allows(&mut self, id: u32) -> bool;

    /// Sets the logits of all tokens that may not come to minus infinity.
    fn forbid(&mut self, logits: &mut [f32]);

    /// Takes note that `id` came next.
    fn accept(&mut self, id: u32);

    /// Writes to `out` tokens that must come next, whatever the logits; returns
    /// how many. They have not come yet.
    fn forced(&mut self, out: &mut [u32]) -> usize {
        let _ = out;
        0
    }
}
