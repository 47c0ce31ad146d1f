"""The vocabulary, packing, and the template against our own rendering."""

import random
import tempfile
import unittest
from pathlib import Path

import numpy as np

from train import batches, fixtures
from train.data import chat, sample
from train.tokenizer import Tokenizer
from train.vocabulary import train


class Template(unittest.TestCase):
    def test_it_writes_what_models_are_trained_on(self):
        template = fixtures.template()
        for made in fixtures.conversations():
            text = template.render(**fixtures.openai(made.tools, made.messages), add_generation_prompt=True)
            self.assertEqual(text, chat.prompt(made.tools, made.messages))


class Vocabulary(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        rng = random.Random(3)
        made = [sample.training(rng) for _ in range(1200)]
        texts = ["".join(t for t, _ in chat.pieces(s.tools, s.messages)) for s in made]
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = Path(cls.folder.name) / "tokenizer.model"
        train(texts, 1600, cls.path)
        cls.tokenizer = Tokenizer(cls.path)
        cls.texts = texts

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_texts_come_back(self):
        for text in [*self.texts[:50], "Grüße 🦗\t  x", "", " a  b "]:
            self.assertEqual(self.tokenizer.decode(self.tokenizer.encode(text)), text)

    def test_a_word_is_cut_alike_wherever_it_stands(self):
        def cut(text: str) -> list[str]:
            return [self.tokenizer.decode([i]) for i in self.tokenizer.encode(text)]

        for word in ("kitchen", "bedroom", "telescope", "windlass", "zabrigol", "thermostat"):
            alone, spaced = cut(f"_{word}_")[1:-1], cut(f"_ {word}_")[1:-1]
            # The space is part of the first piece, or stands before it.
            spaced[0] = spaced[0].removeprefix(" ")
            self.assertEqual([p for p in spaced if p], alone)

    def test_digits_stand_alone(self):
        self.assertEqual(len(self.tokenizer.encode("1234")), 4)

    def test_rows_are_packed_whole(self):
        block = batches.block(5, 1, 700, self.tokenizer, 0.1)
        again = batches.block(5, 1, 700, self.tokenizer, 0.1)
        np.testing.assert_array_equal(block.tokens, again.tokens)
        self.assertGreater((block.samples != 255).mean(), 0.85)
        for row in range(batches.ROWS):
            samples = block.samples[row]
            starts = np.flatnonzero(np.diff(samples.astype(int), prepend=-1))
            for at in starts:
                # A sample begins at position 0, and is not predicted from the one before.
                self.assertEqual((block.positions[row, at], block.weights[row, at]), (0, 0))
            text = self.tokenizer.decode(int(i) for i in block.tokens[row][samples == 0])
            self.assertTrue(text.startswith(chat.START) and text.endswith(f"{chat.END}\n"), text)
            own = self.tokenizer.decode(int(i) for i in block.tokens[row][(samples == 0) & (block.weights[row] == 255)])
            self.assertTrue(own.endswith(chat.END))


if __name__ == "__main__":
    unittest.main()
