"""Which names belong to training and which to evaluation.

A name, noun, place or person is held out by a fixed hash of its letters, so
that the split never depends on a seed, on the order of a list or on what else
is in it. Training refuses what is held out; evaluation takes nothing else.
"""

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache

_ONE_IN = 6
_FEW = 30
"""Pools smaller than this are words that everybody uses, such as days: they are not split."""


@lru_cache(maxsize=1 << 16)
def held_out(name: str) -> bool:
    """Whether `name` is only for evaluation; case and separators do not count."""
    key = re.sub(r"[^a-z0-9]", "", name.lower())
    digest = hashlib.sha1(f"katydid:{key}".encode()).digest()
    return digest[0] * 256 + digest[1] < 65536 // _ONE_IN


@lru_cache(maxsize=256)
def _part(pool: tuple[str, ...], evaluating: bool) -> tuple[str, ...]:
    return tuple(n for n in pool if held_out(n) == evaluating) if len(pool) >= _FEW else pool


def part(pool: Iterable[str], evaluating: bool) -> tuple[str, ...]:
    """The names of `pool` that may be used."""
    return _part(tuple(pool), evaluating)
