"""Qwen 3 in plain PyTorch, as small as it gets."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from .config import Shape

Turn = tuple[Tensor, Tensor]
Attend = Callable[[Tensor, Tensor, Tensor, Any], Tensor]


class Norm(nn.Module):
    """RMS norm, computed in 32 bits."""

    def __init__(self, width: int, eps: float):
        """Weights of 1."""
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Over the last dimension."""
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return (y * self.weight.float()).to(x.dtype)


def rotation(shape: Shape, positions: Tensor) -> Turn:
    """Cosines and sines of each position, halves paired as in GPT-NeoX."""
    half = shape.head_dim // 2
    waves = shape.rope_base ** (-torch.arange(half, device=positions.device, dtype=torch.float32) / half)
    angles = positions.float().unsqueeze(-1) * waves
    return angles.cos().unsqueeze(1), angles.sin().unsqueeze(1)


def rotate(x: Tensor, turn: Turn) -> Tensor:
    """Turns heads by their positions."""
    cos, sin = (t.to(x.dtype) for t in turn)
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Attention(nn.Module):
    """Grouped queries, normed heads."""

    def __init__(self, shape: Shape):
        """Random weights."""
        super().__init__()
        self.shape = shape
        self.q = nn.Linear(shape.width, shape.heads * shape.head_dim, bias=False)
        self.k = nn.Linear(shape.width, shape.kv_heads * shape.head_dim, bias=False)
        self.v = nn.Linear(shape.width, shape.kv_heads * shape.head_dim, bias=False)
        self.o = nn.Linear(shape.heads * shape.head_dim, shape.width, bias=False)
        self.q_norm = Norm(shape.head_dim, shape.eps)
        self.k_norm = Norm(shape.head_dim, shape.eps)

    def forward(self, x: Tensor, turn: Turn, attend: Attend, mask: Any) -> Tensor:
        """`attend` gets queries, keys and values, a head each, and the mask."""
        rows, length, _ = x.shape

        def heads(y: Tensor) -> Tensor:
            return y.view(rows, length, -1, self.shape.head_dim).transpose(1, 2)

        q = rotate(self.q_norm(heads(self.q(x))), turn)
        k = rotate(self.k_norm(heads(self.k(x))), turn)
        y = attend(q, k, heads(self.v(x)), mask)
        return self.o(y.transpose(1, 2).reshape(rows, length, -1))


class Layer(nn.Module):
    """Attention, then a gated feed-forward step."""

    def __init__(self, shape: Shape):
        """Random weights."""
        super().__init__()
        self.attn_norm = Norm(shape.width, shape.eps)
        self.attn = Attention(shape)
        self.ffn_norm = Norm(shape.width, shape.eps)
        self.gate = nn.Linear(shape.width, shape.ffn, bias=False)
        self.up = nn.Linear(shape.width, shape.ffn, bias=False)
        self.down = nn.Linear(shape.ffn, shape.width, bias=False)

    def forward(self, x: Tensor, turn: Turn, attend: Attend, mask: Any) -> Tensor:
        """Adds both to `x`."""
        x = x + self.attn(self.attn_norm(x), turn, attend, mask)
        y = self.ffn_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Model(nn.Module):
    """The whole model; the embedding is also the output head."""

    def __init__(self, shape: Shape):
        """Random weights; what writes into the stream starts smaller."""
        super().__init__()
        self.shape = shape
        self.embed = nn.Embedding(shape.vocab, shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.width, shape.eps)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                small = math.sqrt(2 * shape.layers) if name.endswith(("o.weight", "down.weight")) else 1.0
                nn.init.normal_(p, std=0.02 / small)

    def forward(self, ids: Tensor, positions: Tensor, attend: Attend, mask: Any = None) -> Tensor:
        """Logits of what follows each token."""
        x = self.embed(ids)
        turn = rotation(self.shape, positions)
        for layer in self.layers:
            x = layer(x, turn, attend, mask)
        return F.linear(self.norm(x), self.embed.weight)


def causal(q: Tensor, k: Tensor, v: Tensor, _: None) -> Tensor:
    """Every token sees those before it."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def masked(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Every token sees what `mask` says."""
    # Kernels that take a mask want as many keys as queries.
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def flexible(q: Tensor, k: Tensor, v: Tensor, blocks: Any) -> Tensor:
    """The same through FlexAttention, which skips whole blocks of other samples."""
    return flex_attention(q, k, v, block_mask=blocks, enable_gqa=True)


def own_sample(samples: Tensor) -> Tensor:
    """The mask by which tokens see their own sample; `samples` numbers them."""
    length = samples.shape[1]
    same = samples.unsqueeze(2) == samples.unsqueeze(1)
    return (same & torch.ones(length, length, dtype=torch.bool, device=samples.device).tril()).unsqueeze(1)


def own_sample_blocks(samples: Tensor) -> Any:
    """The same for [`flexible`]."""
    rows, length = samples.shape

    def mask(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (samples[b, i] == samples[b, j]) & (i >= j)

    return create_block_mask(mask, rows, None, length, length, device=str(samples.device))
