"""From a checkpoint to a GGUF file, and the proof that they are the same."""

import json
import subprocess
from pathlib import Path

import gguf
import numpy as np
import torch
from sentencepiece import sentencepiece_model_pb2 as pb

from .config import HERE, Shape
from .model import Model, causal
from .tokenizer import SPACE, Tokenizer

NAME = "Katydid Tiny"
_KINDS = ("NORMAL", "UNKNOWN", "CONTROL", "USER_DEFINED", "BYTE")
_LAYER = {
    "attn_norm": "attn_norm", "attn.q": "attn_q", "attn.k": "attn_k", "attn.v": "attn_v", "attn.o": "attn_output",
    "attn.q_norm": "attn_q_norm", "attn.k_norm": "attn_k_norm", "ffn_norm": "ffn_norm",
    "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down",
}  # fmt: skip


def load(checkpoint: Path) -> Model:
    """The model of a checkpoint."""
    state = torch.load(checkpoint, map_location="cpu", weights_only=True)
    model = Model(Shape(**state["shape"]))
    model.load_state_dict(state["model"])
    return model.eval()


def tensor_name(name: str) -> str:
    """What GGUF calls a parameter."""
    if name == "embed.weight":
        return "token_embd.weight"
    if name == "norm.weight":
        return "output_norm.weight"
    _, number, rest = name.split(".", 2)
    return f"blk.{number}.{_LAYER[rest.removesuffix('.weight')]}.weight"


def export(checkpoint: Path, tokenizer: Path, out: Path, half: bool = True) -> None:
    """Writes the model in 16 bits, or 32; norms always in 32."""
    model = load(checkpoint)
    writer = gguf.GGUFWriter(out, "qwen3")
    _hyper_parameters(writer, model.shape, half)
    _vocabulary(writer, tokenizer)
    for name, parameter in model.named_parameters():
        dtype = np.float16 if half and parameter.dim() == 2 else np.float32
        writer.add_tensor(tensor_name(name), parameter.detach().float().numpy().astype(dtype))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _hyper_parameters(writer: gguf.GGUFWriter, shape: Shape, half: bool) -> None:
    writer.add_name(NAME)
    writer.add_description("Turns a request and a list of tools into tool calls. It cannot chat.")
    writer.add_license("MIT OR Apache-2.0")
    writer.add_languages(["en"])
    writer.add_block_count(shape.layers)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_feed_forward_length(shape.ffn)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_layer_norm_rms_eps(shape.eps)
    writer.add_vocab_size(shape.vocab)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16 if half else gguf.LlamaFileType.ALL_F32)


def _vocabulary(writer: gguf.GGUFWriter, path: Path) -> None:
    model = pb.ModelProto.FromString(path.read_bytes())
    kinds = pb.ModelProto.SentencePiece
    types = {getattr(kinds, n): getattr(gguf.TokenType, n) for n in _KINDS}
    ids = {p.piece: i for i, p in enumerate(model.pieces)}
    writer.add_tokenizer_model("llama")
    # What is found in the text itself is spelt with plain spaces.
    writer.add_token_list(
        [p.piece.replace(SPACE, " ") if p.type == kinds.USER_DEFINED else p.piece for p in model.pieces]
    )
    writer.add_token_scores([p.score for p in model.pieces])
    writer.add_token_types([types[p.type] for p in model.pieces])
    writer.add_bos_token_id(ids["<s>"])
    writer.add_eos_token_id(ids["<|im_end|>"])
    writer.add_unk_token_id(ids["<unk>"])
    writer.add_add_bos_token(False)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_chat_template((HERE / "template.jinja").read_text())


def run(katydid: Path, *args: str | Path, text: str | None = None) -> str:
    """Runs the command and returns what it prints."""
    done = subprocess.run([katydid, *args], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{katydid} {' '.join(map(str, args[:3]))} …: {done.stderr.strip()}")
    return done.stdout


def check_tokens(katydid: Path, model: Path, tokenizer: Path, texts: list[str]) -> int:
    """Compares our cuts of texts with the engine's; returns how many tokens."""
    ours, total = Tokenizer(tokenizer), 0
    for text in texts:
        printed = run(katydid, "tokenize", model, "--ids", "--special", text=text)
        theirs = [int(i) for i in printed.replace(",", " ").split()]
        mine = ours.encode(text)
        if theirs != mine:
            at = next(i for i, (a, b) in enumerate(zip([*mine, -1], [*theirs, -1], strict=False)) if a != b)
            near = slice(max(at - 2, 0), at + 4)
            raise SystemExit(f"cut differently at token {at}: {mine[near]} here, {theirs[near]} there, of {text!r}")
        total += len(mine)
    return total


@torch.no_grad()
def check_logits(katydid: Path, model: Path, checkpoint: Path, ids: list[int], folder: Path) -> float:
    """The largest difference between PyTorch's logits and the engine's."""
    out = folder / "logits.f32"
    run(katydid, "eval", "logits", model, "--tokens", ",".join(map(str, ids)), "--out", out)
    theirs = np.fromfile(out, "<f4").reshape(len(ids), -1)
    net = load(checkpoint)
    mine = net(torch.tensor([ids]), torch.arange(len(ids))[None], causal)[0].numpy()
    return float(np.abs(mine - theirs).max())


def main(katydid: Path, folder: Path, tokenizer: Path, texts: list[str]) -> None:
    """Exports, checks and quantizes."""
    checkpoint = folder / "checkpoint.pt"
    exact, half = folder / "model-f32.gguf", folder / "model-f16.gguf"
    export(checkpoint, tokenizer, exact, half=False)
    export(checkpoint, tokenizer, half)
    count = check_tokens(katydid, half, tokenizer, texts)
    ids = Tokenizer(tokenizer).encode(texts[0])[:300]
    report = {"tokens_alike": count}
    for path in (exact, half):
        report[f"logits_differ_{path.stem}"] = check_logits(katydid, path, checkpoint, ids, folder)
    if report["logits_differ_model-f32"] > 1e-2:
        raise SystemExit(f"the engine computes something else than PyTorch: {report}")
    for kind in ("q8_0", "q4_k_m"):
        out = folder / f"model-{kind}.gguf"
        out.unlink(missing_ok=True)
        run(katydid, "quantize", exact, out, kind)
        report[f"bytes_{kind}"] = out.stat().st_size
    print(json.dumps(report))
