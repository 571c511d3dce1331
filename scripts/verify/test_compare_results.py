"""Tests of the comparison of two versions' results."""

import json
import pathlib
import tempfile
import unittest

from verify import compare_results

RECORD = {"suite": "s", "model": "m", "defense": "none", "attack": "a", "epsilon": 0.5, "label": 3, "verdict": 0,
          "predicted": 4, "margin": -1.0, "norm": 0.25, "first_success": 7}
CELL = {"suite": "s", "model": "m", "defense": "none", "attack": "a", "epsilon": 0.5}


def results(folder, *records, **cell):
    folder = pathlib.Path(folder)
    folder.mkdir()
    (folder / "records.jsonl").write_text("".join(json.dumps({**RECORD, "image": i, **r}) + "\n" for i, r in enumerate(records)))
    (folder / "results.json").write_text(json.dumps({"cells": [{**CELL, **cell}]}))
    return folder


class Compare(unittest.TestCase):
    def differences(self, before, after, **cell):
        with tempfile.TemporaryDirectory() as scratch:
            old, new = results(f"{scratch}/before", *before), results(f"{scratch}/after", *after, **cell)
            return compare_results.compare(old, new)[0]

    def test_what_may_differ(self):
        for before, after in (({}, {}), ({}, {"margin": -1.00009}), ({"margin": None}, {"margin": None}),
                              ({"distance": 0.25}, {"norm": 0.26, "distance": 0.26}),
                              ({"proven": 0.1, "broken": 0.3}, {"proven": 0.2, "broken": None})):
            self.assertEqual(self.differences([before], [after]), [])

    def test_what_may_not(self):
        for before, after, words in (({}, {"verdict": 1}, "verdict 0 → 1"), ({}, {"margin": -1.0002}, "margin -1.0 → -1.0002"),
                                     ({}, {"margin": None}, "margin -1.0 → null"), ({}, {"norm": 0.25001}, "norm 0.25 → 0.25001"),
                                     ({}, {"first_success": None}, "first_success 7 → null"),
                                     ({"proven": 0.1, "broken": 0.3}, {"proven": 0.4, "broken": 0.5}, "proven 0.1 → 0.4")):
            found = self.differences([{}, before], [{}, after])
            self.assertEqual(len(found), 1)
            self.assertIn("s/m/none/a/0.5, image 1: " + words, found[0])

    def test_images_that_are_gone_or_new(self):
        self.assertEqual(self.differences([{}, {}], [{}]), ["s/m/none/a/0.5, image 1: only before"])
        self.assertEqual(self.differences([{}], [{}, {}]), ["s/m/none/a/0.5, image 1: only after"])
        self.assertEqual(self.differences([{}], [{}], error="no number"), ["s/m/none/a/0.5: error None → no number"])
