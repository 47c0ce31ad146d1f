"""Whole conversations: tools, what is said, what is called."""

import random
import re
from dataclasses import dataclass, field, replace
from typing import Any

from . import pools, speech
from .catalogue import COMFORT, TRAIN, Source, clash, classes, style
from .results import result
from .tool import Ask, Tool, ask

NO_TOOL = "None of my tools can do that."
GREETING = "Hello! Tell me what to do."
THANKS = "You are welcome."
WHO = "I am Katydid, a small model that calls tools."

_TALK = (
    (GREETING, "hello|hi|hey|good morning|good evening|hi there|hello katydid|hey you|good day|greetings"),
    (THANKS, "thanks|thank you|thx|thank you very much|great, thanks|perfect|nice work|well done|cheers|that's all, thanks"),
    (WHO, "who are you?|what are you?|what is your name?|are you a robot?|who made you?|what can you do?|are you human?"),
)
_ELSEWHERE = """tell me a joke|write a poem about the sea|what is the capital of france?|who won the match yesterday?|order a pizza
|book a flight to oslo|what is the meaning of life?|explain quantum physics|sing a song|how old is the universe?|buy me a car
|who was the first man on the moon?|write a python program|how do i bake a cake?|recommend a film|what should i wear today?
|how many people live in japan?|do my homework|tell me a story|is there life on mars?|paint me a picture|what do you think of me?
|give me some advice about love|how tall is mount everest?|summarize the news|what is your favourite color?|solve my problems
|find me a good restaurant|order a taxi|what is a good name for a dog?|pay my taxes|why is the sky blue?|sell my stocks
|how do magnets work?|spell the word rhythm|who wrote hamlet?|count the stars|make me a sandwich|cut my hair|fix my marriage""".replace("\n", "")


@dataclass
class Sample:
    """A conversation and what kind it is."""

    kind: str
    tools: list[dict[str, Any]]
    messages: list[dict[str, Any]]
    holds: str = ""
    """What the last answer must hold, for reports."""
    names: set[str] = field(default_factory=set)
    """Names of tools and devices, to prove that evaluation's are unseen."""


def how_many(rng: random.Random, most: int = 12) -> int:
    """Tools in a prompt."""
    return min(most, rng.choice((1, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6, 7, 8, 9, 10, 12)))


class Scene:
    """A list of tools without two that a request could mean alike."""

    def __init__(self, source: Source, rng: random.Random):
        self.source, self.rng, self.style = source, rng, style(rng)
        self.tools: list[Tool] = []
        self.sorted = rng.random() < 0.4

    def _take(self, tool: Tool) -> Tool:
        if self.sorted:
            tool.sort()
        self.tools.append(tool)
        return tool

    def fits(self, tool: Tool | None) -> bool:
        """Whether it is a tool, and none that another may be taken for."""
        return tool is not None and not any(clash(tool, t) for t in self.tools)

    def add_target(self) -> Tool:
        """A tool that will be asked for."""
        while True:
            tool = self.source.pick(self.style, self.rng)
            if self.fits(tool):
                return self._take(tool)

    def add_near(self, target: Tool) -> Tool | None:
        """One more tool that is nearly `target`."""
        for _ in range(4):
            tool = self.source.near(target, target.home, self.style, self.rng)
            if self.fits(tool):
                return self._take(tool)
        return None

    def fill(self, count: int, near: float, keep_off: Ask | None = None) -> None:
        """Adds tools up to `count`. Where `keep_off` does not name its device,
        none that could answer it as well."""
        targets = list(self.tools)
        for _ in range(6 * count):
            if len(self.tools) >= count:
                break
            if targets and self.rng.random() < near:
                target = self.rng.choice(targets)
                tool = self.source.near(target, target.home, self.style, self.rng)
            else:
                tool = self.source.pick(self.style, self.rng)
            if self.fits(tool) and not _rivals(tool, keep_off):
                self._take(tool)

    def done(self, kind: str, messages: list[dict[str, Any]], holds: str = "") -> Sample:
        """The sample, tools shuffled, now and then with a system text."""
        self.rng.shuffle(self.tools)
        if self.rng.random() < 0.3:
            messages = [{"role": "system", "content": self.rng.choice(pools.SYSTEMS)}, *messages]
        names = {t.name for t in self.tools} | {t.noun for t in self.tools if t.noun}
        return Sample(kind, [t.spec() for t in self.tools], messages, holds, names)


def _rivals(tool: Tool, request: Ask | None) -> bool:
    if request is None or request.names_device or not request.tool.noun:
        return False
    return tool.family in COMFORT or tool.family == request.tool.family or bool(classes(tool.op) & classes(request.tool.op)) and tool.family.startswith("made")


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _calls(*asks: Ask) -> dict[str, Any]:
    return {"role": "assistant", "content": "", "calls": [{"name": a.tool.name, "arguments": a.arguments()} for a in asks]}


def _says(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def _kept(*asks: Ask) -> set[str]:
    """Words that are copied and so must be spelt well."""
    return {w.lower() for a in asks for s in a.said.values() for w in re.findall(r"\w+", s)}


def _request(tool: Tool, rng: random.Random, **how: Any) -> Ask | None:
    for _ in range(4):
        if request := ask(tool, rng, **how):
            return request
    return None


def _asked(scene: Scene, **how: Any) -> Ask:
    """A new target and a request for it."""
    while True:
        tool = scene.add_target()
        if request := _request(tool, scene.rng, **how):
            return request
        scene.tools.pop()


def single(source: Source, rng: random.Random, most: int = 12, near: float = 0.4, slips: float = 0.12, hints: float = 0.15, kind: str = "single") -> Sample:
    """One call."""
    scene = Scene(source, rng)
    request = _asked(scene, hints=hints)
    text = speech.dress(request.text, request.imperative, rng)
    if rng.random() < slips and not request.tool.family.startswith("made"):
        text = speech.slip(text, _kept(request), rng)
    scene.fill(max(how_many(rng, most), 2 if near > 0.5 else 1), near, request)
    return scene.done(kind, [_user(text), _calls(request)])


def several(source: Source, rng: random.Random, most: int = 12) -> Sample:
    """Several calls: of different tools, or of one with different arguments."""
    scene = Scene(source, rng)
    first = _asked(scene, hints=0.0)
    asks = [first]
    for _ in range(rng.choice((1, 1, 1, 1, 2, 2, 3))):
        roll = rng.random()
        if roll < 0.35 and first.tool.arguments:
            again = _request(first.tool, rng, hints=0.0)
            if again and all(again.arguments() != a.arguments() for a in asks if a.tool is first.tool):
                asks.append(again)
                continue
        tool = scene.add_near(first.tool) if roll < 0.6 else None
        request = _request(tool, rng, hints=0.0) if tool else _asked(scene, hints=0.0)
        if request:
            asks.append(request)
    if len(asks) < 2:
        return several(source, rng, most)
    text = speech.dress(speech.join([a.text for a in asks], rng), first.imperative, rng)
    scene.fill(max(how_many(rng, most), len(scene.tools)), 0.3)
    return scene.done("several", [_user(text), _calls(*asks)])


def _question(request: Ask) -> str:
    name = request.tool.arguments[request.missing].name
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).replace("_", " ").lower()
    return f"Which {words} should I use?"


def ask_back(source: Source, rng: random.Random, most: int = 12) -> Sample:
    """A required argument is missing: asked for, and often given then."""
    scene = Scene(source, rng)
    request = _asked(scene, leave_out=True)
    scene.fill(how_many(rng, most), 0.35, request)
    messages = [_user(speech.dress(request.text, request.imperative, rng)), _says(_question(request))]
    if rng.random() < 0.4:
        value, said = request.tool.arguments[request.missing].bound.draw(rng)
        request.values[request.missing] = value
        messages += [_user(said + rng.choice(("", "", "."))), _calls(request)]
    return scene.done("ask_back", messages)


def no_tool(source: Source, rng: random.Random, most: int = 12) -> Sample:
    """Nothing in the list does what is asked."""
    scene = Scene(source, rng)
    roll = rng.random()
    if roll < 0.25:
        scene.fill(how_many(rng, most), 0.0)
        answer, texts = rng.choice(_TALK)
        return scene.done("no_tool", [_user(speech.finish(rng.choice(texts.split("|")), "", rng)), _says(answer)])
    if roll < 0.45:
        if roll > 0.27:
            scene.fill(how_many(rng, most), 0.0)
        text = rng.choice(_ELSEWHERE.split("|"))
        text = speech.dress(text, not text.endswith("?"), rng)
        return scene.done("no_tool", [_user(text), _says(NO_TOOL)])
    # The very tool is taken away, those near it stay.
    request = _asked(scene, hints=0.05)
    scene.fill(max(2, how_many(rng, most) + 1), 0.5, request)
    scene.tools.remove(request.tool)
    if not scene.tools:
        return no_tool(source, rng, most)
    text = speech.dress(request.text, request.imperative, rng)
    return scene.done("no_tool", [_user(text), _says(NO_TOOL)])


def report(source: Source, rng: random.Random, most: int = 8) -> Sample:
    """A call, its result, a sentence that reports it; perhaps more after that."""
    scene = Scene(source, rng)
    request = _asked(scene)
    for _ in range(3):
        if request.tool.op.reads or rng.random() < 0.4:
            break
        scene.tools.clear()
        request = _asked(scene)
    messages: list[dict[str, Any]] = []
    holds = ""
    turns = rng.choice((1, 1, 2))
    for turn in range(turns):
        again = turn and _elsewhere(request, rng)
        if again:
            request = again
        elif turn:
            tool = scene.add_near(request.tool) if rng.random() < 0.5 else scene.add_target()
            request = (_request(tool, rng, hints=0.0) if tool else None) or request
        content, sentence, holds = result(request, rng, source.evaluating)
        text = speech.dress(request.text, request.imperative, rng)
        messages += [_user(text), _calls(request), {"role": "tool", "content": content}, _says(sentence)]
    scene.fill(max(how_many(rng, most), len(scene.tools)), 0.3, request)
    return scene.done("report", messages, holds)


def _elsewhere(request: Ask, rng: random.Random) -> Ask | None:
    """The same in another room, said as shortly as people do."""
    place = request.tool.arguments.get("place")
    if not place or "place" not in request.values or rng.random() < 0.4:
        return None
    value, said = place.bound.draw(rng)
    if value == request.values["place"]:
        return None
    text = rng.choice(("and in the {}", "now in the {}", "the same in the {}", "and the {}?", "do that in the {} too", "also in the {}"))
    return replace(request, text=text.format(said), values={**request.values, "place": value}, said={**request.said, "place": said}, imperative=False)


def both_reported(source: Source, rng: random.Random) -> Sample:
    """Two calls at once and one answer to both results."""
    sample = several(source, rng, 6)
    calls = sample.messages[-1]["calls"]
    sample.messages += [{"role": "tool", "content": rng.choice(("ok", "done", '{"ok": true}', ""))} for _ in calls] + [_says("Done.")]
    sample.kind = "report"
    return sample


def training(rng: random.Random) -> Sample:
    """A sample of any kind, of the part for training."""
    roll = rng.random()
    if roll < 0.46:
        return single(TRAIN, rng)
    if roll < 0.61:
        return several(TRAIN, rng)
    if roll < 0.73:
        return ask_back(TRAIN, rng)
    if roll < 0.86:
        return no_tool(TRAIN, rng)
    return report(TRAIN, rng) if roll < 0.97 else both_reported(TRAIN, rng)
