//! What the tokenizer targets share: vocabularies made of fuzz input, and what
//! must hold for any of them.

use katydid_core::arena::{ALIGN, Arena};
use katydid_core::gguf::emit::Emit;
use katydid_core::gguf::{Gguf, Value};
use katydid_core::plan::MemoryPlan;
use katydid_core::text::{Detokenizer, Encode, Sizes, Tables, TextError, Tokenizer, scratch_len};

/// A vocabulary file to be.
#[derive(Default)]
pub struct Vocab {
    pub model: &'static str,
    pub pre: Option<&'static str>,
    pub space_prefix: bool,
    pub tokens: Vec<String>,
    pub types: Vec<i32>,
    pub scores: Vec<f32>,
    pub merges: Vec<String>,
}

impl Vocab {
    pub fn token(&mut self, text: String, kind: i32, score: f32) {
        self.tokens.push(text);
        self.types.push(kind);
        self.scores.push(score);
    }

    pub fn file(&self) -> Vec<u8> {
        let mut file = Vec::new();
        let sink = |bytes: &[u8]| -> Result<(), std::convert::Infallible> {
            file.extend_from_slice(bytes);
            Ok(())
        };
        let mut out = Emit::new(sink, 3, 6 + u64::from(self.pre.is_some()), 0).unwrap();
        out.put("tokenizer.ggml.model", Value::Str(self.model)).unwrap();
        if let Some(pre) = self.pre {
            out.put("tokenizer.ggml.pre", Value::Str(pre)).unwrap();
        }
        out.put("tokenizer.ggml.add_space_prefix", Value::Bool(self.space_prefix)).unwrap();
        out.strings("tokenizer.ggml.tokens", self.tokens.iter().map(String::as_str)).unwrap();
        out.strings("tokenizer.ggml.merges", self.merges.iter().map(String::as_str)).unwrap();
        out.i32s("tokenizer.ggml.token_type", self.types.iter().copied()).unwrap();
        out.f32s("tokenizer.ggml.scores", self.scores.iter().copied()).unwrap();
        out.finish().unwrap();
        file
    }
}

/// Splits input into lines that shape the vocabulary, each with two numbers,
/// and, after an empty line, the text to encode.
pub fn split(data: &[u8]) -> (Vec<(u8, u8, String)>, &[u8]) {
    let (mut lines, mut rest) = (Vec::new(), data);
    while let Some(end) = rest.iter().position(|&b| b == b'\n') {
        let line = &rest[..end];
        rest = &rest[end + 1..];
        let [kind, score, text @ ..] = line else { break };
        lines.push((*kind, *score, String::from_utf8_lossy(text).replace('_', "\u{2581}")));
    }
    (lines, rest)
}

/// Builds the tokenizer of a file and hands it to `check`.
pub fn with_tokenizer(file: &[u8], check: impl FnOnce(&Tokenizer<'_>)) -> Result<(), TextError> {
    let Ok(gguf) = Gguf::parse(file, file.len() as u64) else { return Ok(()) };
    let sizes = Sizes::of(&gguf)?;
    let mut plan = MemoryPlan::new();
    Tables::lay_out(&mut plan, &sizes).unwrap();
    let mut memory = vec![0xa5; plan.total() as usize + ALIGN];
    let tables = Tables::lay_out(&mut Arena::new(&mut memory), &sizes).unwrap();
    let tokenizer = Tokenizer::build(&gguf, tables)?;
    check(&tokenizer);
    Ok(())
}

/// Encodes in every way and returns the tokens of the plain text.
pub fn encode(t: &Tokenizer<'_>, text: &[u8]) -> Result<Vec<u32>, TextError> {
    let mut scratch = vec![7; scratch_len(text.len())];
    let mut out = vec![0; 3 * text.len() + 8];
    for parse_special in [true, false] {
        let n = t.encode(text, Encode { parse_special, ..Encode::default() }, &mut scratch, &mut out)?;
        assert!(out[..n].iter().all(|&id| (id as usize) < t.vocab_len()));
    }
    let n = t.encode(text, Encode::PLAIN, &mut scratch, &mut out)?;
    let need = t.encode(text, Encode::PLAIN, &mut scratch, &mut []);
    assert_eq!(need, if n == 0 { Ok(0) } else { Err(TextError::Out { need: n as u64, have: 0 }) });
    let mut again = vec![0; n];
    match t.encode(text, Encode::PLAIN, &mut scratch[..16.min(4 * text.len())], &mut again) {
        Ok(m) => assert_eq!((m, &again[..]), (n, &out[..n])),
        Err(e) => assert!(matches!(e, TextError::Scratch { .. })),
    }
    out.truncate(n);
    Ok(out)
}

pub fn decode(t: &Tokenizer<'_>, ids: &[u32]) -> String {
    let (mut state, mut text) = (Detokenizer::new(false), String::new());
    ids.iter().for_each(|&id| state.push(t, id, &mut text).unwrap());
    state.flush(&mut text).unwrap();
    text
}

/// Any bytes as a vocabulary file.
pub fn any_file(data: &[u8]) {
    let text = "Hello <s><|im_end|> '12\r\n天\u{301} ".as_bytes();
    let _ = with_tokenizer(data, |t| {
        for id in (0..40).chain([t.vocab_len() as u32, u32::MAX]) {
            let _ = (t.token_text(id), t.token_kind(id), t.is_end(id), t.bytes(id, true).count());
        }
        let _ = encode(t, text).map(|ids| decode(t, &ids));
    });
}
