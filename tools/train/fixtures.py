"""Conversations with the text that they must become: tests of the core and of the template."""

import json
import random
from pathlib import Path
from typing import Any

import jinja2

from .config import HERE
from .data import chat, sample


def template() -> jinja2.Template:
    """Our chat template, in the dialect of Hugging Face."""
    env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    env.filters["tojson"] = chat.dumps
    return env.from_string((HERE / "template.jinja").read_text())


def openai(tools: list[dict[str, Any]], messages: list[dict[str, Any]]) -> dict[str, Any]:
    """A conversation in the shapes of OpenAI's API, for templates."""
    out = []
    for message in messages:
        message = dict(message)
        if calls := message.pop("calls", None):
            message["tool_calls"] = [{"type": "function", "function": c} for c in calls]
        out.append(message)
    return {"tools": [{"type": "function", "function": t} for t in tools], "messages": out}


def conversations(count: int = 36) -> list[sample.Sample]:
    """Some of all kinds, cut before an answer; a few without tools."""
    rng = random.Random("katydid fixtures")
    out = []
    makers = (sample.single, sample.several, sample.ask_back, sample.no_tool, sample.report)
    for i in range(count):
        made = makers[i % len(makers)](sample.TRAIN, rng, 3)
        ends = [j for j, m in enumerate(made.messages) if m["role"] == "assistant"]
        made.messages = made.messages[: rng.choice(ends)]
        if i % 9 == 8:
            made.tools = []
        out.append(made)
    double = sample.both_reported(sample.TRAIN, rng)
    double.messages.pop()
    return [*out, double]


def write(path: Path) -> None:
    """One line of JSON each: tools, messages, text."""
    lines = []
    for made in conversations():
        record = {"tools": made.tools, "messages": made.messages, "text": chat.prompt(made.tools, made.messages)}
        lines.append(json.dumps(record, ensure_ascii=False, separators=(",", ":")))
    path.write_text("".join(f"{line}\n" for line in lines))
