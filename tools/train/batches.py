"""Samples packed into rows of tokens, made by several processes as they are needed.

Block `i` depends on the seed and on `i` alone: however many processes make
them, and wherever a training takes up again, the data are the same.
"""

import multiprocessing as mp
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .data import chat, sample
from .tokenizer import Tokenizer

ROWS = 16
"""Rows of a block."""
_LOOK = 24
"""Samples that wait for a row with room."""

Encoded = tuple[list[int], list[int]]
"""Ids, and of each a weight of its loss from 0 to 255."""


@dataclass
class Block:
    """Rows of one token more than the model is given at once."""

    tokens: np.ndarray
    weights: np.ndarray
    samples: np.ndarray
    """Number of the sample that a token belongs to, from 0 in each row."""
    positions: np.ndarray


def encode(made: sample.Sample, tokenizer: Tokenizer, rest: float) -> Encoded:
    """A sample's tokens and weights. The first of a sample is never predicted."""
    ids: list[int] = []
    weights: list[int] = []
    for text, own in chat.pieces(made.tools, made.messages):
        part = tokenizer.encode(text)
        ids += part
        weights += [255 if own else round(255 * rest)] * len(part)
    weights[0] = 0
    return ids, weights


def block(number: int, seed: int, row: int, tokenizer: Tokenizer, rest: float) -> Block:
    """Block `number` of the training data."""
    rng = random.Random(f"katydid {seed} {number}")
    waiting: list[Encoded] = []
    shape = (ROWS, row + 1)
    out = Block(
        np.zeros(shape, np.uint16), np.zeros(shape, np.uint8), np.zeros(shape, np.uint8), np.zeros(shape, np.uint16)
    )
    for r in range(ROWS):
        at, count = 0, 0
        while True:
            while len(waiting) < _LOOK:
                encoded = encode(sample.training(rng), tokenizer, rest)
                if len(encoded[0]) <= row + 1:
                    waiting.append(encoded)
            fit = next((i for i, (ids, _) in enumerate(waiting) if at + len(ids) <= row + 1), None)
            if fit is None or count == 254:
                break
            ids, weights = waiting.pop(fit)
            end = at + len(ids)
            out.tokens[r, at:end], out.weights[r, at:end] = ids, weights
            out.samples[r, at:end], out.positions[r, at:end] = count, np.arange(len(ids))
            at, count = end, count + 1
        out.samples[r, at:] = 255
    return out


def _work(first: int, step: int, seed: int, row: int, model: str, rest: float, queue: "mp.Queue[Block]") -> None:
    tokenizer = Tokenizer(Path(model))
    number = first
    while True:
        queue.put(block(number, seed, row, tokenizer, rest))
        number += step


def stream(start: int, workers: int, seed: int, row: int, model: Path, rest: float) -> Iterator[Block]:
    """Blocks from `start` on, for ever."""
    if workers == 0:
        tokenizer = Tokenizer(model)
        while True:
            yield block(start, seed, row, tokenizer, rest)
            start += 1
    context = mp.get_context("spawn")
    queues = [context.Queue(maxsize=8) for _ in range(workers)]
    processes = [
        context.Process(target=_work, args=(start + i, workers, seed, row, str(model), rest, q), daemon=True)
        for i, q in enumerate(queues)
    ]
    for process in processes:
        process.start()
    try:
        while True:
            for queue in queues:
                yield queue.get()
    finally:
        for process in processes:
            process.terminate()
