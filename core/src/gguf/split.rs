//! Models split over several files.
//!
//! Keys as written by llama.cpp's `gguf-split`: `split.no` (from 0),
//! `split.count` and `split.tensors.count` in every part; the first part also
//! carries the model's own keys. Files are named
//! `<prefix>-00001-of-00003.gguf`, numbered from 1.

use crate::Name;

use super::error::{Fault, GgufError, Subject};
use super::names::duplicate;
use super::tensor::{TensorInfo, TensorRef};
use super::{Gguf, MAX_TENSORS};

/// One file of a model.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Its header.
    pub gguf: Gguf<'a>,
    /// The whole file, or nothing where its tensors are not in memory.
    pub bytes: &'a [u8],
}

/// All files of a model, checked against one another. A single file is a model
/// of one part.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    parts: &'a [Part<'a>],
    meta: Gguf<'a>,
}

impl<'a> Parts<'a> {
    /// Checks that `parts` are all files of one model, in order.
    ///
    /// Errors name the part that is missing or out of place, and any tensor
    /// that two parts hold.
    pub fn new(parts: &'a [Part<'a>]) -> Result<Self, GgufError> {
        let fail = |fault| Err(GgufError::new(0, Subject::File, fault));
        let have = parts.len() as u64;
        let Some(first) = parts.first() else { return fail(Fault::Parts { have, want: 1 }) };
        // Files that are not split may carry a count of 0 or 1, or none.
        let want = u64::from(first.gguf.u32("split.count")?.unwrap_or(1).max(1));
        if want > 1 || have > 1 {
            for (i, part) in parts.iter().enumerate() {
                check_place(&part.gguf, i as u64, want)?;
            }
        }
        if have != want {
            return fail(Fault::Parts { have, want });
        }
        let all = Self { parts, meta: first.gguf };
        if want > 1 {
            all.check_tensors()?;
        }
        Ok(all)
    }

    fn check_tensors(&self) -> Result<(), GgufError> {
        let want = u64::from(need(&self.meta, "split.tensors.count")?);
        let have = self.parts.iter().fold(0, |sum: u64, p| sum.saturating_add(p.gguf.tensor_count()));
        let fault = if have > MAX_TENSORS {
            Fault::TooMany { what: "tensors", count: have, max: MAX_TENSORS }
        } else {
            Fault::PartTensors { have, want }
        };
        if have != want || have > MAX_TENSORS {
            return Err(GgufError::new(0, Subject::File, fault));
        }
        match duplicate(self.tensors().map(|(_, t)| t.name.as_bytes())) {
            Some(twice) => {
                let name = Name::new(core::str::from_utf8(twice).unwrap_or(""));
                Err(GgufError::new(0, Subject::Tensor(name), Fault::Duplicate))
            }
            None => Ok(()),
        }
    }

    /// The part with the model's keys.
    pub fn meta(&self) -> &Gguf<'a> {
        &self.meta
    }

    /// The files, in order.
    pub fn parts(&self) -> &'a [Part<'a>] {
        self.parts
    }

    /// All tensors, each with the index of the part that holds it.
    pub fn tensors(&self) -> impl Iterator<Item = (usize, TensorInfo<'a>)> + Clone + 'a {
        self.parts.iter().enumerate().flat_map(|(i, part)| part.gguf.tensors().map(move |t| (i, t)))
    }

    /// Where the tensor called `name` lies: the index of its part, its place.
    pub fn find(&self, name: &str) -> Option<(usize, TensorInfo<'a>)> {
        self.parts.iter().enumerate().find_map(|(i, part)| Some((i, part.gguf.tensor(name)?)))
    }

    /// The weights called `name`; `None` where the model has no such tensor.
    ///
    /// Errs when the bytes of its part are not in memory.
    pub fn tensor(&self, name: &str) -> Result<Option<TensorRef<'a>>, GgufError> {
        let Some((i, info)) = self.find(name) else { return Ok(None) };
        info.bind(self.parts.get(i).map_or(&[], |p| p.bytes)).map(Some)
    }
}

/// Errs unless `gguf` says that it is part `i` (from 0) of `want`.
fn check_place(gguf: &Gguf<'_>, i: u64, want: u64) -> Result<(), GgufError> {
    let fail = |fault| Err(GgufError::new(0, Subject::File, fault));
    let count = u64::from(need(gguf, "split.count")?);
    let number = u64::from(need(gguf, "split.no")?);
    if count != want {
        return fail(Fault::Parts { have: want, want: count });
    }
    if number != i {
        return fail(Fault::PartOrder { have: number + 1, want: i + 1 });
    }
    Ok(())
}

fn need(gguf: &Gguf<'_>, key: &'static str) -> Result<u32, GgufError> {
    gguf.u32(key)?.ok_or(GgufError::new(0, Subject::File, Fault::PartKey(key)))
}

/// Bytes of `-00001-of-00003.gguf`.
pub const SPLIT_SUFFIX: usize = 20;

/// The name of one file of a split model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitName<'a> {
    /// What comes before `-00001-of-00003.gguf`; folders too, where given.
    pub prefix: &'a [u8],
    /// Which part it is, from 1.
    pub number: u32,
    /// How many parts there are.
    pub count: u32,
}

impl SplitName<'_> {
    /// What follows the prefix in the name of part `number` (from 1 to
    /// [`SplitName::count`], so at most five digits).
    pub fn suffix(&self, number: u32) -> [u8; SPLIT_SUFFIX] {
        let mut out = *b"-00000-of-00000.gguf";
        for (from, value) in [(1, number), (10, self.count)] {
            let mut rest = value;
            for digit in out[from..from + 5].iter_mut().rev() {
                *digit = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
        }
        out
    }
}

/// Recognises `<prefix>-00001-of-00003.gguf`; `None` for any other name.
pub fn split_name(path: &[u8]) -> Option<SplitName<'_>> {
    let (prefix, suffix) = path.split_at_checked(path.len().checked_sub(SPLIT_SUFFIX)?)?;
    let number = digits(suffix.strip_prefix(b"-")?.get(..5)?)?;
    let count = digits(suffix.get(6..)?.strip_prefix(b"-of-")?.strip_suffix(b".gguf")?)?;
    (1 <= number && number <= count).then_some(SplitName { prefix, number, count })
}

fn digits(text: &[u8]) -> Option<u32> {
    text.iter().try_fold(0u32, |n, d| d.is_ascii_digit().then(|| n * 10 + u32::from(d - b'0')))
}
