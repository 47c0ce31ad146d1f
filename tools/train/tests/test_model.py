"""The model: samples in a row see nothing of each other, and training takes up where it stopped."""

import dataclasses
import tempfile
import unittest
from pathlib import Path

import torch

from train import training
from train.config import SMOKE, Shape
from train.model import Model, causal, flexible, masked, own_sample, own_sample_blocks

SHAPE = Shape(vocab=300, layers=2, width=64, ffn=64, heads=2, kv_heads=1, head_dim=32)


class Attention(unittest.TestCase):
    @torch.no_grad()
    def test_a_packed_row_gives_the_logits_of_its_samples(self):
        torch.manual_seed(0)
        model = Model(SHAPE)
        a, b = torch.randint(300, (1, 9)), torch.randint(300, (1, 14))
        row = torch.cat((a, b), 1)
        positions = torch.cat((torch.arange(9), torch.arange(14)))[None]
        samples = torch.cat((torch.zeros(9), torch.ones(14))).long()[None]
        packed = model(row, positions, masked, own_sample(samples))
        alone = model(b, torch.arange(14)[None], causal)
        torch.testing.assert_close(packed[:, 9:], alone, rtol=1e-4, atol=1e-5)

    @torch.no_grad()
    def test_flex_attention_sees_the_same(self):
        q, k, v = torch.randn(2, 2, 64, 32), torch.randn(2, 1, 64, 32), torch.randn(2, 1, 64, 32)
        samples = torch.arange(64).expand(2, 64) // 23
        flex = flexible(q, k, v, own_sample_blocks(samples))
        torch.testing.assert_close(flex, masked(q, k, v, own_sample(samples)), rtol=1e-4, atol=1e-5)


class Checkpoints(unittest.TestCase):
    def test_a_training_goes_on_where_it_stopped(self):
        recipe = dataclasses.replace(SMOKE, rows=2, micro=1, row=16)

        def rows(step: int) -> dict[str, torch.Tensor]:
            generator = torch.Generator().manual_seed(step)
            tokens = torch.randint(300, (2, 17), generator=generator)
            same = torch.zeros_like(tokens)
            return {
                "tokens": tokens,
                "weights": torch.full((2, 17), 255, dtype=torch.uint8),
                "samples": same,
                "positions": torch.arange(17).expand(2, 17),
            }

        def start(folder: str) -> training.Trainer:
            return training.Trainer(Path(folder), SHAPE, recipe, "cpu", "mask", False)

        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
            whole = start(one)
            losses = [whole.one_step(rows(i), 0.1).item() for i in range(4)]
            first = start(two)
            for i in range(2):
                first.one_step(rows(i), 0.1)
            first.save()
            second = start(two)
            self.assertEqual(second.step, 2)
            rest = [second.one_step(rows(i), 0.1).item() for i in range(2, 4)]
        # Moments are kept in 16 bits, so nearly, not wholly, the same.
        torch.testing.assert_close(torch.tensor(rest), torch.tensor(losses[2:]), rtol=5e-3, atol=0)

    def test_the_rate_rises_and_falls_to_nothing(self):
        at = [training.rate(SMOKE, int(p * SMOKE.steps), p) for p in (0.0, 0.3, 0.7, 0.9, 1.0)]
        self.assertLess(at[0], at[1])
        self.assertGreater(at[2], at[3])
        self.assertEqual(at[4], 0.0)


if __name__ == "__main__":
    unittest.main()
