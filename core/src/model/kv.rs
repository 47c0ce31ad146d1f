//! Keys and values of past tokens, half precision, in pages.
//!
//! ```text
//! [layer][page][keys, values][head][token in page][number]
//! ```
//!
//! A page of a layer holds [`PAGE`] tokens, keys and values of all heads, and
//! is one run of memory: the unit that can be moved elsewhere. A row is a
//! head's numbers rounded up to eight, the padding zero.

use super::config::Config;
use crate::arena::{ArenaFull, Space};
use crate::kernels::{HeadPages, Kernels, PAGE};
use crate::plan::Part;

/// The cache of all layers.
pub struct KvCache<'a> {
    data: &'a mut [u16],
    heads: usize,
    head_dim: usize,
    /// Numbers per row.
    row: usize,
    pages: usize,
}

impl<'a> KvCache<'a> {
    /// Room for `context` tokens, rounded up to whole pages.
    pub(super) fn lay_out<S: Space<'a>>(
        space: &mut S,
        config: &Config,
        context: usize,
    ) -> Result<Self, ArenaFull> {
        let pages = context.div_ceil(PAGE);
        let row = config.head_dim.next_multiple_of(8);
        let page = 2 * config.kv_heads * PAGE * row;
        let elements = page.saturating_mul(pages).saturating_mul(config.layers);
        let data = space.take(Part::Kv, "keys and values", elements)?;
        Ok(Self { data, heads: config.kv_heads, head_dim: config.head_dim, row, pages })
    }

    fn page_len(&self) -> usize {
        2 * self.heads * PAGE * self.row
    }

    /// Stores the keys and values of one token in one layer; panics past the
    /// room.
    pub(super) fn put(&mut self, kernels: &Kernels, layer: usize, position: usize, k: &[f32], v: &[f32]) {
        let page_len = self.page_len();
        let page = &mut self.data[(layer * self.pages + position / PAGE) * page_len..][..page_len];
        let (keys, values) = page.split_at_mut(page_len / 2);
        for (side, from) in [(keys, k), (values, v)] {
            for (head, from) in from.chunks_exact(self.head_dim).enumerate() {
                let to = &mut side[(head * PAGE + position % PAGE) * self.row..][..self.row];
                kernels.to_f16(from, &mut to[..self.head_dim]);
                to[self.head_dim..].fill(0);
            }
        }
    }

    /// Bytes that the keys and values of a token take, all layers together.
    pub(super) fn token_bytes(&self, layers: usize) -> usize {
        layers * 2 * self.heads * self.row * 2
    }

    /// Goes through the rows of tokens `0..n` in an order that depends on
    /// nothing but `n`: each row, where there is room for its token, and the
    /// token.
    pub(super) fn rows(
        &mut self,
        layers: usize,
        n: usize,
        mut each: impl FnMut(usize, Option<&mut [u16]>) -> bool,
    ) -> bool {
        let (page_len, row, heads) = (self.page_len(), self.row, self.heads);
        for layer in 0..layers {
            for page in 0..n.div_ceil(PAGE) {
                // Keys of all heads, then values of all heads.
                for side in 0..2 * heads {
                    for token in page * PAGE..n.min((page + 1) * PAGE) {
                        let at = (layer * self.pages + page) * page_len + (side * PAGE + token % PAGE) * row;
                        let here = if page < self.pages { self.data.get_mut(at..at + row) } else { None };
                        if !each(token, here) {
                            return false;
                        }
                    }
                }
            }
        }
        true
    }

    /// Numbers per row.
    pub(super) fn row(&self) -> usize {
        self.row
    }

    /// What a query head sees of key and value head `head`.
    pub(super) fn head(&self, layer: usize, head: usize) -> HeadPages<'_> {
        let page_len = self.page_len();
        let layer = &self.data[layer * self.pages * page_len..][..self.pages * page_len];
        let at = head * PAGE * self.row;
        HeadPages {
            k: &layer[at..],
            v: &layer[page_len / 2 + at..],
            page_stride: page_len,
            head_dim: self.head_dim,
        }
    }
}
