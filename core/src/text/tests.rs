//! Small vocabularies, right and wrong.

use std::string::{String, ToString};
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::arena::{ALIGN, Arena};
use crate::gguf::emit::{Emit, EmitError};
use crate::gguf::{Gguf, Value};
use crate::plan::MemoryPlan;

/// A vocabulary file to be. Keys left `None` are left out.
#[derive(Clone, Default)]
struct File {
    model: Option<&'static str>,
    pre: Option<&'static str>,
    tokens: Option<Vec<String>>,
    scores: Option<Vec<f32>>,
    types: Option<Vec<i32>>,
    merges: Option<Vec<String>>,
    more: Vec<(&'static str, Value<'static>)>,
}

impl File {
    fn bytes(&self) -> Vec<u8> {
        let mut file = Vec::new();
        self.emit(&mut file).unwrap();
        file
    }

    fn emit(&self, file: &mut Vec<u8>) -> Result<(), EmitError<core::convert::Infallible>> {
        let present = [
            self.model.is_some(),
            self.pre.is_some(),
            self.tokens.is_some(),
            self.scores.is_some(),
            self.types.is_some(),
            self.merges.is_some(),
        ];
        let keys = present.iter().filter(|&&p| p).count() + self.more.len();
        let sink = |bytes: &[u8]| {
            file.extend_from_slice(bytes);
            Ok(())
        };
        let mut out = Emit::new(sink, 3, keys as u64, 0)?;
        for (key, text) in [(keys::MODEL, self.model), (keys::PRE, self.pre)] {
            text.map_or(Ok(()), |t| out.put(key, Value::Str(t)))?;
        }
        for (key, texts) in [(keys::TOKENS, &self.tokens), (keys::MERGES, &self.merges)] {
            texts.as_ref().map_or(Ok(()), |t| out.strings(key, t.iter().map(String::as_str)))?;
        }
        self.scores.as_ref().map_or(Ok(()), |s| out.f32s(keys::SCORES, s.iter().copied()))?;
        self.types.as_ref().map_or(Ok(()), |t| out.i32s(keys::TYPES, t.iter().copied()))?;
        self.more.iter().try_for_each(|&(key, value)| out.put(key, value))?;
        out.finish()
    }

    fn build(&self) -> Result<Tokenizer<'static>, TextError> {
        let file: &'static [u8] = self.bytes().leak();
        let gguf = Gguf::parse(file, file.len() as u64).unwrap();
        let sizes = Sizes::of(&gguf)?;
        let mut plan = MemoryPlan::new();
        Tables::lay_out(&mut plan, &sizes).unwrap();
        let memory = std::vec![0x5a; plan.total() as usize + ALIGN].leak();
        let tables = Tables::lay_out(&mut Arena::new(memory), &sizes).unwrap();
        Tokenizer::build(&gguf, tables)
    }

    fn error(&self) -> String {
        self.build().unwrap_err().to_string()
    }

    fn with(mut self, key: &'static str, value: Value<'static>) -> Self {
        self.more.push((key, value));
        self
    }

    /// Adds a token.
    fn token(mut self, text: &str, kind: i32, score: f32) -> Self {
        self.tokens.get_or_insert_default().push(text.to_string());
        self.types.get_or_insert_default().push(kind);
        self.scores.get_or_insert_default().push(score);
        self
    }
}

/// unk, BOS, EOS, the bytes, then some words.
fn spm() -> File {
    let mut file = File { model: Some("llama"), ..File::default() };
    for (text, kind) in [("<unk>", 2), ("<s>", 3), ("</s>", 3)] {
        file = file.token(text, kind, 0.0);
    }
    for b in 0..=255u8 {
        file = file.token(&std::format!("<0x{b:02X}>"), 6, 0.0);
    }
    let words = ["▁", "a", "b", "c", "<", ">", "s", "<s", "ab", "bc", "▁a", "▁ab", "▁▁", "abc"];
    for (i, text) in words.into_iter().enumerate() {
        file = file.token(text, 1, -(i as f32));
    }
    file.token("<u>", 4, 0.0).token("<|c|>", 3, 0.0)
}

/// Every byte, then some merges.
fn bpe() -> File {
    let mut file = File { model: Some("gpt2"), pre: Some("gpt-2"), ..File::default() };
    for b in 0..=255u8 {
        let c = ('\0'..='\u{144}').find(|&c| codec::byte_of(c) == Some(b)).unwrap();
        file = file.token(&c.to_string(), 1, 0.0);
    }
    for text in ["ab", "Ġa", "abc", "Ġab"] {
        file = file.token(text, 1, 0.0);
    }
    file.merges = Some(["a b", "Ġ a", "ab c", "Ġ ab", "x y", "x y"].map(str::to_string).to_vec());
    file.token("<u>", 4, 0.0).token("<u><u>", 4, 0.0).token("<|im_end|>", 1, 0.0)
}

fn encode(t: &Tokenizer<'_>, text: &[u8], how: Encode) -> Vec<u32> {
    let mut scratch = std::vec![u32::MAX; scratch_len(text.len())];
    let mut out = std::vec![0; text.len() * 4 + 8];
    let n = t.encode(text, how, &mut scratch, &mut out).unwrap();
    out.truncate(n);
    out
}

/// Texts of the tokens, with their own spelling.
fn pieces(t: &Tokenizer<'_>, text: &str, how: Encode) -> Vec<String> {
    encode(t, text.as_bytes(), how).iter().map(|&id| t.token_text(id).unwrap().to_string()).collect()
}

fn decode(t: &Tokenizer<'_>, ids: &[u32]) -> String {
    let (mut state, mut text) = (Detokenizer::new(false), String::new());
    ids.iter().for_each(|&id| state.push(t, id, &mut text).unwrap());
    state.flush(&mut text).unwrap();
    text
}

const PARSE: Encode = Encode { bos: Add::Never, eos: Add::Never, parse_special: true };

#[test]
fn spm_merges_the_best_pair_first() {
    let t = spm().build().unwrap();
    // "ab" (-8) beats "bc" (-9) and "▁a" (-10); then "▁ab" (-11) beats "abc" (-13).
    assert_eq!(pieces(&t, "abc", Encode::PLAIN), ["▁ab", "c"]);
    assert_eq!(pieces(&t, "a  ab", Encode::PLAIN), ["▁a", "▁", "▁ab"]);
    assert_eq!(pieces(&t, "", Encode::PLAIN), [""; 0]);
    assert_eq!(pieces(&t, "é", Encode::PLAIN), ["▁", "<0xC3>", "<0xA9>"]);
    assert_eq!(pieces(&t, "ab", Encode::default()), ["<s>", "▁ab"]);
    let both = Encode { eos: Add::Always, ..Encode::default() };
    assert_eq!(pieces(&t, "", both), ["<s>", "</s>"]);
}

#[test]
fn spm_special_tokens() {
    let t = spm().build().unwrap();
    assert_eq!(pieces(&t, "<u>a<s>", Encode::PLAIN), ["<u>", "▁a", "<s", ">"]);
    assert_eq!(pieces(&t, "<|c|>a<s>b", PARSE), ["<|c|>", "▁a", "<s>", "▁", "b"]);
    let ids = encode(&t, b"ab<u>ab <u> a", Encode::PLAIN);
    assert_eq!(decode(&t, &ids), "ab<u>ab <u> a");
    assert_eq!(decode(&t, &encode(&t, b"<s>ab<|c|> a", PARSE)), "ab a");
    let mut shown = String::new();
    let mut state = Detokenizer::new(true);
    encode(&t, b"<s>ab", PARSE).iter().for_each(|&id| state.push(&t, id, &mut shown).unwrap());
    assert_eq!(shown, "<s>ab");
}

#[test]
fn spm_without_a_space_prefix() {
    let t = spm().with(keys::SPACE_PREFIX, Value::Bool(false)).build().unwrap();
    assert_eq!(pieces(&t, "ab ab", Encode::PLAIN), ["ab", "▁ab"]);
    assert_eq!(decode(&t, &encode(&t, b" ab", Encode::PLAIN)), " ab");
}

#[test]
fn spm_unknown_token_where_bytes_are_missing() {
    let file = File { model: Some("llama"), ..File::default() }.token("?", 2, 0.0).token("▁a", 1, 0.0);
    let t = file.token("▁", 1, 0.0).token("a", 1, 0.0).build().unwrap();
    assert_eq!(pieces(&t, "aé", Encode::PLAIN), ["▁a", "?"]);
    assert!(t.adds_bos());
    assert_eq!(t.bos(), Some(1));
}

#[test]
fn bpe_merges_by_rank() {
    let t = bpe().build().unwrap();
    assert_eq!(pieces(&t, "abc abc", Encode::PLAIN), ["abc", "Ġ", "abc"]);
    // "x y" merges into nothing the vocabulary has: it falls apart again.
    assert_eq!(pieces(&t, "xy", Encode::PLAIN), ["x", "y"]);
    assert_eq!(pieces(&t, "<u><u><u>", Encode::PLAIN), ["<u><u>", "<u>"]);
    // Known by its text as the end of a turn, though typed as ordinary text.
    let end = t.find("<|im_end|>").unwrap();
    assert!(t.is_end(end) && t.token_kind(end) == TokenKind::Control);
    assert_eq!(encode(&t, b"<|im_end|>", PARSE), [end]);
    assert_eq!(encode(&t, b"<|im_end|>", Encode::PLAIN).len(), 10);
    assert_eq!((t.kind(), t.pre(), t.pre_is_assumed()), ("BPE", Some("gpt-2"), false));
    let assumed = File { pre: None, ..bpe() }.build().unwrap();
    assert_eq!((assumed.pre(), assumed.pre_is_assumed()), (Some("default"), true));
}

#[test]
fn bos_and_eos_as_the_file_says() {
    let ids = |t: &Tokenizer<'_>| encode(t, b"a", Encode::default()).len();
    let named = |f: File| f.with(keys::BOS, Value::U32(3)).with(keys::EOS, Value::U32(4));
    assert_eq!(ids(&bpe().build().unwrap()), 1);
    assert_eq!(ids(&named(bpe()).build().unwrap()), 1);
    let llama3 = File { pre: Some("llama-bpe"), ..bpe() };
    assert_eq!(ids(&named(llama3.clone()).build().unwrap()), 2);
    assert_eq!(ids(&llama3.build().unwrap()), 1);
    let both = named(bpe()).with(keys::ADD_BOS, Value::Bool(true)).with(keys::ADD_EOS, Value::Bool(true));
    assert_eq!(ids(&both.build().unwrap()), 3);
    let t = bpe().build().unwrap();
    let always = Encode { bos: Add::Always, ..Encode::PLAIN };
    assert_eq!(t.encode(b"a", always, &mut [0; 99], &mut [0; 9]), Err(TextError::NoId { key: keys::BOS }));
    assert!(bpe().with(keys::ADD_EOS, Value::Bool(true)).error().contains(keys::EOS));
}

#[test]
fn files_that_are_no_vocabulary_say_why() {
    let none = File::default;
    for (file, says) in [
        (none(), "has no tokenizer.ggml.model"),
        (File { model: Some("bert"), ..none() }, "'bert' is not supported; supported: llama, gpt2"),
        (File { model: Some("llama"), ..none() }, "has no tokenizer.ggml.tokens"),
        (File { tokens: Some(Vec::new()), ..File { model: Some("llama"), ..none() } }, "is empty"),
        (
            File { pre: Some("nonesuch"), ..bpe() },
            "'nonesuch' is not supported; supported: default, llama-bpe,",
        ),
        (File { merges: None, ..bpe() }, "has no tokenizer.ggml.merges"),
        (File { scores: Some(std::vec![0.0]), ..spm() }, "scores has 1 items but the vocabulary has"),
        (File { types: Some(Vec::new()), ..spm() }, "token_type has 0 items"),
        (spm().with(keys::BOS, Value::U32(9999)), "bos_token_id is 9999 but the vocabulary has 275"),
        (spm().with(keys::UNKNOWN, Value::U32(275)), "unknown_token_id is 275"),
        (spm().with(keys::EOT, Value::U32(u32::MAX)), "eot_token_id"),
        (spm().with(keys::EOS, Value::Str("x")), keys::EOS),
        (spm().token("abc", 1, 0.0), "tokens 272 and 275 have the same text"),
        (spm().token(&"x".repeat(300), 4, 0.0), "special token 275 has 300 bytes"),
        (File { merges: Some(std::vec!["ab".to_string()]), ..bpe() }, "item 0 of tokenizer.ggml.merges"),
        (File { merges: Some(std::vec!["a ".to_string()]), ..bpe() }, "item 0 of tokenizer.ggml.merges"),
    ] {
        let error = file.error();
        assert!(error.contains(says), "{error} / {says}");
    }
    let ints = File { tokens: None, ..spm() };
    let mut bytes = Vec::new();
    let sink = |b: &[u8]| -> Result<(), core::convert::Infallible> {
        bytes.extend_from_slice(b);
        Ok(())
    };
    let mut out = Emit::new(sink, 3, 2, 0).unwrap();
    out.put(keys::MODEL, Value::Str(ints.model.unwrap())).unwrap();
    out.u32s(keys::TOKENS, [1, 2].into_iter()).unwrap();
    out.finish().unwrap();
    let gguf = Gguf::parse(&bytes, bytes.len() as u64).unwrap();
    assert!(matches!(Sizes::of(&gguf), Err(TextError::Gguf(_))));
}

#[test]
fn odd_vocabularies_work() {
    // Empty tokens, a very long one, scores that are no numbers.
    let t =
        spm().token("", 1, 0.0).token("", 1, 0.0).token(&"ab".repeat(1 << 19), 1, f32::NAN).build().unwrap();
    assert_eq!(pieces(&t, "abc", Encode::PLAIN), ["▁ab", "c"]);
    assert_eq!(t.token_bytes(277, false, &mut [0; 9]), Err(TextError::Out { need: 1 << 20, have: 9 }));
    assert_eq!(t.bytes(275, false).count(), 0);
    assert_eq!(t.token_bytes(278, false, &mut [0; 9]), Err(TextError::UnknownId { id: 278, tokens: 278 }));
    assert_eq!((t.token_text(278), t.is_end(u32::MAX)), (None, false));
    // Without types, bytes are known by their text.
    let t = File { types: None, scores: None, ..spm() }.build().unwrap();
    assert_eq!(decode(&t, &encode(&t, "é".as_bytes(), Encode::PLAIN)), "é");
}

#[test]
fn broken_characters_stream_as_replacements() {
    let t = spm().build().unwrap();
    let ids: Vec<u32> = b"\xe2\x96x\xff\xf0\x9f\xa6".iter().map(|&b| u32::from(b) + 3).collect();
    assert_eq!(decode(&t, &ids), "\u{fffd}x\u{fffd}\u{fffd}");
    let (mut state, mut text) = (Detokenizer::new(false), String::new());
    for (&b, so_far) in "é天".as_bytes().iter().zip(["", "é", "é", "é", "é天"]) {
        state.push(&t, u32::from(b) + 3, &mut text).unwrap();
        assert_eq!(text, so_far);
    }
}

proptest! {
    #[test]
    fn words_apart_is_the_same_as_all_at_once(text in "[ab c\u{2581}é]{0,24}") {
        let mut t = spm().build().unwrap();
        let apart = encode(&t, text.as_bytes(), Encode::PLAIN);
        let Model::Spm { space_prefix, words_apart } = t.model else { unreachable!() };
        prop_assert!(words_apart);
        t.model = Model::Spm { space_prefix, words_apart: false };
        prop_assert_eq!(apart, encode(&t, text.as_bytes(), Encode::PLAIN));
    }

    #[test]
    fn any_bytes_come_back(text in proptest::collection::vec(any::<u8>(), 0..40)) {
        for t in [spm().build().unwrap(), bpe().build().unwrap()] {
            let ids = encode(&t, &text, Encode::PLAIN);
            let mut bytes: Vec<u8> = ids.iter().flat_map(|&id| t.bytes(id, false)).collect();
            if t.kind() == "SPM" && !text.is_empty() {
                prop_assert_eq!(bytes.remove(0), b' ');
            }
            prop_assert_eq!(&bytes, &text);
        }
    }
}

#[test]
fn a_token_across_words_turns_word_by_word_off() {
    let t = spm().token("a▁b", 1, 9.0).token("▁b", 1, 8.0).build().unwrap();
    assert!(matches!(t.model, Model::Spm { words_apart: false, .. }));
    assert_eq!(pieces(&t, "a b", Encode::PLAIN), ["▁", "a▁b"]);
}
