//! Pre-tokenizers: where byte-level BPE may not merge across.
//!
//! Each model family cuts text by one or more regular expressions, applied one
//! after another: each cuts every piece left by the one before into its matches
//! and the gaps between them. The expressions are those of the models' own
//! `tokenizer.json`; here each is a hand-written matcher ([`Rule`]) that carries
//! its expression in its documentation. All run in time linear in the text.

use super::class::{Char, Class};
use super::letters::deepseek_letter;

/// A way of cutting text, named by `tokenizer.ggml.pre`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pre {
    /// The value of `tokenizer.ggml.pre`.
    pub(super) name: &'static str,
    rules: &'static [Rule],
    /// A whole word that is in the vocabulary is taken as it is, merges or not.
    pub(super) whole_words: bool,
    /// BOS is added where `tokenizer.ggml.add_bos_token` is absent.
    pub(super) add_bos: bool,
}

/// What a file without `tokenizer.ggml.pre` is read as, as llama.cpp does.
pub(super) const DEFAULT: &str = "default";

const fn plain(name: &'static str, rules: &'static [Rule]) -> Pre {
    Pre { name, rules, whole_words: false, add_bos: false }
}

const fn llama3(name: &'static str) -> Pre {
    Pre { name, rules: LLAMA3, whole_words: true, add_bos: true }
}

const GPT2: &[Rule] = &[Rule::Gpt2];
const LLAMA3: &[Rule] = &[Rule::Llama3 { digits: 3, marks: false }];
const QWEN2: &[Rule] = &[Rule::Llama3 { digits: 1, marks: false }];
const QWEN35: &[Rule] = &[Rule::Llama3 { digits: 1, marks: true }];
const SMOLLM: &[Rule] = &[Rule::Each(number), Rule::Gpt2];
const FALCON: &[Rule] = &[Rule::Runs(falcon_mark), Rule::Gpt2, Rule::Digits3];
const DEFAULTS: &[Rule] = &[Rule::Runs(default_mark), Rule::Gpt2, Rule::Runs(number), Rule::Digits3];
const DEEPSEEK_LLM: &[Rule] = &[
    Rule::Each(newline),
    Rule::SpacedRuns(deepseek_letter),
    Rule::SpacedRuns(deepseek_mark),
    Rule::LastSpaces,
    Rule::Runs(deepseek_cjk),
    Rule::Runs(number),
];
const DEEPSEEK_CODER: &[Rule] = &[
    Rule::Each(newline),
    Rule::SpacedRuns(letter),
    Rule::SpacedRuns(punctuation),
    Rule::Runs(deepseek_cjk),
    Rule::Each(number),
];
const DEEPSEEK_V3: &[Rule] = &[Rule::Numbers3, Rule::Runs(han_kana), Rule::DeepSeek3];

/// Every name we read. Which names mean the same cut follows llama.cpp (MIT),
/// whose converter writes them.
const KNOWN: &[Pre] = &[
    plain(DEFAULT, DEFAULTS),
    llama3("llama-bpe"),
    llama3("llama3"),
    llama3("llama-v3"),
    llama3("falcon3"),
    llama3("falcon-h1"),
    llama3("pixtral"),
    llama3("midm-2.0"),
    llama3("lfm2"),
    plain("dbrx", LLAMA3),
    plain("smaug-bpe", LLAMA3),
    plain("glm4", LLAMA3),
    plain("chatglm-bpe", LLAMA3),
    plain("qwen2", QWEN2),
    plain("qwen35", QWEN35),
    plain("deepseek-r1-qwen", QWEN2),
    plain("stablelm2", QWEN2),
    plain("hunyuan", QWEN2),
    plain("megrez", QWEN2),
    plain("smollm", SMOLLM),
    plain("starcoder", SMOLLM),
    plain("refact", SMOLLM),
    plain("command-r", SMOLLM),
    plain("codeshell", SMOLLM),
    plain("exaone", SMOLLM),
    plain("minerva-7b", SMOLLM),
    plain("gpt-2", GPT2),
    plain("phi-2", GPT2),
    plain("mpt", GPT2),
    plain("olmo", GPT2),
    plain("jais", GPT2),
    plain("exaone4", GPT2),
    plain("deepseek-llm", DEEPSEEK_LLM),
    plain("deepseek-coder", DEEPSEEK_CODER),
    plain("deepseek-v3", DEEPSEEK_V3),
    plain("hunyuan-dense", DEEPSEEK_V3),
    plain("falcon", FALCON),
];

impl Pre {
    /// The cut called `name`.
    pub(super) fn named(name: &str) -> Option<&'static Pre> {
        KNOWN.iter().find(|p| p.name == name)
    }

    /// Every name, for messages.
    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        KNOWN.iter().map(|p| p.name)
    }

    /// Cuts `text` into words. Together they are `text`; none is empty.
    pub(super) fn words<'t>(&self, text: &'t [u8]) -> Words<'t> {
        let mut levels = [Level::default(); MAX_RULES];
        levels[0].end = text.len();
        Words { text, rules: self.rules, levels }
    }
}

/// Most rules in one cut.
const MAX_RULES: usize = 6;

/// How far one rule has come in the piece it is cutting.
#[derive(Clone, Copy, Default)]
struct Level {
    at: usize,
    end: usize,
    /// A match found behind a gap, to be handed out after the gap.
    found: Option<(usize, usize)>,
}

/// The words of a text, in order.
pub(super) struct Words<'t> {
    text: &'t [u8],
    rules: &'static [Rule],
    levels: [Level; MAX_RULES],
}

impl Words<'_> {
    /// The next piece that rule `k` makes of the pieces of rule `k - 1`.
    fn piece(&mut self, k: usize) -> Option<(usize, usize)> {
        if let Some(found) = self.levels[k].found.take() {
            return Some(found);
        }
        if self.levels[k].at == self.levels[k].end {
            // Level 0 has no source but the text it was given.
            let (at, end) = self.piece(k.checked_sub(1)?)?;
            self.levels[k] = Level { at, end, found: None };
        }
        let Level { at, end, .. } = self.levels[k];
        let found = self.rules[k].find(&self.text[..end], at);
        let (from, to) = found.unwrap_or((end, end));
        self.levels[k].at = to;
        if from == at {
            return Some((from, to));
        }
        self.levels[k].found = found;
        Some((at, from))
    }
}

impl<'t> Iterator for Words<'t> {
    type Item = &'t [u8];

    fn next(&mut self) -> Option<&'t [u8]> {
        let (from, to) = self.piece(self.rules.len() - 1)?;
        Some(&self.text[from..to])
    }
}

type Set = fn(Char) -> bool;

/// One regular expression.
#[derive(Clone, Copy, Debug)]
enum Rule {
    /// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
    Gpt2,
    /// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}|`
    /// ` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`; where `marks`, the
    /// second `\p{L}` is `[\p{L}\p{M}]` and the third `\p{L}\p{M}`.
    Llama3 { digits: usize, marks: bool },
    /// ``[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|``
    /// `[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
    DeepSeek3,
    /// `[set]`
    Each(Set),
    /// `[set]+`
    Runs(Set),
    /// `\s?[set]+`
    SpacedRuns(Set),
    /// `\p{N}{1,3}`
    Numbers3,
    /// `[0-9][0-9][0-9]`
    Digits3,
    /// `\s+$`
    LastSpaces,
}

impl PartialEq for Rule {
    /// Function addresses do not compare: rules are told apart by the names of
    /// the cuts that hold them.
    fn eq(&self, other: &Self) -> bool {
        core::mem::discriminant(self) == core::mem::discriminant(other)
    }
}

impl Eq for Rule {}

impl Rule {
    /// The leftmost match in `text` at or after byte `at`; never empty.
    fn find(self, text: &[u8], at: usize) -> Option<(usize, usize)> {
        if let Rule::LastSpaces = self {
            return last_spaces(text, at);
        }
        let mut from = at;
        while let Some(c) = Char::at(text, from) {
            if let Some(to) = self.match_at(text, from, c) {
                return Some((from, to));
            }
            from += c.len;
        }
        None
    }

    /// The end of the match that begins with `c` at byte `at`.
    fn match_at(self, text: &[u8], at: usize, c: Char) -> Option<usize> {
        let after = at + c.len;
        match self {
            Rule::Gpt2 => gpt2(text, at, c),
            Rule::Llama3 { digits, marks } => llama_3(text, at, c, digits, marks),
            Rule::DeepSeek3 => deepseek_3(text, at, c),
            Rule::Each(set) => set(c).then_some(after),
            Rule::Runs(set) => set(c).then(|| run(text, after, set)),
            Rule::SpacedRuns(set) => {
                let spaced = c.is_space() && Char::at(text, after).is_some_and(set);
                (spaced || set(c)).then(|| run(text, after, set))
            }
            Rule::Numbers3 => number(c).then(|| run_of(text, after, 2, number)),
            Rule::Digits3 => {
                let three = text.get(at..at + 3)?;
                three.iter().all(u8::is_ascii_digit).then_some(at + 3)
            }
            Rule::LastSpaces => None,
        }
    }
}

/// Where the run of characters in `set` that starts at `at` ends.
fn run(text: &[u8], at: usize, set: impl Fn(Char) -> bool) -> usize {
    run_of(text, at, usize::MAX, set)
}

/// The same, at most `most` characters.
fn run_of(text: &[u8], mut at: usize, most: usize, set: impl Fn(Char) -> bool) -> usize {
    for _ in 0..most {
        match Char::at(text, at) {
            Some(c) if set(c) => at += c.len,
            _ => break,
        }
    }
    at
}

fn last_spaces(text: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut start = at;
    while let Some(c) = Char::at(text, at) {
        at += c.len;
        if !c.is_space() {
            start = at;
        }
    }
    (start < at).then_some((start, at))
}

/// `'s|'t|'re|'ve|'m|'ll|'d` in lower case, or in any case.
fn contraction(text: &[u8], at: usize, any_case: bool) -> Option<usize> {
    let fold = |i: usize| text.get(at + i).map(|b| if any_case { b.to_ascii_lowercase() } else { *b });
    match (fold(0)?, fold(1)?, fold(2)) {
        (b'\'', b's' | b't' | b'm' | b'd', _) => Some(at + 2),
        (b'\'', b'r' | b'v', Some(b'e')) | (b'\'', b'l', Some(b'l')) => Some(at + 3),
        _ => None,
    }
}

/// `\s+(?!\S)|\s+`: a run of spaces leaves its last to what follows.
fn spaces(text: &[u8], at: usize) -> usize {
    let (mut end, mut last) = (at, at);
    while let Some(c) = Char::at(text, end).filter(|c| c.is_space()) {
        last = end;
        end += c.len;
    }
    if end < text.len() && last > at { last } else { end }
}

/// `\s*[\r\n]+`: up to the last line break of a run of spaces.
fn line_breaks(text: &[u8], at: usize) -> Option<usize> {
    let (mut end, mut found) = (at, None);
    while let Some(c) = Char::at(text, end).filter(|c| c.is_space()) {
        end += c.len;
        if c.is_newline() {
            found = Some(end);
        }
    }
    found
}

fn gpt2(text: &[u8], at: usize, c: Char) -> Option<usize> {
    if let Some(end) = contraction(text, at, false) {
        return Some(end);
    }
    let after = at + c.len;
    let head = if c.c == ' ' { Char::at(text, after).unwrap_or(c) } else { c };
    Some(if head.is_letter() {
        run(text, after, letter)
    } else if head.is_number() {
        run(text, after, number)
    } else if !head.is_space() {
        run(text, after, |c| !c.is_space() && !c.is_letter() && !c.is_number())
    } else {
        spaces(text, at)
    })
}

fn llama_3(text: &[u8], at: usize, c: Char, digits: usize, marks: bool) -> Option<usize> {
    if let Some(end) = contraction(text, at, true) {
        return Some(end);
    }
    let word = |c: Char| c.is_letter() || marks && c.class() == Class::Mark;
    let after = at + c.len;
    let may_lead = !c.is_newline() && !c.is_letter() && !c.is_number();
    if word(c) || may_lead && Char::at(text, after).is_some_and(word) {
        return Some(run(text, after, word));
    }
    if c.is_number() {
        return Some(run_of(text, after, digits - 1, number));
    }
    let other = |c: Char| !c.is_space() && !c.is_number() && !word(c);
    if other(c) || c.c == ' ' && Char::at(text, after).is_some_and(other) {
        return Some(run(text, run(text, after, other), Char::is_newline));
    }
    line_breaks(text, at).or_else(|| Some(spaces(text, at)))
}

fn deepseek_3(text: &[u8], at: usize, c: Char) -> Option<usize> {
    let after = at + c.len;
    if c.c.is_ascii_punctuation() {
        let end = run(text, after, |c| c.c.is_ascii_alphabetic());
        if end > after {
            return Some(end);
        }
    }
    let word = |c: Char| matches!(c.class(), Class::Letter | Class::Mark);
    let mark = |c: Char| matches!(c.class(), Class::Punctuation | Class::Symbol);
    if word(c) || !c.is_newline() && !mark(c) && Char::at(text, after).is_some_and(word) {
        return Some(run(text, after, word));
    }
    if mark(c) || c.c == ' ' && Char::at(text, after).is_some_and(mark) {
        return Some(run(text, run(text, after, mark), Char::is_newline));
    }
    if !c.is_space() {
        return None;
    }
    line_breaks(text, at).or_else(|| Some(spaces(text, at)))
}

/// `\p{L}`
fn letter(c: Char) -> bool {
    c.is_letter()
}

/// `\p{N}`
fn number(c: Char) -> bool {
    c.is_number()
}

/// `\p{P}`
fn punctuation(c: Char) -> bool {
    c.class() == Class::Punctuation
}

/// `[\r\n]`
fn newline(c: Char) -> bool {
    c.is_newline()
}

/// ``[\p{P}\$\+<=>\^~\|`]``
fn falcon_mark(c: Char) -> bool {
    default_mark(c) || c.c == '`'
}

/// `[\p{P}\$\+<=>\^~\|]`
fn default_mark(c: Char) -> bool {
    punctuation(c) || matches!(c.c, '$' | '+' | '<' | '=' | '>' | '^' | '~' | '|')
}

/// `[!-/:-~！-／：-～‘-‟　-。]`
fn deepseek_mark(c: Char) -> bool {
    matches!(c.c, '!'..='/' | ':'..='~' | '！'..='／' | '：'..='～' | '‘'..='‟' | '\u{3000}'..='。')
}

/// `[一-龥ࠀ-一가-퟿]`
fn deepseek_cjk(c: Char) -> bool {
    matches!(c.c, '\u{0800}'..='\u{9fa5}' | '\u{ac00}'..='\u{d7ff}')
}

/// `[一-龥぀-ゟ゠-ヿ]`
fn han_kana(c: Char) -> bool {
    matches!(c.c, '\u{4e00}'..='\u{9fa5}' | '\u{3040}'..='\u{30ff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;
    use std::vec::Vec;

    fn cut(name: &str, text: &str) -> Vec<String> {
        let words = Pre::named(name).unwrap().words(text.as_bytes());
        words.map(|w| String::from_utf8(w.to_vec()).unwrap()).collect()
    }

    #[test]
    fn gpt2_words() {
        assert_eq!(
            cut("gpt-2", "Hello  world, it's 123 o'CLOCK  \n x\n"),
            ["Hello", " ", " world", ",", " it", "'s", " 123", " o", "'", "CLOCK", "  \n", " x", "\n"]
        );
        assert_eq!(cut("gpt-2", " "), [" "]);
        assert_eq!(cut("gpt-2", "a   "), ["a", "   "]);
        assert_eq!(cut("gpt-2", ""), [""; 0]);
    }

    #[test]
    fn llama3_and_qwen2_words() {
        let text = "I'LL pay $12345\r\n\n  now!!\n\n\tok";
        assert_eq!(
            cut("llama-bpe", text),
            ["I", "'LL", " pay", " $", "123", "45", "\r\n\n", " ", " now", "!!\n\n", "\tok"]
        );
        assert_eq!(
            cut("qwen2", text),
            ["I", "'LL", " pay", " $", "1", "2", "3", "4", "5", "\r\n\n", " ", " now", "!!\n\n", "\tok"]
        );
    }

    #[test]
    fn rules_in_sequence_cut_each_others_pieces() {
        assert_eq!(cut("smollm", "a 12 b"), ["a", " ", "1", "2", " b"]);
        assert_eq!(cut("falcon", "x=12345 y"), ["x", "=", "123", "45", " y"]);
        assert_eq!(cut("deepseek-coder", "f(x1)\n 天气"), ["f", "(", "x", "1", ")", "\n", " ", "天气"]);
        assert_eq!(cut("deepseek-llm", "Hi there, 12  "), ["Hi", " there", ",", " ", "12", "  "]);
        assert_eq!(cut("deepseek-v3", "x.foo 1234\u{0}é"), ["x", ".foo", " ", "123", "4", "\u{0}é"]);
    }

    #[test]
    fn every_cut_keeps_every_byte() {
        let text = b"It's \xff\xfe 12\xe2\x96 \r\n\t\xf0\x9f\xa6\x99 'd  \x00\x80";
        for pre in KNOWN {
            assert!(pre.rules.len() <= MAX_RULES);
            for from in 0..text.len() {
                let mut at = from;
                for word in pre.words(&text[from..]) {
                    assert!(!word.is_empty() && text[at..].starts_with(word), "{}", pre.name);
                    at += word.len();
                }
                assert_eq!(at, text.len(), "{}", pre.name);
            }
        }
    }
}
