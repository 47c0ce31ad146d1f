//! A SentencePiece vocabulary of any size that can write any text.
//!
//! After the control and byte tokens come letters, then all pairs of lower-case
//! letters, triples and so on, with and without a space before them: every
//! piece can be merged from two shorter ones, as a trained vocabulary's can.

pub(super) const UNKNOWN: u32 = 0;
pub(super) const BOS: u32 = 1;
pub(super) const EOS: u32 = 2;

/// How SentencePiece writes a space.
const SPACE: char = '\u{2581}';

/// `tokenizer.ggml.token_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Normal = 1,
    Unknown = 2,
    Control = 3,
    Byte = 6,
}

pub(super) struct Piece {
    pub text: String,
    pub score: f32,
    pub kind: Kind,
}

/// The first `len` pieces; `len` is at least a thousand, so that every
/// printable character is among them.
pub(super) fn pieces(len: usize) -> Vec<Piece> {
    let special = [("<unk>", Kind::Unknown), ("<s>", Kind::Control), ("</s>", Kind::Control)];
    let special = special.map(|(text, kind)| (text.to_owned(), kind));
    let bytes = (0..=255u8).map(|b| (format!("<0x{b:02X}>"), Kind::Byte));
    let printable = ('!'..='~').chain([SPACE]).map(|c| (c.to_string(), Kind::Normal));
    let capitals = ('A'..='Z').map(|c| (format!("{SPACE}{c}"), Kind::Normal));
    let words = (1..).flat_map(|n| {
        // Single letters are there already, but not after a space.
        let plain = words_of(n).filter(move |_| n > 1);
        plain.chain(words_of(n).map(|w| format!("{SPACE}{w}"))).map(|w| (w, Kind::Normal))
    });
    let all = special.into_iter().chain(bytes).chain(printable).chain(capitals).chain(words);
    let first_normal = 3 + 256;
    let piece = |(i, (text, kind)): (usize, (String, Kind))| {
        // Merges are tried best score first; trained scores are just the rank.
        let score = if i < first_normal { 0.0 } else { -((i - first_normal) as f32) };
        Piece { text, score, kind }
    };
    all.take(len).enumerate().map(piece).collect()
}

/// All words of `n` lower-case letters, in the order of the dictionary.
fn words_of(n: u32) -> impl Iterator<Item = String> {
    let digit = move |i: u64, place: u32| (b'a' + (i / 26u64.pow(place) % 26) as u8) as char;
    (0..26u64.pow(n)).map(move |i| (0..n).rev().map(|place| digit(i, place)).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn pieces_are_distinct_and_made_of_pieces() {
        let all = pieces(32_000);
        let known: HashSet<&str> = all.iter().map(|p| p.text.as_str()).collect();
        assert_eq!(known.len(), 32_000);
        for p in all.iter().filter(|p| p.kind == Kind::Normal && p.text.chars().count() > 1) {
            let (last, _) = p.text.char_indices().next_back().unwrap();
            assert!(known.contains(&p.text[..last]) && known.contains(&p.text[last..]), "{}", p.text);
        }
    }

    #[test]
    fn the_fixed_ids_are_where_they_belong() {
        let all = pieces(1024);
        assert_eq!(all[EOS as usize].text, "</s>");
        assert_eq!(all[3 + 0x0a].text, "<0x0A>");
        assert!(all.iter().any(|p| p.text == "~") && all.iter().any(|p| p.text == "\u{2581}a"));
    }
}
