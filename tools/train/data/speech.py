"""How people ask: politely, curtly, in a hurry, with slips of the finger."""

import random

_BEFORE = (
    "please ", "can you ", "could you ", "could you please ", "would you ", "hey, ", "hi, ", "ok, ", "i want you to ",
    "i need you to ", "i'd like you to ", "go ahead and ", "would you mind and ", "just ", "now ", "quick, ", "kindly ",
    "can you please ", "hello, ", "hey katydid, ", "let's ", "you should ", "time to ", "help me: ", "first ",
)  # fmt: skip
_AFTER = (" please", ", please", " now", " for me", ", thanks", ", thank you", " right away", ", will you?", " quickly", " if you can", " again")
_ASKING = ("can you", "could you", "would you")
_KEYS = dict(zip("qwertyuiopasdfghjklzxcvbnm", "wqretyuioasdfghjklkxzcvbnmn", strict=False))

_JOINTS = (" and ", " and then ", ", then ", ", and ", "; ", ". ", ", also ", " and also ", ". after that ", " plus ")


def dress(text: str, imperative: bool, rng: random.Random) -> str:
    """Wraps a request in how it is said, and gives it an end."""
    end = ""
    if imperative and rng.random() < 0.45:
        before = rng.choice(_BEFORE)
        if before.startswith("would you mind"):
            before = "would you "
        text = before + text
        if before.startswith(_ASKING):
            end = rng.choice(("?", "?", ""))
    if imperative and rng.random() < 0.15:
        text += rng.choice(_AFTER)
    return finish(text, end, rng)


def finish(text: str, end: str, rng: random.Random) -> str:
    """Case and the mark at the end."""
    if not text.endswith(("?", "!", ".", '"')):
        text += end or rng.choice(("", "", "", ".", ".", "!"))
    roll = rng.random()
    if roll < 0.45:
        text = text[0].upper() + text[1:]
    return text


def join(texts: list[str], rng: random.Random) -> str:
    """Several requests in one breath."""
    out = texts[0]
    for i, text in enumerate(texts[1:], 2):
        joint = rng.choice(_JOINTS) if i == len(texts) else rng.choice((", ", ", ", "; ", _JOINTS[0]))
        out += joint + text
    return out


def slip(text: str, keep: set[str], rng: random.Random) -> str:
    """Misspells one or two words, but none of `keep`, which must be copied."""
    words = text.split(" ")
    loose = [i for i, w in enumerate(words) if len(w) > 3 and w.isalpha() and w.lower() not in keep]
    for i in rng.sample(loose, min(len(loose), rng.choice((1, 1, 2)))):
        words[i] = _misspell(words[i], rng)
    return " ".join(words)


def _misspell(word: str, rng: random.Random) -> str:
    at = rng.randrange(1, len(word) - 1)
    match rng.randrange(4):
        case 0:
            return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
        case 1:
            return word[:at] + word[at + 1 :]
        case 2:
            return word[:at] + word[at] + word[at:]
        case _:
            return word[:at] + _KEYS.get(word[at].lower(), "e") + word[at + 1 :]
