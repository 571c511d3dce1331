"""Tests of the comparison of passes with PyTorch's."""

import types
import unittest

from bench import pytorch


class Table(unittest.TestCase):
    def test_best_against_best(self):
        sides = [types.SimpleNamespace(form=form) for form in ("float32", "bf16", "float32", "compiled", "bf16")]
        times = [[2.0, 1.0, 8.0, 6.0, 5.0], [2.0, 1.5, 8.0, 5.0, 4.5]]
        self.assertEqual(pytorch.ratios(sides, [2.0, 1.25, 8.0, 5.5, 4.75], times, range(2, 5), range(2)),
                         [(3.0 + 2.5) / 2, (5.0 + 3.0) / 2])
        # A form that did not start counts for nothing.
        self.assertEqual(pytorch.ratios(sides[:3] + [None, None], [2.0, 1.25, 8.0, None, None], times, range(2, 5), range(2)),
                         [4.0, (8.0 + 8.0 / 1.5) / 2])

    def test_table(self):
        row = {"network": "rn-18", "pass": "gradient", "threads": 2, "batch": 16, "seconds": [[0.002, 0.001], [0.004, None]],
               "ratios": [[2.0, 4.0]]}
        text = pytorch.report([row], ["1.27", "2.15.0+cpu"], [], 1, 0.0, ["float32", "compiled"])
        self.assertIn("| network | pass | threads | batch | selfheal | in bf16 | PyTorch 2.15.0 | compiled | ÷ float32 | ÷ best |", text)
        self.assertIn("| ResNet-18, 32×32 | with gradient | 2 | 16 | 2.0 ms | 1.0 ms | 4.0 ms | – | **2.00** | **4.00** |", text)
        self.assertIn("Best against best the ratio is 4.00 to 4.00", text)
