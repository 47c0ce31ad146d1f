"""How people spell the names of functions and arguments."""

import random

_SHORT = {
    "temperature": "temp", "message": "msg", "notification": "notif", "configuration": "config",
    "number": "num", "minutes": "mins", "seconds": "secs", "brightness": "bright",
    "percent": "pct", "humidity": "hum", "position": "pos", "device": "dev", "living": "lv",
    "volume": "vol", "frequency": "freq", "duration": "dur", "control": "ctl", "get": "rd",
    "description": "desc", "address": "addr", "direction": "dir", "maximum": "max",
}  # fmt: skip
_PREFIXES = ("home", "iot", "do", "ctl", "api", "tool", "my", "cmd", "sys", "fn", "house", "hub", "act")
_SUFFIXES = ("tool", "cmd", "action", "fn", "v2", "now", "request", "api", "x", "1", "2")

STYLES = ("snake",) * 9 + ("camel",) * 4 + ("pascal", "kebab", "flat", "dotted", "upper")


def spell(words: str, style: str) -> str:
    """Writes space-separated words as one name."""
    parts = words.lower().replace("-", " ").replace("'", "").split()
    match style:
        case "camel":
            return parts[0] + "".join(p.capitalize() for p in parts[1:])
        case "pascal":
            return "".join(p.capitalize() for p in parts)
        case "kebab":
            return "-".join(parts)
        case "flat":
            return "".join(parts)
        case "dotted":
            return parts[0] + ("." + "_".join(parts[1:]) if parts[1:] else "")
        case "upper":
            return "_".join(parts).upper()
        case _:
            return "_".join(parts)


def shorten(words: str, rng: random.Random) -> str:
    """Abbreviates some of the words."""
    return " ".join(_SHORT[w] if w in _SHORT and rng.random() < 0.7 else w for w in words.split())


def function(words: str, style: str, rng: random.Random) -> str:
    """A function's name in one of many habits."""
    roll = rng.random()
    if roll < 0.12:
        words = shorten(words, rng)
    elif roll < 0.18:
        words = f"{rng.choice(_PREFIXES)} {words}"
    elif roll < 0.22:
        words = f"{words} {rng.choice(_SUFFIXES)}"
    elif roll < 0.30:
        first, *rest = words.split()
        words = " ".join([*rest, first]) if rest else words
    return spell(words, style)


def argument(words: str, style: str, rng: random.Random) -> str:
    """An argument's name, spelt to go with its function's."""
    if rng.random() < 0.12:
        words = shorten(words, rng)
    return spell(words, "camel" if style in ("camel", "pascal") else "snake")
