//! Tensors: missing, repeated, unknown, of another shape or format.

use katydid_core::quant::Format;
use katydid_tests::tiny::Shape;

use crate::check_all;

#[test]
fn tensors() {
    check_all(
        &Shape::SMALL,
        &[
            (
                "no embedding",
                |m| _ = m.drop_tensor("token_embd.weight"),
                "tensor 'token_embd.weight' is missing",
            ),
            (
                "no last norm",
                |m| _ = m.drop_tensor("output_norm.weight"),
                "tensor 'output_norm.weight' is missing",
            ),
            (
                "no query",
                |m| _ = m.drop_tensor("blk.1.attn_q.weight"),
                "tensor 'blk.1.attn_q.weight' is missing",
            ),
            (
                "no down",
                |m| _ = m.drop_tensor("blk.0.ffn_down.weight"),
                "tensor 'blk.0.ffn_down.weight' is missing",
            ),
            (
                "twice",
                |m| m.tensors.push(m.tensors[1].clone()),
                "tensor 'blk.0.attn_norm.weight': occurs twice (byte",
            ),
            (
                "qwen3's norm",
                |m| _ = m.add_tensor("blk.0.attn_q_norm.weight", &[16], Format::F32),
                "tensor 'blk.0.attn_q_norm.weight' is not part of a model with these keys",
            ),
            (
                "unknown in a layer",
                |m| _ = m.add_tensor("blk.1.ffn_up.bias", &[96], Format::F32),
                "tensor 'blk.1.ffn_up.bias' is not part of a model with these keys",
            ),
            (
                "unknown outside",
                |m| _ = m.add_tensor("position_embd.weight", &[64, 8], Format::F32),
                "tensor 'position_embd.weight' is not part",
            ),
            (
                "a layer too many",
                |m| _ = m.add_tensor("blk.2.attn_norm.weight", &[64], Format::F32),
                "tensor 'blk.2.attn_norm.weight' is not part",
            ),
            (
                "odd layer name",
                |m| _ = m.add_tensor("blk.00.attn_norm.weight", &[64], Format::F32),
                "tensor 'blk.00.attn_norm.weight' is not part",
            ),
            (
                "turned",
                |m| m.tensor("blk.0.ffn_up.weight").dims.reverse(),
                "tensor 'blk.0.ffn_up.weight' has 64 rows of 96, but 96 rows of 64 are needed",
            ),
            (
                "flat",
                |m| m.tensor("output.weight").dims = vec![64 * 320],
                "tensor 'output.weight' has 1 rows of 20480, but 320 rows of 64",
            ),
            (
                "short norm",
                |m| {
                    m.tensor("blk.1.ffn_norm.weight").dims = vec![32];
                    m.tensor("blk.1.ffn_norm.weight").data.truncate(128)
                },
                "tensor 'blk.1.ffn_norm.weight' has 1 rows of 32, but 1 rows of 64",
            ),
            (
                "norm in F16",
                |m| {
                    m.tensor("blk.0.attn_norm.weight").format = Format::F16;
                    m.tensor("blk.0.attn_norm.weight").data.truncate(128)
                },
                "tensor 'blk.0.attn_norm.weight' must be F32",
            ),
            (
                "rope factors",
                |m| _ = m.add_tensor("rope_freqs.weight", &[16], Format::F32),
                "tensor 'rope_freqs.weight' has 1 rows of 16, but 1 rows of 8",
            ),
            (
                "rope factor 0",
                |m| {
                    m.add_tensor("rope_freqs.weight", &[8], Format::F32);
                    m.fill("rope_freqs.weight", |i| i as f32);
                },
                "tensor 'rope_freqs.weight' is 0, but must be a positive number",
            ),
            (
                "vocabulary larger than the embedding",
                |m| {
                    m.tensor("token_embd.weight").dims[1] = 300;
                    m.tensor("token_embd.weight").data.truncate(300 * 256)
                },
                "tensor 'token_embd.weight' has 300 rows, but tokenizer.ggml.tokens names 320 tokens",
            ),
            (
                "output of another size",
                |m| {
                    m.tensor("output.weight").dims[1] = 300;
                    m.tensor("output.weight").data.truncate(300 * 256)
                },
                "tensor 'output.weight' has 300 rows of 64, but 320",
            ),
        ],
    );
    check_all(
        &Shape { arch: "qwen2", ..Shape::SMALL },
        &[("no bias", |m| _ = m.drop_tensor("blk.0.attn_k.bias"), "tensor 'blk.0.attn_k.bias' is missing")],
    );
    check_all(
        &Shape { arch: "qwen3", ..Shape::SMALL },
        &[(
            "no norm",
            |m| _ = m.drop_tensor("blk.1.attn_k_norm.weight"),
            "tensor 'blk.1.attn_k_norm.weight' is missing",
        )],
    );
}
