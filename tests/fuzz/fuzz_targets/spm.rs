//! SentencePiece over vocabularies and texts made of fuzz input: what was
//! encoded comes back.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod text;

fuzz_target!(|data: &[u8]| {
    text::any_file(data);
    let (lines, input) = text::split(data);
    let space_prefix = lines.first().is_none_or(|l| l.0 < 128);
    let mut vocab = text::Vocab { model: "llama", space_prefix, ..Default::default() };
    for (name, kind) in [("<unk>", 2), ("<s>", 3), ("</s>", 3)] {
        vocab.token(name.to_owned(), kind, 0.0);
    }
    (0..=255u8).for_each(|b| vocab.token(format!("<0x{b:02X}>"), 6, 0.0));
    vocab.token("\u{2581}".to_owned(), 1, -100.0);
    for (kind, score, text) in lines {
        vocab.token(text, i32::from(kind % 8), f32::from(score as i8));
    }
    let built = text::with_tokenizer(&vocab.file(), |t| {
        let ids = text::encode(t, input).unwrap();
        // A space and U+2581 look the same to SentencePiece.
        let whole = String::from_utf8_lossy(input);
        if !whole.contains('\u{2581}') {
            assert_eq!(text::decode(t, &ids), whole);
        }
    });
    if let Err(e) = built {
        assert!(!e.to_string().is_empty());
    }
});
