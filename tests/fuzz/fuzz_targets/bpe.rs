//! Byte-level BPE over vocabularies and texts made of fuzz input: what was
//! encoded comes back, whatever the pre-tokenizer.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod text;

const PRE: [&str; 10] = [
    "default",
    "gpt-2",
    "llama-bpe",
    "qwen2",
    "qwen35",
    "smollm",
    "deepseek-llm",
    "deepseek-coder",
    "deepseek-v3",
    "falcon",
];

/// The character that spells byte `b`, by GPT-2's rule.
fn spelled(b: u8) -> char {
    let printable = |b: u8| matches!(b, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let other = || (0..b).filter(|&b| !printable(b)).count() as u32;
    let code = if printable(b) { u32::from(b) } else { 256 + other() };
    char::from_u32(code).unwrap()
}

fuzz_target!(|data: &[u8]| {
    text::any_file(data);
    let (lines, input) = text::split(data);
    let pre = lines.first().map_or(0, |l| usize::from(l.1) % PRE.len());
    let mut vocab = text::Vocab { model: "gpt2", pre: Some(PRE[pre]), ..Default::default() };
    (0..=255u8).for_each(|b| vocab.token(spelled(b).to_string(), 1, 0.0));
    for (kind, cut, text) in lines {
        // Special tokens are raw text; ordinary ones are spelled, as in a file,
        // and come with a merge.
        if kind & 7 != 1 {
            vocab.token(text, i32::from(kind & 7), 0.0);
            continue;
        }
        let text: String = text.bytes().map(spelled).collect();
        let cut = usize::from(cut) % text.len().max(1);
        if let Some((left, right)) =
            text.split_at_checked(cut).filter(|(l, r)| !l.is_empty() && !r.is_empty())
        {
            vocab.merges.push(format!("{left} {right}"));
        }
        // Some merges have no token.
        if kind & 8 == 0 {
            vocab.token(text, 1, 0.0);
        }
    }
    // Ordinary tokens of other types need not be spelled; they may then stand
    // for other bytes than they are made of.
    let spelled_all = vocab.types.iter().all(|t| matches!(t, 1..=4));
    let built = text::with_tokenizer(&vocab.file(), |t| {
        let ids = text::encode(t, input).unwrap();
        if spelled_all {
            let bytes: Vec<u8> = ids.iter().flat_map(|&id| t.bytes(id, false)).collect();
            assert_eq!(bytes, input);
            assert_eq!(text::decode(t, &ids), String::from_utf8_lossy(input));
        }
    });
    if let Err(e) = built {
        assert!(!e.to_string().is_empty());
    }
});
