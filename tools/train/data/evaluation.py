"""Held-out sets: tools, devices, rooms and people that training never sees."""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from .catalogue import EVAL, UNSEEN
from .sample import Sample, ask_back, no_tool, report, several, single

SEED = 20_261_121
EACH = 72

KINDS: dict[str, Callable[[random.Random], Sample]] = {
    "single": lambda rng: single(EVAL, rng, most=6, near=0.3, slips=0.0, hints=0.1),
    "distractors": lambda rng: single(EVAL, rng, most=10, near=0.95, slips=0.0, hints=0.0),
    "copied": lambda rng: _copied(rng),
    "several": lambda rng: several(EVAL, rng, most=6),
    "ask_back": lambda rng: ask_back(EVAL, rng, most=6),
    "no_tool": lambda rng: no_tool(EVAL, rng, most=6),
    "unseen": lambda rng: single(UNSEEN, rng, most=6, near=0.4, slips=0.0),
    "misspelt": lambda rng: single(EVAL, rng, most=6, slips=1.0, hints=0.1),
    "report": lambda rng: report(EVAL, rng, most=6),
}


def _copied(rng: random.Random) -> Sample:
    """One call with two values or more from the request."""
    while True:
        made = single(EVAL, rng, most=6, slips=0.0, hints=0.0)
        if len(made.messages[-1]["calls"][0]["arguments"]) >= 2:
            return made


def _cut(made: Sample, kind: str) -> Sample:
    """Ends a conversation with the answer that is to be judged."""
    made.kind = kind
    if kind == "ask_back":
        first = next(i for i, m in enumerate(made.messages) if m["role"] == "assistant")
        made.messages = made.messages[: first + 1]
    return made


def samples(kind: str, rng: random.Random, count: int) -> Iterator[Sample]:
    """Samples of a kind, no request twice."""
    seen = set()
    while len(seen) < count:
        made = _cut(KINDS[kind](rng), kind)
        key = json.dumps(made.messages)
        if key not in seen:
            seen.add(key)
            yield made


def record(made: Sample) -> dict[str, Any]:
    """A sample as a line of the file that `cargo xtask eval-model` reads."""
    *messages, answer = made.messages
    out: dict[str, Any] = {"kind": made.kind, "tools": made.tools, "messages": messages}
    if calls := answer.get("calls"):
        out["calls"] = calls
    else:
        out["says"] = answer["content"]
        if made.kind == "report":
            out["holds"] = made.holds
    return out


def lines(each: int = EACH) -> Iterator[str]:
    """The whole held-out suite."""
    for kind in KINDS:
        for made in samples(kind, random.Random(f"{SEED} {kind}"), each):
            yield json.dumps(record(made), ensure_ascii=False, separators=(",", ":"))


def small(rng: random.Random, count: int) -> list[Sample]:
    """A few of each kind, others than the suite's, to watch a training by."""
    return [made for kind in KINDS for made in samples(kind, rng, count // len(KINDS))]
