"""The text of a conversation, as `Style::Katydid` of the core writes it."""

import json
from collections.abc import Sequence
from typing import Any

START, END = "<|im_start|>", "<|im_end|>"

Piece = tuple[str, bool]
"""Text, and whether it is the assistant's own."""


def dumps(value: Any) -> str:
    """JSON with a space after each comma and colon, as the core writes it."""
    return json.dumps(value, ensure_ascii=False)


def tool_line(spec: dict[str, Any]) -> str:
    """One line of the list of tools."""
    spec = {k: v for k, v in spec.items() if k != "parameters"} | {"parameters": spec.get("parameters") or {"type": "object", "properties": {}}}
    return dumps(spec)


def call_text(call: dict[str, Any]) -> str:
    """A call as the model writes it."""
    return f"<tool_call>\n{dumps({'name': call['name'], 'arguments': call['arguments']})}\n</tool_call>"


def answer_text(message: dict[str, Any]) -> str:
    """What the assistant says in one message."""
    parts = [message["content"]] if message.get("content") else []
    return "\n".join(parts + [call_text(c) for c in message.get("calls", ())])


def pieces(tools: Sequence[dict[str, Any]], messages: Sequence[dict[str, Any]]) -> list[Piece]:
    """The pieces of a conversation. Roles are system, user, assistant (`content`,
    `calls`) and tool (`content`)."""
    out: list[Piece] = []
    messages = list(messages)
    system = messages.pop(0)["content"] if messages and messages[0]["role"] == "system" else ""
    if tools:
        lines = "".join(f"{tool_line(t)}\n" for t in tools)
        out.append((f"{START}system\n<tools>\n{lines}</tools>\n{system}{END}\n", False))
    elif system:
        out.append((f"{START}system\n{system}{END}\n", False))
    for i, message in enumerate(messages):
        if message["role"] == "assistant":
            out += [(f"{START}assistant\n", False), (answer_text(message) + END, True), ("\n", False)]
        elif message["role"] == "tool":
            open_ = i == 0 or messages[i - 1]["role"] != "tool"
            close = i + 1 == len(messages) or messages[i + 1]["role"] != "tool"
            out.append(((f"{START}user\n" if open_ else "\n") + f"<tool_response>\n{message['content']}\n</tool_response>" + (f"{END}\n" if close else ""), False))
        else:
            out.append((f"{START}user\n{message['content']}{END}\n", False))
    return out


def prompt(tools: Sequence[dict[str, Any]], messages: Sequence[dict[str, Any]]) -> str:
    """The text up to where the next answer begins."""
    return "".join(text for text, _ in pieces(tools, messages)) + f"{START}assistant\n"
