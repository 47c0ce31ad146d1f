"""What tools give back, and the one sentence that reports it."""

import json
import random

from . import pools, values
from .tool import Ask

_DONE = ("ok", "OK", "done", "success", "", '{"ok": true}', '{"status": "ok"}', '{"success": true}', "true", '{"result": "done"}', "accepted")
_ERRORS = (
    "timeout", "device not found", "no answer", "permission denied", "offline", "not allowed now", "out of range", "busy",
    "battery empty", "connection refused", "unknown id", "door is blocked", "overheated", "no such file", "sensor fault",
)  # fmt: skip
_SKY = ("sunny", "light rain", "cloudy", "snow", "overcast", "fog", "clear sky", "showers", "windy", "thunderstorm")
_TEXTS = pools.MESSAGES + pools.TASKS


def _number(unit: str, rng: random.Random) -> str:
    if unit in ("ppm", "lux", "hPa", "ms", "kWh", "W", "MB", "rpm", "people", "times", "steps", "bpm", "points", "grains", "Hz"):
        return str(rng.randrange(1, 2000))
    if unit == "%":
        return str(rng.randrange(0, 101))
    return str(rng.choice((rng.randrange(-20, 100), round(rng.uniform(-20, 100), 1))))


def _plain(kind: str, ask: Ask, rng: random.Random, evaluating: bool) -> tuple[str, str]:
    """A value, and how it is said."""
    match kind:
        case "state":
            said = rng.choice(("on", "off"))
            return said, said
        case "open":
            said = rng.choice(("open", "closed"))
            return said, said
        case "level":
            said = rng.choice(("high", "low", "1", "0"))
            return said, said
        case "text":
            some = rng.sample(pools.ITEMS if rng.random() < 0.4 else _TEXTS, rng.randint(1, 3))
            said = ", ".join(some)
            return said, said
        case "file":
            said = f"{values.syllables(rng)}_{rng.randrange(99)}.jpg"
            return said, said
        case "place":
            said = rng.choice(pools.PLACES)
            return said, said
        case "time":
            said = f"{rng.randrange(24):02}:{rng.randrange(60):02}"
            return said, said
        case "date":
            said = values.date(rng)
            return said, said
        case "weather":
            sky, degrees = rng.choice(_SKY), rng.randrange(-10, 38)
            return f"{sky}, {degrees} °C", f"{sky}, {degrees} °C"
        case "raw":
            said = _number("", rng)
            return said, said
        case unit:
            said = _number(unit, rng)
            return said, f"{said} {unit}" if unit != "%" else f"{said}%"


def _wrap(value: str, said: str, what: str, kind: str, rng: random.Random) -> str:
    """The value as a program may print it."""
    roll = rng.random()
    if roll < 0.35:
        return said
    if roll < 0.5:
        return value
    key = rng.choice(("value", "result", "state", what.split()[-1].replace("{", "").replace("}", ""), "data"))
    number: object = value
    try:
        number = json.loads(value)
    except ValueError:
        pass
    body: dict[str, object] = {key: number}
    if said not in (value, value + "%") and kind != "weather" and rng.random() < 0.6:
        body["unit"] = kind
    if rng.random() < 0.3:
        body = {**body, "ok": True} if rng.random() < 0.5 else {"time": f"{rng.randrange(24):02}:{rng.randrange(60):02}", **body}
    return json.dumps(body, ensure_ascii=False)


def result(ask: Ask, rng: random.Random, evaluating: bool) -> tuple[str, str, str]:
    """The content of a result, the sentence that reports it, and what the
    sentence must hold."""
    if rng.random() < 0.12:
        error = rng.choice(_ERRORS)
        content = rng.choice((f"error: {error}", json.dumps({"error": error}), f"failed: {error}", json.dumps({"ok": False, "error": error})))
        return content, f"That did not work: {error}.", error
    reads = ask.tool.op.reads
    if not reads:
        return rng.choice(_DONE), "Done.", "Done"
    kind, what = reads.split(":", 1)
    value, said = _plain(kind, ask, rng, evaluating)
    content = _wrap(value, said, what, kind, rng)
    if said != value and said not in content and kind not in content:
        said = value
    if content == value and kind != "weather":
        said = value
    return content, _sentence(kind, what, said, ask), said


def _sentence(kind: str, what: str, said: str, ask: Ask) -> str:
    noun = ask.tool.noun
    where = ask.said.get("place", "")
    inside = f" in the {where}" if where else ""
    if kind == "text":
        return f"It says: {said}."
    if kind == "weather":
        return f"The weather in {ask.said.get('town', 'town')} is {said}."
    if kind == "file":
        return f"The picture is {said}."
    if kind == "time" and what == "time":
        return f"It is {said}."
    subject = what.format(n=noun) if "{n}" in what else what
    return f"The {subject}{inside} is {said}."
