"""Tools that mean nothing: invented devices, verbs and arguments.

A model cannot know them, so it must read the list.
"""

import random

from . import pools, values
from .op import Family, Op, Param
from .ops import CLOSE, IS_ON, LEVEL, OFF, ON, OPEN, POWER, START, STOP, TOGGLE, mode
from .split import held_out

_HEADS = ("", "", "", " unit", " module", " line", " box", " gate", " rack", " cell", " port", " deck", " array", " loop", " bus")
_VERBS = ["align", "balance", "boost", "bypass", "calibrate", "clamp", "collect", "compress", "cycle", "delay", "deploy", "detach", "divert", "eject", "engage", "extend", "feed", "flush", "freeze", "hold", "index", "inflate", "inject", "isolate", "launch", "lift", "load", "mark", "merge", "mix", "notch", "patch", "pin", "polish", "prime", "probe", "purge", "push", "queue", "ramp", "recall", "release", "retract", "ring", "rinse", "route", "sample", "scan", "seal", "seed", "shake", "shift", "sort", "split", "spin", "stack", "stretch", "swap", "sync", "tag", "test", "tilt", "trim", "tune", "twist", "vent", "verify", "wind", "wrap"]
_QUANTITIES = ["count", "mode", "target", "label", "angle", "slot", "code", "offset", "ratio", "gain", "channel", "index", "phase", "weight", "tone", "shade", "grade", "depth", "width", "bank", "lane", "step", "cycles", "force", "tint", "rate", "track", "shelf", "rank", "batch", "tag", "sector", "layer", "lot"]
_LINKS = ("with {0} {1}", "at {0} {1}", "{0} {1}", "{0} = {1}", "using {0} {1}", "to {0} {1}", "({0} {1})")


def _word(rng: random.Random, evaluating: bool) -> str:
    while True:
        word = values.syllables(rng)
        if held_out(word) == evaluating:
            return word


def _kind(rng: random.Random) -> values.Kind:
    made = [values.syllables(rng, 1, 2) for _ in range(rng.randint(2, 5))]
    return rng.choice(
        (
            values.integer(0, rng.choice((9, 99, 999))),
            values.integer(0, 100),
            values.decimal(0, 100, "", 2),
            values.pool(tuple(made), 0.2),
            values.pool(pools.PLACES),
            values.pool(pools.COLORS, 0.6),
            values.made(values.code),
            values.made(values.syllables),
            values.pool(pools.PEOPLE, 0.9),
            values.switch,
            values.clock,
            values.made(values.date),
        )
    )


def _op(rng: random.Random, evaluating: bool, taken: set[str]) -> Op:
    while True:
        verb = rng.choice(_VERBS) if rng.random() < 0.6 else _word(rng, evaluating)
        if verb not in taken:
            break
    taken.add(verb)
    params, parts = {}, []
    names = rng.sample(_QUANTITIES, 3) if rng.random() < 0.7 else [_word(rng, evaluating) for _ in range(3)]
    for i, name in enumerate(names[: rng.choice((0, 1, 1, 2, 2, 3))]):
        if rng.random() < 0.2:
            name = f"{name} {rng.choice(_QUANTITIES)}"
        key = f"p{i}"
        params[key] = Param(name, _kind(rng), f"The {name}|{name.capitalize()}|Which {name}", 0.8)
        link = rng.choice(_LINKS).format(name, "{" + key + "}")
        parts.append(f"[ {link}]" if i == 0 else f"[{rng.choice((', ', ' and '))}{link}]")
    tail = "".join(parts)
    return Op(
        verb,
        f"{verb} {{n}}|{{n}} {verb}|{verb}|do {verb} {{n}}|{verb} the {{n}}",
        f"{verb.capitalize()}s the {{n}}.|{verb.capitalize()} the {{n}}|To {verb} the {{n}}|{{n}}: {verb}",
        f"{verb} the {{n}}{tail}|{verb} {{n}}{tail}|i want to {verb} the {{n}}{tail}",
        params,
    )


def family(rng: random.Random, evaluating: bool) -> Family:
    """A family that has never been and will not be again."""
    name = f"made {rng.getrandbits(40)}"
    nouns = ", ".join(_word(rng, evaluating) + rng.choice(_HEADS) for _ in range(rng.randint(1, 3)))
    taken: set[str] = set()
    ops = [_op(rng, evaluating, taken) for _ in range(rng.randint(1, 4))]
    if rng.random() < 0.5:
        ops += rng.sample((ON, OFF, OPEN, CLOSE, LEVEL, POWER, START, STOP, TOGGLE, IS_ON, mode("speed")), 3)
    return Family(name, nouns, tuple(ops))
