//! Keys: missing, of another kind, out of range.

use katydid_tests::tiny::{Meta, Shape};

use crate::{check_all, key};

#[test]
fn keys_out_of_range() {
    use Meta::{F32, U32};
    check_all(
        &Shape::SMALL,
        &[
            key!(
                "llama.attention.head_count" = U32(0),
                "key 'llama.attention.head_count' is 0, but must be from 1"
            ),
            key!(
                "llama.attention.head_count" = U32(3),
                "'llama.attention.head_count' is 3, which is not a multiple of 2"
            ),
            key!(
                "llama.attention.head_count" = U32(6),
                "'llama.embedding_length' is 64, which is not a multiple of 6"
            ),
            key!("llama.attention.head_count" = U32(u32::MAX), "'llama.attention.head_count' is 4294967295"),
            key!("llama.attention.head_count_kv" = U32(0), "'llama.attention.head_count_kv' is 0"),
            key!(
                "llama.attention.head_count_kv" = U32(3),
                "'llama.attention.head_count' is 4, which is not a multiple of 3"
            ),
            key!(
                "llama.attention.head_count_kv" = U32(8),
                "'llama.attention.head_count' is 4, which is not a multiple of 8"
            ),
            key!("llama.attention.key_length" = U32(0), "'llama.attention.key_length' is 0"),
            key!(
                "llama.attention.key_length" = U32(1024),
                "'llama.attention.key_length' is 1024, but must be from 1 to 512"
            ),
            key!(
                "llama.attention.key_length" = U32(15),
                "'llama.attention.key_length' is 15, which is not a multiple of 2"
            ),
            key!(
                "llama.attention.value_length" = U32(32),
                "'llama.attention.value_length' is 32, but must be 16"
            ),
            key!(
                "llama.rope.dimension_count" = U32(7),
                "'llama.rope.dimension_count' is 7, which is not a multiple of 2"
            ),
            key!("llama.rope.dimension_count" = U32(0), "'llama.rope.dimension_count' is 0"),
            key!(
                "llama.rope.dimension_count" = U32(32),
                "'llama.rope.dimension_count' is 32, but must be from 1 to 16"
            ),
            key!("llama.block_count" = U32(0), "'llama.block_count' is 0"),
            key!("llama.block_count" = U32(200), "tensor 'blk.2.attn_norm.weight' is missing"),
            key!("llama.block_count" = U32(u32::MAX), "'llama.block_count' is 4294967295"),
            key!("llama.block_count" = U32(1), "tensor 'blk.1."),
            key!("llama.context_length" = U32(1 << 31), "'llama.context_length' is 2147483648"),
            key!("llama.context_length" = U32(0), "'llama.context_length' is 0"),
            key!("llama.embedding_length" = U32(0), "'llama.embedding_length' is 0"),
            key!(
                "llama.embedding_length" = U32(32),
                "tensor 'token_embd.weight' has 320 rows of 64, but 320 rows of 32"
            ),
            key!("llama.feed_forward_length" = U32(0), "'llama.feed_forward_length' is 0"),
            key!(
                "llama.feed_forward_length" = U32(64),
                "tensor 'blk.0.ffn_gate.weight' has 96 rows of 64, but 64 rows"
            ),
            key!(
                "llama.attention.layer_norm_rms_epsilon" = F32(f32::NAN),
                "rms_epsilon' is NaN, but must be a positive number"
            ),
            key!("llama.attention.layer_norm_rms_epsilon" = F32(-1.0), "rms_epsilon' is -1"),
            key!("llama.attention.layer_norm_rms_epsilon" = F32(f32::INFINITY), "rms_epsilon' is inf"),
            key!("llama.rope.freq_base" = F32(0.0), "'llama.rope.freq_base' is 0"),
            key!("llama.rope.freq_base" = F32(f32::NAN), "'llama.rope.freq_base' is NaN"),
            key!(
                "llama.expert_count" = U32(8),
                "'llama.expert_count' asks for 'mixture of experts', which is not supported"
            ),
        ],
    );
}

#[test]
fn keys_missing_or_of_another_kind() {
    use Meta::{F32, F32s, Str, U32, U64};
    check_all(
        &Shape::SMALL,
        &[
            ("no arch", |m| _ = m.unset("general.architecture"), "key 'general.architecture' is missing"),
            key!(
                "general.architecture" = Str("mamba".into()),
                "is 'mamba', which is not supported; supported: llama qwen2 qwen3"
            ),
            key!("general.architecture" = Str(String::new()), "which is not supported"),
            key!("general.architecture" = Str("qwen2".into()), "key 'qwen2.embedding_length' is missing"),
            key!("general.architecture" = U32(1), "key 'general.architecture': is u32, not a string"),
            ("no eps", |m| _ = m.unset("llama.attention.layer_norm_rms_epsilon"), "rms_epsilon' is missing"),
            ("no layers", |m| _ = m.unset("llama.block_count"), "key 'llama.block_count' is missing"),
            (
                "no heads",
                |m| _ = m.unset("llama.attention.head_count"),
                "'llama.attention.head_count' is missing",
            ),
            ("no context", |m| _ = m.unset("llama.context_length"), "key 'llama.context_length' is missing"),
            key!("llama.block_count" = Str("2".into()), "key 'llama.block_count': is string, not an integer"),
            key!("llama.block_count" = F32(2.0), "key 'llama.block_count': is f32, not an integer"),
            key!(
                "llama.block_count" = F32s(vec![2.0]),
                "key 'llama.block_count': is array of f32s, not an integer"
            ),
            key!(
                "llama.attention.head_count" = U64(1 << 40),
                "'llama.attention.head_count': 1099511627776 is out of range"
            ),
            key!("llama.attention.layer_norm_rms_epsilon" = U32(1), "rms_epsilon': is u32, not an f32"),
            key!(
                "llama.rope.scaling.type" = Str("yarn".into()),
                "'llama.rope.scaling.type' asks for 'yarn', which is not supported"
            ),
            key!(
                "llama.rope.scaling.type" = Str("linear".into()),
                "key 'llama.rope.scaling.factor' is missing"
            ),
            key!("llama.rope.scaling.type" = Str("longrope".into()), "asks for 'longrope'"),
            key!("llama.rope.scaling.type" = U32(1), "key 'llama.rope.scaling.type': is u32, not a string"),
            (
                "key twice",
                |m| m.keys.push(m.keys[3].clone()),
                "key 'llama.embedding_length': occurs twice (byte",
            ),
        ],
    );
}
