"""Training, with checkpoints that go on where they stopped."""

import json
import math
import os
import random
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import batches
from .config import Recipe, Shape
from .data import chat, evaluation
from .model import Attend, Model, causal, flexible, masked, own_sample, own_sample_blocks
from .tokenizer import Tokenizer

Optimizers = list[torch.optim.Optimizer]


def optimizers(model: nn.Module, recipe: Recipe) -> Optimizers:
    """Muon for the matrices of the layers where asked for, AdamW for the rest."""
    matrices = [p for n, p in model.named_parameters() if p.dim() == 2 and "embed" not in n]
    others = [p for n, p in model.named_parameters() if p.dim() != 2]
    embed = [p for n, p in model.named_parameters() if "embed" in n]
    groups = [{"params": others, "weight_decay": 0.0}, {"params": embed, "weight_decay": 0.0}]
    if recipe.optimizer == "adamw":
        groups.append({"params": matrices, "weight_decay": recipe.weight_decay})
    made: Optimizers = [torch.optim.AdamW(groups, lr=recipe.rate, betas=(0.9, 0.95), eps=1e-10)]
    if recipe.optimizer == "muon":
        how = {"weight_decay": recipe.weight_decay, "adjust_lr_fn": "match_rms_adamw"}
        made.append(torch.optim.Muon(matrices, lr=recipe.rate, momentum=0.95, **how))
    return made


def rate(recipe: Recipe, step: int, progress: float) -> float:
    """Up, level, down to nothing: `progress` goes from 0 to 1."""
    up = min(1.0, (step + 1) / recipe.warmup)
    down = min(1.0, (1.0 - min(progress, 1.0)) / recipe.decay)
    return recipe.rate * min(up, max(down, 0.0))


def loss_of(model: nn.Module, rows: dict[str, Tensor], attend: Attend, mask: Any) -> Tensor:
    """The weighted loss, summed over tokens."""
    logits = model(rows["tokens"][:, :-1], rows["positions"][:, :-1], attend, mask)
    # The first token of a sample has no weight: nothing before it is its own.
    targets, weights = rows["tokens"][:, 1:], rows["weights"][:, 1:].float() / 255
    each = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction="none")
    return (each * weights.flatten()).sum()


class Trainer:
    """A model in training, and everything that a checkpoint holds."""

    def __init__(self, folder: Path, shape: Shape, recipe: Recipe, device: str, attention: str, compiled: bool):
        """A new one, or the one whose checkpoint is in `folder`."""
        torch.manual_seed(recipe.seed)
        self.folder, self.recipe, self.device = folder, recipe, device
        self.model = Model(shape).to(device)
        self.optimizers = optimizers(self.model, recipe)
        self.step, self.blocks, self.seconds = 0, 0, 0.0
        self.attend, self.mask = (flexible, own_sample_blocks) if attention == "flex" else (masked, own_sample)
        if compiled:
            # Layers are alike: compiled one by one they are compiled once.
            for layer in self.model.layers:
                layer.compile()
        folder.mkdir(parents=True, exist_ok=True)
        self.resume()

    def save(self) -> None:
        """Writes a checkpoint, whole or not at all."""
        state = {
            "shape": self.model.shape.dict(),
            "recipe": asdict(self.recipe),
            "model": self.model.state_dict(),
            # Moments lose little in 16 bits, and checkpoints travel.
            "optimizers": [_halved(o.state_dict()) for o in self.optimizers],
            "step": self.step,
            "blocks": self.blocks,
            "seconds": self.seconds,
        }
        path = self.folder / "checkpoint.pt"
        torch.save(state, path.with_suffix(".new"))
        os.replace(path.with_suffix(".new"), path)

    def resume(self) -> None:
        """Goes on from a checkpoint, if there is one."""
        path = self.folder / "checkpoint.pt"
        if not path.exists():
            return
        state = torch.load(path, map_location=self.device, weights_only=True)
        if state["shape"] != self.model.shape.dict():
            raise SystemExit(f"{path} is of another shape, {state['shape']}: move it away or give that shape")
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.step, self.blocks, self.seconds = state["step"], state["blocks"], state["seconds"]
        print(f"going on from step {self.step}", flush=True)

    def batch(self, stream) -> dict[str, Tensor]:
        """The rows of a step, on the device."""
        blocks = [next(stream) for _ in range(max(1, self.recipe.rows // batches.ROWS))]
        self.blocks += len(blocks)
        out = {}
        for key in ("tokens", "weights", "samples", "positions"):
            rows = np.concatenate([getattr(b, key) for b in blocks])[: self.recipe.rows]
            rows = torch.from_numpy(rows.astype(np.int64 if key != "weights" else np.uint8))
            if self.device == "cuda":
                rows = rows.pin_memory()
            out[key] = rows.to(self.device, non_blocking=True)
        return out

    def one_step(self, rows: dict[str, Tensor], progress: float) -> Tensor:
        """One step of all optimizers; returns the mean loss."""
        recipe = self.recipe
        total = rows["weights"][:, 1:].float().sum() / 255
        sum_ = torch.zeros((), device=self.device)
        for at in range(0, len(rows["tokens"]), recipe.micro):
            part = {k: v[at : at + recipe.micro] for k, v in rows.items()}
            with torch.autocast(self.device, dtype=torch.bfloat16):
                mask = self.mask(part["samples"][:, :-1].contiguous())
                loss = loss_of(self.model, part, self.attend, mask)
            (loss / total).backward()
            sum_ += loss.detach()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate(recipe, self.step, progress)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.step += 1
        return sum_ / total

    def one_step_or_simpler(self, rows: dict[str, Tensor], progress: float) -> Tensor:
        """[`one_step`]; where FlexAttention does not run here, with a plain mask from then on."""
        try:
            return self.one_step(rows, progress)
        except Exception as why:
            if self.attend is not flexible:
                raise
            print(f"FlexAttention does not run here ({type(why).__name__}: {why}); taking a mask", flush=True)
            self.attend, self.mask = masked, own_sample
            self.model.zero_grad(set_to_none=True)
            return self.one_step(rows, progress)


def _halved(state: dict) -> dict:
    def half(x):
        return x.to(torch.bfloat16) if isinstance(x, Tensor) and x.dim() > 0 else x

    return {**state, "state": {k: {n: half(v) for n, v in s.items()} for k, s in state["state"].items()}}


@torch.no_grad()
def exact(model: Model, tokenizer: Tokenizer, device: str, samples: list[evaluation.Sample]) -> dict[str, float]:
    """How often greedy answers are the expected ones, letter for letter, by
    kind: an answer is when every one of its tokens is the likeliest."""
    stance = torch.compiler.set_stance("force_eager")
    right: dict[str, list[bool]] = {}
    for made in samples:
        ids = tokenizer.encode(chat.prompt(made.tools, made.messages[:-1]))
        answer = tokenizer.encode(chat.answer_text(made.messages[-1])) + [tokenizer.end]
        whole = torch.tensor([ids + answer], device=device)
        with stance, torch.autocast(device, dtype=torch.bfloat16):
            logits = model(whole[:, :-1], torch.arange(whole.shape[1] - 1, device=device)[None], causal)
        hit = logits[0, len(ids) - 1 :].argmax(-1) == whole[0, len(ids) :]
        right.setdefault(made.kind, []).append(bool(hit.all()))
    return {k: sum(v) / len(v) for k, v in right.items()}


def train(
    folder: Path, model_file: Path, shape: Shape, recipe: Recipe, *, device: str, workers: int, attention: str,
    compiled: bool, minutes: float | None, budget: float | None, check_every: int = 250,
) -> None:  # fmt: skip
    """Trains until the recipe's steps are done, or for `minutes` of this run.

    With `budget` the rate falls by the clock instead of by steps: training is
    done after so many minutes, all runs together.
    """
    trainer = Trainer(folder, shape, recipe, device, attention, compiled)
    tokenizer = Tokenizer(model_file)
    validation = evaluation.small(random.Random(7), 120)
    stream = batches.stream(trainer.blocks, workers, recipe.seed, recipe.row, model_file, recipe.rest)
    start, tokens, shown = time.monotonic(), 0, time.monotonic()
    before = trainer.seconds
    log = (folder / "log.jsonl").open("a")
    parameters = sum(p.numel() for p in trainer.model.parameters())
    print(f"{parameters / 1e6:.2f}M parameters, {recipe.rows * recipe.row} tokens a step", flush=True)
    while True:
        elapsed = time.monotonic() - start
        trainer.seconds = before + elapsed
        progress = trainer.seconds / 60 / budget if budget else trainer.step / recipe.steps
        if progress >= 1 or (minutes and elapsed > minutes * 60):
            break
        loss = trainer.one_step_or_simpler(trainer.batch(stream), progress)
        tokens += recipe.rows * recipe.row
        if trainer.step % 20 == 0 or trainer.step < 5:
            now = time.monotonic()
            entry = {
                "step": trainer.step,
                "loss": round(loss.item(), 4),
                "tokens_per_s": round(tokens / (now - shown)),
                "progress": round(progress, 4),
            }
            if not math.isfinite(entry["loss"]):
                raise SystemExit(f"the loss is {entry['loss']} at step {trainer.step}: lower the rate")
            tokens, shown = 0, now
            if trainer.step % check_every == 0:
                entry["exact"] = exact(trainer.model, tokenizer, device, validation)
                trainer.save()
                shown = time.monotonic()
            print(json.dumps(entry), file=log, flush=True)
            print(entry, flush=True)
    trainer.save()
    entry = {"step": trainer.step, "exact": exact(trainer.model, tokenizer, device, validation), "done": progress >= 1}
    print(json.dumps(entry), file=log, flush=True)
    print(entry, flush=True)
    stream.close()


def smaller(recipe: Recipe, **changes) -> Recipe:
    """A recipe with some values changed, those that are None excepted."""
    return replace(recipe, **{k: v for k, v in changes.items() if v is not None})
