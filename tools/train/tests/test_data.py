"""The generator: valid, within its schemas, split, the same every time."""

import json
import random
import re
import unittest

from train.config import HERE
from train.data import chat, evaluation, heldout, pools, sample, tool
from train.data.catalogue import EVAL, TRAIN, TRAINED, UNSEEN, style
from train.data.split import held_out, part

COUNT = 1500


def made(count: int = COUNT) -> list[sample.Sample]:
    rng = random.Random("test")
    return [sample.training(rng) for _ in range(count)]


def check(value, schema, path="arguments"):
    """The part of JSON Schema that we write."""
    kinds = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict}
    kind = schema.get("type")
    if kind:
        assert isinstance(value, kinds[kind]), f"{path}: {value!r} is no {kind}"
        assert kind == "boolean" or not isinstance(value, bool), path
    if "enum" in schema:
        assert value in schema["enum"], f"{path}: {value!r} is not in {schema['enum']}"
    if "minimum" in schema:
        assert schema["minimum"] <= value <= schema["maximum"], f"{path}: {value}"
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        assert set(value) <= set(properties), f"{path}: {set(value) - set(properties)}"
        assert set(schema.get("required", ())) <= set(value), f"{path} lacks some of {schema['required']}"
        order = [k for k in properties if k in value]
        assert list(value) == order, f"{path}: {list(value)} is not in the order of the schema"
        for key, inner in value.items():
            check(inner, properties[key], f"{path}.{key}")
    if isinstance(value, list):
        for inner in value:
            check(inner, schema["items"], f"{path}[]")


class Samples(unittest.TestCase):
    def test_calls_satisfy_the_schemas_of_their_tools(self):
        calls = 0
        for one in made():
            tools = {t["name"]: t for t in one.tools}
            self.assertEqual(len(tools), len(one.tools), "two tools of one name")
            self.assertLessEqual(len(one.tools), 16)
            for message in one.messages:
                for call in message.get("calls", ()):
                    check(call["arguments"], tools[call["name"]].get("parameters") or {"type": "object"})
                    calls += 1
        self.assertGreater(calls, COUNT // 2)

    def test_texts_are_clean(self):
        for one in made():
            for message in one.messages:
                text = message["content"]
                if message["role"] == "user":
                    self.assertNotRegex(text, r"[{}\[\]|]")
                    self.assertEqual(text, text.strip())
                    self.assertNotIn("  ", text)
                    self.assertTrue(text)

    def test_the_text_holds_every_call_as_json(self):
        for one in made(300):
            text = "".join(t for t, _ in chat.pieces(one.tools, one.messages))
            for block in re.findall(r"<tool_call>\n(.*?)\n</tool_call>", text, re.S):
                self.assertEqual(set(json.loads(block)), {"name", "arguments"})
            for line in re.findall(r"^\{\"name\".*$", text.split("</tools>")[0], re.M):
                json.loads(line)

    def test_all_kinds_come(self):
        kinds = {s.kind for s in made(400)}
        self.assertEqual(kinds, {"single", "several", "ask_back", "no_tool", "report"})

    def test_the_same_every_time(self):
        first, second = ([(s.tools, s.messages) for s in made(100)] for _ in range(2))
        self.assertEqual(json.dumps(first), json.dumps(second))

    def test_copied_words_stand_in_the_request(self):
        rng = random.Random(5)
        seen = 0
        while seen < 300:
            t = TRAIN.pick(style(rng), rng)
            request = tool.ask(t, rng, hints=0.0)
            if request is None:
                continue
            for said in request.said.values():
                self.assertIn(said, request.text)
            seen += 1

    def test_words_beside_what_is_left_out_stay(self):
        for template, given, text in (
            ("switch the {n} on[ in the {place}]", {}, "switch the lamp on"),
            ("set the {n} to[ {x}]", {}, "set the lamp"),
            ("set the {n}[ in the {place}] to[ {x}]", {"place": "den"}, "set the lamp in the den"),
            ("tell[ {to}]: [{text}]", {"text": "hi"}, "tell: hi"),
            ("{n} {state}", {}, None),
            ("{n} on", {"place": "den"}, None),
            ("in the[ {place}] is {n}", {}, None),
        ):
            self.assertEqual(tool.expand(template, given, "lamp"), text, template)

    def test_what_is_left_out_is_required(self):
        rng = random.Random(6)
        seen = 0
        while seen < 300:
            t = TRAIN.pick(style(rng), rng)
            request = tool.ask(t, rng, leave_out=True)
            if request is None:
                continue
            self.assertTrue(t.arguments[request.missing].required)
            self.assertNotIn(request.missing, request.values)
            self.assertNotRegex(request.text, r"\b(in|to|at|for|with|from|of)$")
            seen += 1


class Split(unittest.TestCase):
    def test_names_in_evaluation_never_occur_in_training(self):
        trained = {n.lower() for s in made(4000) for n in s.names}
        judged: set[str] = set()
        for kind in evaluation.KINDS:
            for one in evaluation.samples(kind, random.Random(f"split {kind}"), 60):
                judged |= {n.lower() for n in one.names}
        self.assertGreater(len(judged), 500)
        self.assertEqual(judged & trained, set())

    def test_it_holds_for_names_that_have_not_come_yet(self):
        """Names are split by their hash, so no run of luck is needed."""
        rng = random.Random(8)
        for source in (TRAIN, EVAL, UNSEEN):
            for _ in range(500):
                self.assertEqual(held_out(source.pick(style(rng), rng).name), source.evaluating)

    def test_the_committed_suite_is_held_out(self):
        path = HERE / "eval" / "heldout.jsonl"
        for line in path.read_text().splitlines():
            for spec in json.loads(line)["tools"]:
                self.assertTrue(held_out(spec["name"]), spec["name"])

    def test_devices_are_split(self):
        trained = {g[0] for f in TRAINED for g in f.groups() if not held_out(g[0])}
        unseen = {n for f in heldout.FAMILIES for g in f.groups() for n in g}
        self.assertGreater(len(trained), 300)
        self.assertEqual(trained & unseen, set())

    def test_large_pools_are_split(self):
        for pool in (pools.PLACES, pools.PEOPLE, pools.TOWNS, pools.ITEMS, pools.TASKS, pools.MESSAGES):
            ours, theirs = set(part(pool, False)), set(part(pool, True))
            self.assertTrue(ours and theirs)
            self.assertEqual(ours & theirs, set())

    def test_the_suite_is_the_same_every_time(self):
        self.assertEqual(list(evaluation.lines(3)), list(evaluation.lines(3)))


if __name__ == "__main__":
    unittest.main()
