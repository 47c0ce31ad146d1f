"""Sizes of the model and of its training."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
WORK = HERE / "work"


@dataclass(frozen=True)
class Shape:
    """A Qwen 3 model; every width that is quantized is a multiple of 256."""

    vocab: int
    layers: int = 8
    width: int = 256
    ffn: int = 768
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    context: int = 2048
    rope_base: float = 10_000.0
    eps: float = 1e-6

    def dict(self) -> dict[str, Any]:
        """For checkpoints."""
        return asdict(self)


@dataclass(frozen=True)
class Recipe:
    """How to train."""

    row: int = 1024
    """Tokens in a row of a batch; samples are packed into rows."""
    rows: int = 128
    """Rows in a step."""
    micro: int = 64
    """Rows that go through the model at once."""
    steps: int = 5000
    warmup: int = 200
    decay: float = 0.4
    """Share of the training in which the rate falls to nothing."""
    rate: float = 3e-3
    weight_decay: float = 0.1
    optimizer: str = "muon"
    rest: float = 0.1
    """Weight of what is not the assistant's."""
    seed: int = 1
    vocab: int = 3072


SMOKE = Recipe(row=512, rows=4, micro=4, steps=12, warmup=2, vocab=1600)
SMOKE_SHAPE = {"layers": 2, "width": 256, "ffn": 256}
