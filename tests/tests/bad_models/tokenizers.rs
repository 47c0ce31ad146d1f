//! Vocabularies that contradict themselves. (Hostile ones are fuzzed.)

use katydid_tests::tiny::{Meta, Shape};

use crate::{check_all, key};

#[test]
fn tokenizers() {
    use Meta::{F32s, I32s, Str, Strs, U32};
    check_all(
        &Shape::SMALL,
        &[
            (
                "none",
                |m| _ = m.unset("tokenizer.ggml.model"),
                "no tokenizer.ggml.model: it holds no usable tokenizer",
            ),
            key!(
                "tokenizer.ggml.model" = Str("t5".into()),
                "tokenizer.ggml.model 't5' is not supported; supported: llama, gpt2"
            ),
            key!("tokenizer.ggml.tokens" = Strs(vec![]), "tokenizer.ggml.tokens is empty"),
            key!(
                "tokenizer.ggml.tokens" = F32s(vec![1.0; 320]),
                "key 'tokenizer.ggml.tokens': is array of f32s, not an array of strings"
            ),
            key!(
                "tokenizer.ggml.scores" = F32s(vec![0.0; 5]),
                "tokenizer.ggml.scores has 5 items but the vocabulary has 320"
            ),
            key!("tokenizer.ggml.token_type" = I32s(vec![1; 319]), "tokenizer.ggml.token_type has 319 items"),
            key!(
                "tokenizer.ggml.bos_token_id" = U32(320),
                "tokenizer.ggml.bos_token_id is 320 but the vocabulary has 320"
            ),
            key!("tokenizer.ggml.eos_token_id" = U32(u32::MAX), "tokenizer.ggml.eos_token_id is 4294967295"),
            key!(
                "tokenizer.ggml.add_bos_token" = U32(1),
                "key 'tokenizer.ggml.add_bos_token': is u32, not a bool"
            ),
            (
                "tokens twice",
                |m| {
                    let Some((_, Strs(t))) = m.keys.iter_mut().find(|(k, _)| k.ends_with("ggml.tokens"))
                    else {
                        panic!()
                    };
                    t[300] = t[301].clone()
                },
                "tokens 300 and 301 have the same text",
            ),
        ],
    );
}
