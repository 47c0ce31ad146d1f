//! One file per verb.

pub(crate) mod bench;
pub(crate) mod eval;
pub(crate) mod inspect;
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

/// The tokens of `text`, however many.
pub(crate) fn encode(tokenizer: &Tokenizer<'_>, text: &[u8], how: Encode) -> Result<Vec<u32>> {
    let mut scratch = vec![0; scratch_len(text.len())];
    let mut out = vec![0; text.len() + 8];
    let n = match tokenizer.encode(text, how, &mut scratch, &mut out) {
        Err(TextError::Out { need, .. }) => {
            out.resize(usize::try_from(need)?, 0);
            tokenizer.encode(text, how, &mut scratch, &mut out)?
        }
        other => other?,
    };
    out.truncate(n);
    Ok(out)
}

/// The ids on one line.
pub(crate) fn line_of(ids: &[u32]) -> String {
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}
