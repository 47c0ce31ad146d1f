"""Kinds of arguments: their schema, and values with the words that name them.

A kind is a function that takes a random generator and whether we evaluate, and
returns what one tool has: a [`Bound`] value, whose `draw` gives a JSON value
and how a request says it.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import naming, numbers, pools
from .split import part

Json = Any
Draw = Callable[[random.Random], tuple[Json, str]]


@dataclass
class Bound:
    """An argument's type in one tool."""

    schema: dict[str, Json]
    draw: Draw
    note: str = ""
    """What a description must say for the values to be right."""
    unit: str = ""
    nouns: tuple[str, ...] = field(default=())
    """Devices among the values."""


Kind = Callable[[random.Random, bool], Bound]


def integer(low: int, high: int, unit: str = "", step: int = 1, spoken: str = "") -> Kind:
    """A whole number; `spoken` are alternatives of the unit in requests."""
    units = [u for u in spoken.split("/") if u] or [unit]

    def kind(rng: random.Random, _: bool) -> Bound:
        schema: dict[str, Json] = {"type": "integer" if rng.random() < 0.85 else "number"}
        if rng.random() < 0.35:
            schema |= {"minimum": low, "maximum": high}

        def draw(rng: random.Random) -> tuple[Json, str]:
            n = rng.randrange(low, high + 1, step)
            said = numbers.words(n) if 0 <= n <= 100 and rng.random() < 0.15 else str(n)
            after = rng.choice(units) if rng.random() < (0.75 if unit in ("", "%") else 0.95) else ""
            if after and after[0].isalpha() and (len(after) > 2 or not said[-1].isdigit() or rng.random() < 0.5):
                return n, f"{said} {after}"
            return n, f"{said} percent" if after == "%" and not said[-1].isdigit() else said + after

        return Bound(schema, draw, unit=unit)

    return kind


def decimal(low: float, high: float, unit: str = "", digits: int = 1) -> Kind:
    """A number with a fraction."""

    def kind(rng: random.Random, _: bool) -> Bound:
        def draw(rng: random.Random) -> tuple[Json, str]:
            x = round(rng.uniform(low, high), digits if rng.random() < 0.6 else 0)
            x = int(x) if x == int(x) else x
            after = unit if rng.random() < 0.6 else ""
            return x, f"{x} {after}" if after[:1].isalpha() else f"{x}{after}"

        return Bound({"type": "number"}, draw, unit=unit)

    return kind


def _enum(values: Sequence[Json], rng: random.Random) -> dict[str, Json]:
    values = list(values)
    rng.shuffle(values)
    return {"type": "string", "enum": values} if rng.random() < 0.75 else {"enum": values}


def pool(names: Sequence[str], free: float = 0.5, most: int = 7) -> Kind:
    """A name: any at all, or one of a list that the tool gives."""

    def kind(rng: random.Random, evaluating: bool) -> Bound:
        mine = part(names, evaluating)
        if rng.random() < free or len(mine) < 3:
            return Bound({"type": "string"}, lambda rng: (v := rng.choice(mine), v))
        some = rng.sample(mine, min(len(mine), rng.randint(2, most)))
        style = rng.choice(("snake", "snake", "plain", "plain", "title", "upper"))

        def form(name: str) -> str:
            if style == "plain":
                return name
            return name.title() if style == "title" else naming.spell(name, style)

        return Bound(_enum([form(s) for s in some], rng), lambda rng: (form(v := rng.choice(some)), v))

    return kind


def choice(text: str) -> Kind:
    """`value: said, said; value: said`: one of a list; the first words may be
    written otherwise in the schema."""
    rows = [(v.strip(), [s.strip() for s in said.split(",")]) for v, said in (r.split(":") for r in text.split(";"))]

    def kind(rng: random.Random, _: bool) -> Bound:
        upper = rng.random() < 0.12
        own = [(v.upper() if upper else v, said) for v, said in rows]

        def draw(rng: random.Random) -> tuple[Json, str]:
            value, said = rng.choice(own)
            return value, rng.choice(said)

        return Bound(_enum([v for v, _ in own], rng), draw)

    return kind


def flag(yes: str, no: str) -> Kind:
    """True or false, by words of a request; sometimes an enum instead."""

    def kind(rng: random.Random, _: bool) -> Bound:
        def draw(rng: random.Random) -> tuple[Json, str]:
            value = rng.random() < 0.5
            return value, rng.choice((yes if value else no).split("/"))

        return Bound({"type": "boolean"}, draw, note=f"true for {yes.split('/')[0]}")

    return kind


def switch(rng: random.Random, evaluating: bool) -> Bound:
    """On or off, as a boolean, an enum or a number."""
    roll = rng.random()
    if roll < 0.35:
        return flag("on", "off")(rng, evaluating)
    if roll < 0.45:
        bound = choice("1: on; 0: off")(rng, evaluating)
        draw = bound.draw
        schema = {"type": "integer", "enum": [0, 1]} if rng.random() < 0.6 else {"type": "integer"}
        return Bound(schema, lambda rng: (int((d := draw(rng))[0]), d[1]), note="1 is on, 0 is off")
    return choice("on: on; off: off")(rng, evaluating)


def text(names: Sequence[str]) -> Kind:
    """Free text, copied letter by letter."""

    def kind(_: random.Random, evaluating: bool) -> Bound:
        mine = part(names, evaluating)

        def draw(rng: random.Random) -> tuple[Json, str]:
            said = rng.choice(mine)
            if rng.random() < 0.15:
                said = f"{said} {rng.choice(('and', 'then', 'or'))} {rng.choice(mine)}"
            if rng.random() < 0.2:
                said = said[0].upper() + said[1:]
            quoted = rng.random()
            return said, f"'{said}'" if quoted < 0.1 and "'" not in said else f'"{said}"' if quoted < 0.2 else said

        return Bound({"type": "string"}, draw)

    return kind


def clock(rng: random.Random, _: bool) -> Bound:
    """A time of day: as HH:MM where the schema says so, else in the user's words."""
    if rng.random() < 0.6:
        note = rng.choice(("HH:MM", "as HH:MM", "24-hour time HH:MM", "time in HH:MM format"))
        return Bound({"type": "string"}, numbers.clock, note=note)

    def draw(rng: random.Random) -> tuple[Json, str]:
        said = numbers.clock(rng)[1]
        return said, said

    return Bound({"type": "string"}, draw)


def made(make: Callable[[random.Random], str]) -> Kind:
    """Text such as addresses and paths, made up each time and copied."""

    def kind(_r: random.Random, _e: bool) -> Bound:
        return Bound({"type": "string"}, lambda rng: (v := make(rng), v))

    return kind


def several(names: Sequence[str]) -> Kind:
    """A list of names."""

    def kind(_: random.Random, evaluating: bool) -> Bound:
        mine = part(names, evaluating)

        def draw(rng: random.Random) -> tuple[Json, str]:
            some = rng.sample(mine, min(len(mine), rng.randint(1, 3)))
            said = some[0] if len(some) == 1 else f"{', '.join(some[:-1])} and {some[-1]}"
            return some, said

        return Bound({"type": "array", "items": {"type": "string"}}, draw)

    return kind


def record(fields: dict[str, Kind], said: str) -> Kind:
    """A nested object; `said` has its fields in braces."""

    def kind(rng: random.Random, evaluating: bool) -> Bound:
        own = {name: k(rng, evaluating) for name, k in fields.items()}
        schema = {"type": "object", "properties": {n: b.schema for n, b in own.items()}, "required": list(own)}

        def draw(rng: random.Random) -> tuple[Json, str]:
            drawn = {n: b.draw(rng) for n, b in own.items()}
            return {n: v for n, (v, _) in drawn.items()}, said.format(**{n: s for n, (_, s) in drawn.items()})

        return Bound(schema, draw)

    return kind


def syllables(rng: random.Random, least: int = 2, most: int = 3) -> str:
    """A word that means nothing."""
    onset = ["b", "c", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "z", "br", "cr", "dr", "fl", "gr", "kl", "pl", "pr", "sk", "sl", "st", "str", "th", "tr"]
    vowel = ["a", "e", "i", "o", "u", "ai", "ea", "io", "oo"]
    coda = ["", "", "", "", "n", "r", "l", "x", "k", "s", "m", "t", "nd", "rk"]
    count = rng.randint(least, most)
    return "".join(rng.choice(onset) + rng.choice(vowel) for _ in range(count)) + rng.choice(coda)


def topic(rng: random.Random) -> str:
    """An MQTT topic."""
    words = [rng.choice(pools.PLACES).replace(" ", "_") if rng.random() < 0.6 else syllables(rng) for _ in range(2)]
    return "/".join([*words[: rng.randint(1, 2)], rng.choice(("state", "set", "cmd", "temp", "power", "status", "raw"))])


def path(rng: random.Random) -> str:
    """A file's path."""
    stem = rng.choice(("notes", "log", "report", "config", "todo", "data", "readme", "backup", syllables(rng)))
    if rng.random() < 0.3:
        stem += f"_{rng.randrange(1, 2030)}"
    folder = rng.choice(("", "", "/var/log/", "/home/pi/", "docs/", f"{syllables(rng)}/", "/tmp/", "/etc/"))
    return f"{folder}{stem}.{rng.choice(['txt', 'log', 'csv', 'json', 'md', 'yaml', 'conf', 'ini', 'gcode'])}"


def host(rng: random.Random) -> str:
    """A host's name or address."""
    if rng.random() < 0.5:
        return ".".join(str(rng.randrange(1, 255)) for _ in range(4))
    return rng.choice(("nas", "router", "printer", "pi", syllables(rng), "server")) + rng.choice(("", ".local", "-2", ".lan"))


def mac(rng: random.Random) -> str:
    """A hardware address."""
    return ":".join(f"{rng.randrange(256):02x}" for _ in range(6))


def date(rng: random.Random) -> str:
    """A date as YYYY-MM-DD."""
    return f"{rng.randint(2024, 2030)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"


def code(rng: random.Random) -> str:
    """An id such as A17 or 4711."""
    return rng.choice((f"{rng.choice('ABCDKPX')}{rng.randrange(1, 99)}", str(rng.randrange(1000, 9999)), f"{syllables(rng, 1, 2)}-{rng.randrange(1, 20)}"))


def hexcolor(rng: random.Random) -> str:
    """A colour as #RRGGBB."""
    return f"#{rng.randrange(1 << 24):06x}"
