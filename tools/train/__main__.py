"""`python -m train STEP`: the pipeline, a step or all of it."""

import argparse
import random
import time
from pathlib import Path

from . import batches, config
from .config import WORK, Recipe, Shape
from .data import chat, evaluation, sample

FIXTURES = config.HERE / "eval" / "chat.jsonl"
SUITE = config.HERE / "eval" / "heldout.jsonl"


def texts(seed: int, count: int) -> list[str]:
    """Whole training samples as text."""
    rng = random.Random(f"katydid text {seed}")
    made = (sample.training(rng) for _ in range(count))
    return ["".join(t for t, _ in chat.pieces(s.tools, s.messages)) for s in made]


def data(args: argparse.Namespace) -> None:
    """Writes the held-out suite and the fixtures of the core's tests; shows what training data are like."""
    from . import fixtures

    SUITE.parent.mkdir(exist_ok=True)
    SUITE.write_text("".join(f"{line}\n" for line in evaluation.lines()))
    fixtures.write(FIXTURES)
    args.work.mkdir(parents=True, exist_ok=True)
    start, some = time.perf_counter(), texts(0, 2000)
    rate = len(some) / (time.perf_counter() - start)
    (args.work / "samples.txt").write_text("\n\n".join(some[:200]))
    long = sum(map(len, some)) / len(some)
    print(f"{SUITE}: {SUITE.stat().st_size} bytes")
    print(f"training: {rate:.0f} samples/s a process, {long:.0f} characters each")


def tokenizer(args: argparse.Namespace) -> None:
    """Learns the vocabulary."""
    from .tokenizer import Tokenizer
    from .vocabulary import train

    args.work.mkdir(parents=True, exist_ok=True)
    path = args.work / "tokenizer.model"
    train(texts(1, 2000 if args.smoke else 40_000), args.recipe.vocab, path)
    learnt = Tokenizer(path)
    some = texts(2, 500)
    count = sum(len(learnt.encode(t)) for t in some)
    per_sample, per_token = count / len(some), sum(map(len, some)) / count
    print(f"{path}: {learnt.size} pieces, {per_sample:.0f} tokens a sample, {per_token:.2f} characters a token")


def train(args: argparse.Namespace) -> None:
    """Trains, from the checkpoint if there is one."""
    import torch

    from . import training
    from .tokenizer import Tokenizer

    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        torch.set_num_threads(args.threads)
    torch.set_float32_matmul_precision("high")
    model = args.work / "tokenizer.model"
    sizes = (
        config.SMOKE_SHAPE
        if args.smoke
        else {k: getattr(args, k) for k in ("layers", "ffn", "heads", "kv_heads") if getattr(args, k)}
    )
    attention = args.attention or ("flex" if device == "cuda" and not args.smoke else "mask")
    training.train(
        args.work, model, Shape(vocab=Tokenizer(model).size, **sizes), args.recipe, device=device, workers=args.workers,
        attention=attention, compiled=args.compile or attention == "flex", minutes=args.minutes,
        budget=args.budget_minutes, check_every=args.check_every,
    )  # fmt: skip


def export(args: argparse.Namespace) -> None:
    """Writes GGUF files and checks them against PyTorch and our tokenizer."""
    from . import export as out

    out.main(args.katydid, args.work, args.work / "tokenizer.model", texts(3, 20) + _hard_texts())


def _hard_texts() -> list[str]:
    return [
        "Größe: 21,5 °C — naïve café  two  spaces\n\ttab \u2581 \U0001f997 <|im_end|>x</tools>",
        '{"name": "a"}}, "required": ["b"]}}} "": {} [1, 2.5, -3] \'quoted\' #ff00aa /dev/gpiochip0',
        " leading and trailing ",
        "turnOnHTTPServer2 MQTT_PUBLISH x",
    ]


def bench(args: argparse.Namespace) -> None:
    """Times making and packing data in one process."""
    from .tokenizer import Tokenizer

    learnt = Tokenizer(args.work / "tokenizer.model")
    start, blocks = (
        time.perf_counter(),
        [batches.block(i, 0, args.recipe.row, learnt, args.recipe.rest) for i in range(12)],
    )
    took = time.perf_counter() - start
    slots = sum(b.tokens.size for b in blocks)
    used = sum(int((b.samples != 255).sum()) for b in blocks)
    print(f"{used / took:.0f} tokens/s a process, {100 * used / slots:.1f}% of rows filled")


def pack(args: argparse.Namespace) -> None:
    """Cuts the checkpoint into files of at most 15 MiB in --parts, to carry it from machine to machine."""
    args.parts.mkdir(parents=True, exist_ok=True)
    whole = (args.work / "checkpoint.pt").read_bytes()
    for i, at in enumerate(range(0, len(whole), PART)):
        (args.parts / f"checkpoint.{i}").write_bytes(whole[at : at + PART])
    (args.parts / "log.jsonl").write_bytes((args.work / "log.jsonl").read_bytes())
    print(f"{len(whole)} bytes in {args.parts}")


def unpack(args: argparse.Namespace) -> None:
    """Puts together what pack cut."""
    paths = sorted(args.parts.glob("checkpoint.*"), key=lambda p: int(p.suffix[1:]))
    if not paths:
        raise SystemExit(f"there are no parts of a checkpoint in {args.parts}")
    args.work.mkdir(parents=True, exist_ok=True)
    (args.work / "checkpoint.pt").write_bytes(b"".join(p.read_bytes() for p in paths))
    (args.work / "log.jsonl").write_bytes((args.parts / "log.jsonl").read_bytes())


def everything(args: argparse.Namespace) -> None:
    """All steps, one after another; evaluate with `cargo xtask eval-model` then."""
    for step in (data, tokenizer, train, export):
        print(f"== {step.__name__}", flush=True)
        step(args)


STEPS = {
    "data": data,
    "tokenizer": tokenizer,
    "train": train,
    "export": export,
    "bench": bench,
    "pack": pack,
    "unpack": unpack,
    "all": everything,
}
PART = 15 << 20


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="python -m train", description=__doc__)
    parser.add_argument("step", choices=STEPS, help="; ".join(f"{k}: {f.__doc__}" for k, f in STEPS.items()))
    parser.add_argument("--work", type=Path, default=WORK, help="where checkpoints and models go")
    parser.add_argument("--smoke", action="store_true", help="a tiny model and a few steps, to see that all works")
    parser.add_argument(
        "--katydid", type=Path, default=config.HERE.parents[1] / "target/release/katydid", help="the command"
    )
    parser.add_argument("--workers", type=int, default=0, help="processes that make data; 0 makes them in between")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch on the CPU")
    parser.add_argument("--minutes", type=float, help="stop this run after so long, with a checkpoint")
    parser.add_argument(
        "--budget-minutes", type=float, help="train for so long, all runs together, instead of by steps"
    )
    parser.add_argument("--steps", type=int)
    parser.add_argument("--rows", type=int, help="rows of 1024 tokens in a step")
    parser.add_argument("--micro", type=int, help="rows at once")
    parser.add_argument("--row", type=int, help="tokens in a row")
    parser.add_argument("--rate", type=float, help="highest learning rate")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--optimizer", choices=("muon", "adamw"))
    parser.add_argument("--vocab", type=int)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--ffn", type=int)
    parser.add_argument("--heads", type=int)
    parser.add_argument("--kv-heads", type=int)
    parser.add_argument("--attention", choices=("flex", "mask"), help="how samples in a row are kept apart")
    parser.add_argument("--compile", action="store_true", help="with torch.compile")
    parser.add_argument("--parts", type=Path, default=WORK / "parts", help="where pack writes and unpack reads")
    parser.add_argument("--check-every", type=int, default=250, help="steps between checkpoints")
    args = parser.parse_args()
    keys = ("steps", "rows", "micro", "row", "rate", "seed", "optimizer", "vocab")
    changes = {k: getattr(args, k) for k in keys if getattr(args, k) is not None}
    args.recipe = Recipe(**{**(config.SMOKE.__dict__ if args.smoke else {}), **changes})
    STEPS[args.step](args)


if __name__ == "__main__":
    main()
