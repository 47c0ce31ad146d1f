//! Rotary positions: cosines and sines for every position, computed once.
//!
//! Pair i of a head turns by position · base^(−2i/d), divided by the linear
//! scale and by Llama 3's factor for the pair where the model has them (Su et
//! al., RoFormer, 2021). Angles are computed in `f64` by the same portable code
//! everywhere, then rounded once to `f32`.

use super::arch::RopeKind;
use super::config::Config;
use crate::arena::{ArenaFull, Space};
use crate::plan::Part;

/// Cosine and sine of each pair at each position.
pub struct RopeTable<'a> {
    /// `[position][pair][cos, sin]`
    table: &'a [f32],
    pairs: usize,
    kind: RopeKind,
}

/// Takes the table's memory.
pub(super) fn lay_out<'a, S: Space<'a>>(
    space: &mut S,
    config: &Config,
    context: usize,
) -> Result<&'a mut [f32], ArenaFull> {
    space.take(Part::Rope, "cosines and sines", context.saturating_mul(config.rope_dim))
}

impl<'a> RopeTable<'a> {
    /// Fills `table`, which [`lay_out`] took. `factors` are little-endian
    /// `f32`, one per pair.
    pub(super) fn fill(table: &'a mut [f32], config: &Config, factors: Option<&[u8]>) -> Self {
        let pairs = config.rope_dim / 2;
        for i in 0..pairs {
            let exponent = -2.0 * i as f64 / config.rope_dim as f64;
            let mut turn = libm::pow(f64::from(config.rope_base), exponent) / f64::from(config.rope_scale);
            if let Some(f) = factors.and_then(|f| f.get(4 * i..4 * i + 4)) {
                turn /= f64::from(f32::from_le_bytes([f[0], f[1], f[2], f[3]]));
            }
            for (position, row) in table.chunks_exact_mut(2 * pairs).enumerate() {
                let (sin, cos) = libm::sincos(position as f64 * turn);
                row[2 * i] = cos as f32;
                row[2 * i + 1] = sin as f32;
            }
        }
        Self { table, pairs, kind: config.arch.rope }
    }

    /// Turns one head at `position`. Panics past the table.
    pub fn rotate(&self, head: &mut [f32], position: usize) {
        let row = &self.table[position * 2 * self.pairs..][..2 * self.pairs];
        match self.kind {
            RopeKind::Neighbours => {
                for (x, turn) in head.chunks_exact_mut(2).zip(row.chunks_exact(2)) {
                    (x[0], x[1]) = turned(x[0], x[1], turn);
                }
            }
            RopeKind::Halves => {
                let (low, high) = head[..2 * self.pairs].split_at_mut(self.pairs);
                for ((a, b), turn) in low.iter_mut().zip(high).zip(row.chunks_exact(2)) {
                    (*a, *b) = turned(*a, *b, turn);
                }
            }
        }
    }
}

fn turned(a: f32, b: f32, turn: &[f32]) -> (f32, f32) {
    (a * turn[0] - b * turn[1], a * turn[1] + b * turn[0])
}
