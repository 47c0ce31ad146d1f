"""All families, and tools drawn from them."""

import random
from dataclasses import dataclass

from . import desk, heldout, home, naming, synthetic, work
from .op import Family, Op
from .split import held_out
from .tool import Tool, make, place_in_noun

TRAINED = home.FAMILIES + work.FAMILIES + work.SENSORS + desk.FAMILIES
_WEIGHTS = [3.0 if f in home.FAMILIES else 0.25 if f in work.SENSORS else 2.0 for f in TRAINED]

# Operations that a request for the one could also mean.
_CLASSES = {
    "power": {"on", "off"}, "start": {"on"}, "stop": {"off"}, "arm": {"on"}, "disarm": {"off"},
    "openclose": {"open", "close"}, "color": {"mode"}, "source": {"mode"},
    "level": {"number"}, "position": {"number", "open"}, "temperature": {"number"}, "speed": {"number"},
    "volume": {"number"}, "height": {"number"}, "flow": {"number"}, "gravity": {"number"},
    "add several": {"add"}, "eval": {"calc"}, "add": {"add", "calc"}, "subtract": {"calc"},
    "multiply": {"calc"}, "divide": {"calc"}, "cancel timer": {"stop timer"}, "channel": {"number"},
    "reminder": {"remember"}, "note": {"remember"}, "task": {"remember"}, "scene": {"run"}, "routine": {"run"},
    "restart service": {"run"}, "fill": {"number"}, "charge": {"number"}, "timed": {"timed", "on"}, "schedule": {"schedule"},
    "set timer": {"timed"}, "play": {"run"}, "search": {"search"}, "list?": {"list?"}, "send": {"send"}, "call": {"send"},
    "dispense": {"timed"}, "show": {"show"}, "call ": {"send"}, "notify": {"say"}, "announce": {"say"},
    "write pin": {"number"}, "pwm": {"number"}, "servo": {"number"}, "turn": {"number"}, "home": {"home"},
}  # fmt: skip
# Families one of which may answer "it's dark" or "it's cold".
COMFORT = {"light", "cover", "heating", "cooling", "thermostat", "air", "kitchen", "bath", "garden", "pump", "farm"}


def classes(op: Op) -> set[str]:
    """What a request for `op` may be mistaken for, on the same device."""
    if op.group.endswith("?"):
        return {"read" if op.group not in ("state?", "battery?", "progress?") else op.group}
    return _CLASSES.get(op.group, {op.group})


def _switching(op: Op) -> set[str]:
    """What tools for any device do, and so no tool beside them may do."""
    if op.group.endswith("?"):
        return {"read"}
    generic = {"device": {"on", "off"}, "device on": {"on"}, "device off": {"off"}, "device level": {"number"}}
    return generic.get(op.group) or classes(op)


def _alike(a: Tool, b: Tool) -> bool:
    """Whether one device's name could also mean the other."""
    if not a.noun or not b.noun:
        return a.family == b.family and a.noun == b.noun
    first, second = ({w for s in t.said for w in s.split()} for t in (a, b))
    return any(set(s.split()) <= second for s in a.said) or any(set(s.split()) <= first for s in b.said)


def clash(a: Tool, b: Tool) -> bool:
    """Whether a request for one could as well mean the other."""
    if a.name.lower().replace("_", "") == b.name.lower().replace("_", ""):
        return True
    if a.family.startswith("any ") or b.family.startswith("any "):
        # Their devices may be any.
        return bool(_switching(a.op) & _switching(b.op))
    if not a.noun and not b.noun and a.family != b.family:
        return bool(classes(a.op) & classes(b.op))
    return _alike(a, b) and bool(classes(a.op) & classes(b.op))


@dataclass
class Source:
    """Where tools come from: which families, and which part of the split."""

    families: tuple[Family, ...]
    weights: list[float]
    evaluating: bool
    synthetic: float = 0.15

    def pick(self, style: str, rng: random.Random) -> Tool:
        """Any tool."""
        while True:
            if rng.random() < self.synthetic:
                family = synthetic.family(rng, self.evaluating)
            else:
                family = rng.choices(self.families, self.weights)[0]
            tool = self.of(family, style, rng)
            if tool is not None:
                return tool

    def of(self, family: Family, style: str, rng: random.Random, op: Op | None = None, said: tuple[str, ...] = ()) -> Tool | None:
        """A tool of `family`; with `op` and for the device `said`, where given."""
        if not said and family.nouns:
            said = self.noun(family, rng)
            if not said:
                return None
        return make(family, said, op or rng.choice(family.ops), style, rng, self.evaluating)

    def noun(self, family: Family, rng: random.Random) -> tuple[str, ...]:
        """A device of `family` of our part of the split, with its synonyms."""
        groups = [g for g in _groups(family) if held_out(g[0]) == self.evaluating or family in heldout.FAMILIES]
        if not groups:
            return ()
        group = rng.choice(groups)
        said = tuple(s for s in group if held_out(s) == self.evaluating or s == group[0])
        if rng.random() < (0.6 if self.evaluating else 0.25) and family.name.split()[0] not in ("sensor", "dosing", "made"):
            placed = place_in_noun(said, rng, self.evaluating)
            # What is made of two words may be a device of its own.
            if all(held_out(p) == self.evaluating and p not in _UNSEEN_NOUNS for p in placed):
                return placed
        return said

    def near(self, tool: Tool, family: Family, style: str, rng: random.Random) -> Tool | None:
        """A tool that is nearly `tool`: its opposite, another operation on the
        same device, or the same operation on another device."""
        roll = rng.random()
        if roll < 0.4:
            mates = [o for o in family.ops if o.group == tool.op.mate]
            if mates:
                return self.of(family, style, rng, mates[0], tool.said)
        if roll < 0.7 or not tool.noun:
            return self.of(family, style, rng, rng.choice(family.ops), tool.said)
        return self.of(family, style, rng, tool.op)


_UNSEEN_NOUNS = {noun for f in heldout.FAMILIES for group in f.groups() for noun in group}
_GROUPS: dict[str, list[tuple[str, ...]]] = {}


def _groups(family: Family) -> list[tuple[str, ...]]:
    if family.name.startswith("made"):
        return family.groups()
    return _GROUPS.setdefault(family.name, family.groups())


TRAIN = Source(TRAINED, _WEIGHTS, evaluating=False)
EVAL = Source(TRAINED, _WEIGHTS, evaluating=True)
UNSEEN = Source(heldout.FAMILIES, [4.0 if len(f.ops) > 1 else 1.0 for f in heldout.FAMILIES], evaluating=True, synthetic=0.0)


def style(rng: random.Random) -> str:
    """A habit of naming."""
    return rng.choice(naming.STYLES)
