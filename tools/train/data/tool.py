"""From an operation to a tool as somebody may have written it, and to requests."""

import random
import re
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

from . import naming, pools, values
from .op import Family, Op, Param
from .split import held_out, part
from .values import Bound, Json


@dataclass
class Argument:
    """An argument of a tool."""

    name: str
    bound: Bound
    required: bool


@dataclass
class Tool:
    """A tool with what is known of its meaning."""

    name: str
    description: str
    parameters: dict[str, Json] | None
    home: Family
    noun: str
    """Empty for tools without a device."""
    said: tuple[str, ...]
    """What requests may call the device."""
    op: Op
    arguments: dict[str, Argument] = field(default_factory=dict)

    in_order: bool = True
    """Members stand as they were written, not by the alphabet."""

    def sort(self) -> None:
        """Puts all members in the order of the alphabet, as programs do that
        read JSON and write it again."""
        self.in_order = False
        self.parameters = _sorted(self.parameters)
        self.arguments = dict(sorted(self.arguments.items(), key=lambda item: item[1].name))

    @property
    def family(self) -> str:
        """The name of its family."""
        return self.home.name

    def spec(self) -> dict[str, Json]:
        """The tool as OpenAI's API has it, without the outer object."""
        spec: dict[str, Json] = {"name": self.name}
        if self.description:
            spec["description"] = self.description
        if self.parameters is not None:
            spec["parameters"] = self.parameters
        return spec


@dataclass
class Ask:
    """A request for one tool."""

    text: str
    tool: Tool
    values: dict[str, Json]
    said: dict[str, str]
    imperative: bool
    """Whether "please" and the like may stand before it."""
    names_device: bool
    missing: str = ""
    """Key of a required argument that the request leaves out."""

    def arguments(self) -> dict[str, Json]:
        """The arguments of the call, in the order of the schema."""
        values = {a.name: self.values[k] for k, a in self.tool.arguments.items() if k in self.values}
        return values if self.tool.in_order else _sorted(values)


def _sorted(value: Json) -> Json:
    if isinstance(value, dict):
        return {k: _sorted(v) for k, v in sorted(value.items())}
    return [_sorted(v) for v in value] if isinstance(value, list) else value


Segment = tuple[str, tuple[str, ...], bool]
"""Text, its slots, whether it stood in brackets."""


_DANGLING = re.compile(
    r"(:|,|\b(in|to|at|for|with|from|of|on|the|about|into|between|by|saying|that|me|called|and|a|under|channel|pin|gpio|minus))\s*$"
)


@cache
def _parse(template: str) -> tuple[Segment, ...]:
    pieces = re.split(r"(\[[^\]]*\])", template)
    return tuple(
        (p.strip("[]") if p[0] == "[" else p, tuple(s for s in re.findall(r"{(\w+)}", p) if s != "n"), p[0] == "[")
        for p in pieces
        if p
    )


@cache
def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split("|")) if text else ()


def expand(template: str, given: dict[str, str], noun: str) -> str | None:
    """The text of a template, or None where it needs what is not given or has
    no place for what is."""
    segments = _parse(template)
    slots = {s for _, keys, _ in segments for s in keys}
    if not slots.issuperset(given):
        return None
    out: list[str] = []
    dangling = False
    for text, keys, optional in segments:
        if not all(k in given for k in keys):
            if not optional:
                return None
            # "play it in the" may lose what follows only at the end. What begins
            # with a word of its own falls away together with that.
            dangling |= text.lstrip().startswith("{") and bool(out) and _DANGLING.search(out[-1]) is not None
        elif dangling:
            return None
        else:
            out.append(text)
    text = "".join(out)
    if dangling:
        while (shorter := _DANGLING.sub("", text)) != text:
            text = shorter
        if " " not in text.strip():
            return None
    return text.rstrip().format(n=noun, **given)


def _describe(param: Param, bound: Bound, rng: random.Random) -> str:
    """What a schema says of an argument; empty where nothing."""
    about = rng.choice(_split(param.about)) if param.about and rng.random() < 0.6 else ""
    if bound.note and (about == "" or bound.note.split()[0] not in about):
        if "HH:MM" in bound.note or rng.random() < 0.6:
            about = f"{about}, {bound.note}" if about else bound.note[0].upper() + bound.note[1:]
    return about


def _property(param: Param, bound: Bound, required: bool, rng: random.Random) -> dict[str, Json]:
    schema = dict(bound.schema)
    if about := _describe(param, bound, rng):
        schema["description"] = about
        if rng.random() < 0.25:
            schema = {"description": schema.pop("description"), **schema}
    if not required and rng.random() < param.default and schema.get("type") in ("integer", "boolean"):
        schema["default"] = bound.draw(rng)[0]
    return schema


def _parameters(arguments: dict[str, Argument], params: dict[str, Param], rng: random.Random) -> dict[str, Json] | None:
    if not arguments:
        return rng.choice((None, {"type": "object", "properties": {}}, {"type": "object"}))
    parts: dict[str, Json] = {
        "type": "object",
        "properties": {a.name: _property(params[k], a.bound, a.required, rng) for k, a in arguments.items()},
    }
    if required := [a.name for a in arguments.values() if a.required]:
        parts["required"] = required
    if rng.random() < 0.06:
        parts["additionalProperties"] = False
    if rng.random() < 0.2:
        keys = list(parts)
        rng.shuffle(keys)
        parts = {k: parts[k] for k in keys}
    return parts


def _name(op: Op, noun: str, style: str, rng: random.Random, evaluating: bool) -> str:
    for _ in range(60):
        words = rng.choice(_split(op.names)).format(n=noun)
        name = naming.function(words, style, rng)
        if held_out(name) == evaluating:
            return name
        style = rng.choice(naming.STYLES)
    return ""


def _opaque(noun: str, rng: random.Random, evaluating: bool) -> str:
    while True:
        stem = rng.choice(("tool", "fn", "cmd", "relay", "out", "action", "dev", "unit", "func", "x"))
        name = f"{stem}{rng.choice(('_', ''))}{rng.choice('abcdefgh') if rng.random() < 0.3 else rng.randrange(1, 99)}"
        if held_out(name) == evaluating:
            return name


@lru_cache(maxsize=1 << 14)
def _placed(noun: str) -> bool:
    """Whether a device is named by its room."""
    return noun.startswith(_PLACES)


_PLACES = tuple(f"{p} " for p in pools.PLACES)


_SIDES = values.pool(
    ["north", "south", "east", "west", "left", "right", "front", "back", "main", "upper", "lower", "inner", "outer", "first", "second", "small", "big", "old", "new", "top", "bottom", "spare"], 0.1, 5
)
_NUMBERED = values.integer(1, 12)
_ROOMS = Param("rooms|places|zones|areas|locations", values.several(pools.PLACES), "Which rooms|The rooms|List of rooms", 0.7)


def _whereabouts(op: Op, noun: str, rng: random.Random) -> dict[str, Param]:
    """The parameters of `op`; now and then it is told apart by something else
    than one room: by several, or as "the north valve" and "pump 2" are."""
    params = dict(op.params)
    roll = rng.random()
    if "place" not in params or roll > 0.4 or "{n}" not in op.asks:
        return params
    if roll < 0.1:
        params["place"] = _ROOMS
        return params
    del params["place"]
    names = f"{noun.split()[-1]}|which|name|{noun}|id|side|device"
    kind = _NUMBERED if roll < 0.2 else _SIDES
    if kind is _NUMBERED:
        which = Param(f"{noun.split()[-1]} number|number|id|{noun} id|index", kind, "Which one|Number", 1.0)
    else:
        which = Param(names, kind, f"Which {noun}|Which one|The {noun}", 1.0)
    return {"which": which, **params}


def _arguments(params: dict[str, Param], placed: bool, style: str, rng: random.Random, evaluating: bool) -> dict[str, Argument]:
    keys = [k for k in params if not (k == "place" and (placed or rng.random() < 0.5))]
    if rng.random() < 0.4:
        rng.shuffle(keys)
    arguments: dict[str, Argument] = {}
    for key in keys:
        param = params[key]
        names = {a.name for a in arguments.values()}
        name = next(n for n in _spellings(param, style, rng) if n not in names)
        arguments[key] = Argument(name, param.kind(rng, evaluating), rng.random() < param.required)
    return arguments


def _spellings(param: Param, style: str, rng: random.Random):
    yield naming.argument(rng.choice(_split(param.names)), style, rng)
    for words in _split(param.names):
        yield naming.argument(words, style, rng)
    for i in range(99):
        yield f"arg{i}"


def make(family: Family, said: tuple[str, ...], op: Op, style: str, rng: random.Random, evaluating: bool) -> Tool | None:
    """A tool for `op` on the device that is called `said` (or none); None where
    all its names are of the other part of the split."""
    noun = said[0] if said else ""
    style = style if rng.random() < 0.85 else rng.choice(naming.STYLES)
    params = _whereabouts(op, noun, rng) if not _placed(noun) else dict(op.params)
    arguments = _arguments(params, _placed(noun), style, rng, evaluating)
    description = rng.choice(_split(op.about)).format(n=noun) if rng.random() < 0.86 else ""
    if description and rng.random() < 0.05:
        name = _opaque(noun, rng, evaluating)
    else:
        name = _name(op, noun, style, rng, evaluating)
    if not name:
        return None
    if description and rng.random() < 0.2:
        description = _reworded(description, rng)
    tool = Tool(name, description, None, family, noun, said, op, arguments)
    tool.parameters = _parameters(arguments, params, rng)
    return tool


_LEADS = (
    "Use this to {}", "This tool: {}", "Call this when the user wants it: {}", "Tool. {}", "API call: {}", "Function that {}",
    "Lets you do this: {}", "Action: {}", "A helper. {}", "Smart home: {}", "Use when asked. {}", "IoT command: {}",
)  # fmt: skip
_TAILS = (
    "{}. Use it when asked.", "{} (needs power)", "{}. Returns ok or an error.", "{} of the house", "{}; works at once",
    "{}. Takes effect immediately.", "{}. Only for adults.", "{}. Do not call it twice.", "{} via the gateway", "{} (v2)",
    "{}. Needs a connection.", "{} and returns the new state.", "{}. Ask first if unsure.", "{} on the local network.",
)  # fmt: skip


def _reworded(description: str, rng: random.Random) -> str:
    """The same with words around it that say little."""
    text = description.rstrip(".")
    if rng.random() < 0.5:
        return rng.choice(_TAILS).format(text)
    return rng.choice(_LEADS).format(text[0].lower() + text[1:] if rng.random() < 0.7 else text)


def place_in_noun(said: tuple[str, ...], rng: random.Random, evaluating: bool) -> tuple[str, ...]:
    """Names the device by its room, as in "kitchen lamp"."""
    place = rng.choice(part(pools.PLACES, evaluating))
    return tuple(f"{place} {s}" for s in said)


def ask(tool: Tool, rng: random.Random, *, leave_out: bool = False, hints: float = 0.15) -> Ask | None:
    """A request for `tool`; with `leave_out` one that lacks a required argument.
    None where there is no way to say it so."""
    drawn: dict[str, tuple[Any, str]] = {
        k: a.bound.draw(rng) for k, a in tool.arguments.items() if a.required or leave_out is False and rng.random() < 0.6
    }
    missing = ""
    if leave_out:
        needed = [k for k, a in tool.arguments.items() if a.required and "enum" not in a.bound.schema] or [
            k for k, a in tool.arguments.items() if a.required
        ]
        if not needed:
            return None
        missing = rng.choice(needed)
        del drawn[missing]
    noun = rng.choice(tool.said) if tool.said else ""
    if which := drawn.get("which"):
        noun = f"{which[1]} {noun}" if isinstance(which[0], str) else f"{noun} {which[1]}"
    for _ in range(3):
        said = {k: s for k, (_, s) in drawn.items() if k != "which"}
        hint = not leave_out and tool.op.hints and (rng.random() < hints or not tool.op.asks)
        templates = list(_split(tool.op.hints if hint else tool.op.asks))
        rng.shuffle(templates)
        for template in templates:
            text = expand(template, said, noun)
            if text is not None:
                drawn_values = {k: v for k, (v, _) in drawn.items()}
                command = not hint and not template.startswith(("{", "[", "i "))
                if which:
                    if noun not in text:
                        continue
                    said["which"] = which[1]
                return Ask(text.strip(" ,"), tool, drawn_values, said, command, not noun or noun in text, missing)
        # No template has room for all: do without what is optional.
        drawn = {k: d for k, d in drawn.items() if tool.arguments[k].required}
    return None
