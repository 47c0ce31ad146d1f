//! One file per verb.

pub(crate) mod agent;
pub(crate) mod bench;
pub(crate) mod chat;
pub(crate) mod eval;
pub(crate) mod inspect;
pub(crate) mod picolm;
pub(crate) mod quantize;
pub(crate) mod run;
pub(crate) mod tokenize;

use anyhow::{Result, anyhow, bail};
use katydid_core::text::{Encode, TextError, Tokenizer, scratch_len};

/// Token ids written with commas or spaces between them.
pub(crate) fn parse_ids(text: &str) -> Result<Vec<u32>> {
    let words = text.split([',', ' ', '\n', '\t', '\r']).filter(|w| !w.is_empty());
    let ids: Vec<u32> = words
        .map(|w| w.parse().map_err(|_| anyhow!("'{w}' is not a token id: give numbers like 1,403,407")))
        .collect::<Result<_>>()?;
    if ids.is_empty() {
        bail!("no token ids were given");
    }
    Ok(ids)
}

/// Words of scratch to begin with: enough for most words.
const SCRATCH: usize = 16 << 10;

/// The tokens of `text`, however many.
pub(crate) fn encode(tokenizer: &Tokenizer<'_>, text: &[u8], how: Encode) -> Result<Vec<u32>> {
    let mut scratch = zeros(SCRATCH)?;
    let mut out = zeros(text.len() / 2 + 16)?;
    loop {
        match tokenizer.encode(text, how, &mut scratch, &mut out) {
            Ok(n) => {
                out.truncate(n);
                return Ok(out);
            }
            Err(TextError::Out { need, .. }) => out = zeros(usize::try_from(need)?)?,
            // More than asked for, since the next word may be longer.
            Err(TextError::Scratch { need, .. }) => {
                let most = scratch_len(text.len());
                scratch = zeros(usize::try_from(need)?.saturating_mul(2).min(most))?;
            }
            Err(e) => return Err(e.into()),
        }
    }
}

/// `n` zeros, or an error where there is no memory for them.
fn zeros(n: usize) -> Result<Vec<u32>> {
    let mut all = Vec::new();
    all.try_reserve_exact(n).map_err(|_| anyhow!("no memory for the text's tokens: take a shorter text"))?;
    all.resize(n, 0);
    Ok(all)
}

/// The ids on one line.
pub(crate) fn line_of(ids: &[u32]) -> String {
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}
