#!/usr/bin/env python3
"""The verbs loss and perplexity against what transformers computed (perplexity.json, from make_perplexity.py)."""
import json
import math
import os
import unittest

from support import compiled, ids, ok, refused

TOLERANCE = 1e-4  # relative, as promised

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "perplexity.json"), encoding="utf-8") as golden_file:
    GOLDEN = json.load(golden_file)


def joined(sequences):
    return ";".join(ids(s) for s in sequences)


class Losses(unittest.TestCase):
    def assert_close(self, got, want, what):
        self.assertLessEqual(abs(got - want), TOLERANCE * abs(want), f"{what}: expected {want}, got {got}")

    def test_loss(self):
        for golden in GOLDEN["loss"]:
            with self.subTest(golden["case"]):
                exe = compiled(golden["case"])
                got = ok(exe, "loss", "--tokens", joined(golden["tokens"]), "--labels=" + joined(golden["labels"]), "--json").json
                self.assert_close(got["loss"], golden["loss"], "loss")
                self.assertEqual(got["count"], golden["count"])
                for one, want in zip(got["sequences"], golden["sequences"]):
                    self.assert_close(one["loss"], want, "a sequence's loss")

    def test_perplexity(self):
        for golden in GOLDEN["perplexity"]:
            with self.subTest(golden["case"], ctx=golden["ctx"], stride=golden["stride"]):
                exe, tokens = compiled(golden["case"]), golden["tokens"]
                args = ("perplexity", "--tokens", ids(tokens), "--ctx", golden["ctx"], "--stride", golden["stride"])
                got = ok(exe, *args, "--json").json
                self.assert_close(got["loss"], golden["loss"], "loss")
                self.assert_close(got["perplexity"], golden["perplexity"], "perplexity")
                self.assertEqual(got["count"], len(tokens) - 1)
                beyond = max(0, len(tokens) - golden["ctx"])
                self.assertEqual(got["windows"], 1 + math.ceil(beyond / golden["stride"]))
                self.assert_close(float(ok(exe, *args).text), golden["perplexity"], "what people see")

    def test_strides_differ(self):
        """The goldens would prove little if the context did not matter."""
        by_case = {}
        for golden in GOLDEN["perplexity"]:
            by_case.setdefault(golden["case"], []).append(golden["loss"])
        for values in by_case.values():
            self.assertGreater(max(values) - min(values), 20 * TOLERANCE * max(values))

    def test_errors(self):
        exe = compiled("llama-gqa-tied")
        tokens = ids([5] * 30)
        refused(exe, "perplexity", "--tokens", tokens, "--ctx", 16, "--stride", 16, words=("--stride", "16"))
        refused(exe, "perplexity", "--tokens", tokens, "--stride", 0, words=("--stride", "0"))
        refused(exe, "perplexity", "--tokens", tokens, "--ctx", 1, words=("--ctx", "1"))
        refused(exe, "perplexity", "--tokens", "5", words=("1 tokens", "2"))
        refused(exe, "perplexity", "--tokens", "5,192", words=("192",))
        refused(exe, "perplexity", words=("-f",))
        refused(exe, "perplexity", "-f", "/nonexistent/text", words=("tokenizer",))


if __name__ == "__main__":
    unittest.main(verbosity=2)
