#!/usr/bin/env python3
"""One result: the bits of a sequence's logits, and its tokens, are the same alone and in a batch, whole and in chunks,
with one worker and with two, after a cached prefix and without; for every pair of storage types of weights and cache."""
import json
import random
import unittest

from support import compiled, hashes, ids, logits, ok, scratch

LENGTHS = (1, 2, 5, 17, 33, 64, 100)


def sequences(vocab, seed):
    numbers = random.Random(seed)
    return [[numbers.randrange(3, vocab) for _ in range(n)] for n in LENGTHS]


class OneResult(unittest.TestCase):
    def check(self, exe, vocab):
        batch = sequences(vocab, 7)
        alone = [hashes(exe, s, args=("-t", "1")) for s in batch]
        self.assertEqual([len(h) for h in alone], list(LENGTHS))
        # Rows differ from one another, so an equal hash says something.
        self.assertGreater(len({h for rows in alone for h in rows}), sum(LENGTHS) * 9 // 10)
        together = [h for rows in alone for h in rows]
        for threads in ("1", "2"):
            self.assertEqual(hashes(exe, *batch, args=("-t", threads)), together, f"in a batch of 7, {threads} threads")
            for chunk in ("1", "3", "16"):
                self.assertEqual(hashes(exe, batch[-1], args=("-t", threads, "--chunk", chunk)), alone[-1],
                                 f"in chunks of {chunk}, {threads} threads")
        self.assertEqual(hashes(exe, *batch, args=("--chunk", "3")), together, "a batch in chunks of 3")
        self.assertEqual(hashes(exe, batch[-1], args=("--last",)), alone[-1][-1:], "--last")

    def test_architectures(self):
        for case, vocab in (("llama-gqa-tied", 192), ("qwen3", 192), ("mistral-window", 192), ("llama3-rope", 192), ("tinylm-gqa", 31)):
            with self.subTest(case):
                self.check(compiled(case), vocab)

    def test_storage_types(self):
        for dtype in ("f32", "bf16", "f16"):
            for kv in ("f32", "bf16", "f16"):
                with self.subTest(weights=dtype, cache=kv):
                    self.check(compiled("qwen3", f"--dtype={dtype}", f"--kv-dtype={kv}", "--target-cpu=native"), 192)

    def test_variants_differ_in_speed_only_where_they_say_so(self):
        """The generic variant can be asked for by name, and agrees with the chosen one within the case's own scale."""
        exe, v3 = compiled("llama-gqa-tied"), compiled("llama-gqa-tied", "--target-cpu=x86-64-v3")
        self.check(v3, 192)
        tokens = sequences(192, 3)[4]
        for mine, theirs in zip(logits(exe, tokens), logits(v3, tokens)):
            for a, b in zip(mine, theirs):
                self.assertLess(abs(a - b), 2e-4)

    def test_greedy_is_the_largest_logit(self):
        exe, tokens = compiled("llama-gqa-tied"), sequences(192, 11)[3]
        new = ok(exe, "generate", "--tokens", ids(tokens), "--greedy", "-n", "8", "--json", "-t", "2").json["tokens"]
        rows = logits(exe, tokens + new[:-1])[len(tokens) - 1:]
        self.assertEqual(new, [row.index(max(row)) for row in rows])

    def test_requests_together_and_after_a_cached_prefix(self):
        """What `generate` says of each request alone is what --jsonl says of all at once, though they share a prefix."""
        exe, numbers = compiled("qwen3"), random.Random(5)
        prefix = [numbers.randrange(3, 192) for _ in range(70)]
        requests = []
        for i in range(9):
            tokens = prefix + [numbers.randrange(3, 192) for _ in range(i)] if i % 3 else sequences(192, i)[i % 7]
            requests.append({"id": f"r{i}", "tokens": tokens, "n": 5 + i, "temperature": 0.9, "seed": 40 + i})
        requests.append(dict(requests[4], id="again"))
        path = scratch("requests.jsonl")
        with open(path, "w", encoding="utf-8") as f:
            f.writelines(json.dumps(r) + "\n" for r in requests)
        with open(path, "rb") as f:
            lines = ok(exe, "generate", "--jsonl", stdin=f.read()).text.splitlines()
        answers = {a["id"]: a for a in map(json.loads, lines)}
        self.assertEqual(sorted(answers), sorted(r["id"] for r in requests))
        for r in requests:
            for threads in ("1", "2"):
                alone = ok(exe, "generate", "--tokens", ids(r["tokens"]), "-n", r["n"], "--temperature", r["temperature"], "--seed",
                           r["seed"], "--json", "-t", threads).json
                self.assertEqual(answers[r["id"]]["tokens"], alone["tokens"], f"{r['id']}, {threads} threads")
                self.assertEqual(answers[r["id"]]["finish_reason"], alone["finish_reason"])
        self.assertEqual(answers["again"]["tokens"], answers["r4"]["tokens"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
