#!/usr/bin/env python3
"""Generation as text: what is streamed is what is returned, always UTF-8; stop strings wherever they fall; --echo,
--logprobs, --ignore-eos, for one request and for many."""
import json
import math
import random
import unittest

from support import compiled, ids, logits, ok, refused, run

# Random weights and a high temperature give every kind of token: parts of characters, special ones, spaces.
SAMPLED = ("--temperature", "9", "--top-k", "0", "--ignore-eos")


class Text(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.exe = compiled("tokenizer-smollm2", "--weights=random:1")

    def answer(self, *args, stdin=b""):
        return ok(self.exe, "generate", "--json", *args, stdin=stdin).json

    def streamed(self, *args):
        out = ok(self.exe, "generate", *args).out
        self.assertTrue(out.endswith(b"\n"))
        return out[:-1].decode("utf-8")  # strict: it must be UTF-8

    def decoded(self, tokens):
        return ok(self.exe, "detokenize", "--tokens", ids(tokens), "--skip-special-tokens").out.decode("utf-8") if tokens else ""

    def test_streamed_is_final_wherever_it_ends(self):
        """Some of these end in the middle of a character, whose rest may come with the next token."""
        lines = [json.dumps({"id": seed, "tokens": [1, 2], "temperature": 9, "top_k": 0, "ignore_eos": True, "seed": seed, "n": 40,
                             "logprobs": 0}) for seed in range(60)]
        cut = []
        for line in ok(self.exe, "generate", "--jsonl", stdin="\n".join(lines).encode()).text.splitlines():
            answer = json.loads(line)
            self.assertEqual(answer["text"], self.decoded(answer["tokens"]))
            cut += [(answer["id"], i + 1) for i, token in enumerate(answer["logprobs"]) if token["text"].endswith("\ufffd")][:1]
        self.assertGreater(len(cut), 5)
        for seed, n in cut[:6] + [(0, 0), (0, 40)]:
            for n in (n, n + 1):
                args = ("--tokens", "1,2", *SAMPLED, "--seed", seed, "-n", n)
                answer = self.answer(*args)
                self.assertEqual(len(answer["tokens"]), n)
                self.assertEqual(answer["text"], self.decoded(answer["tokens"]))
                self.assertEqual(self.streamed(*args), answer["text"])

    def test_stop_strings(self):
        draw = random.Random(5)
        args = ("--tokens", "1,2", *SAMPLED, "--seed", 3, "-n", 40)
        whole = self.answer(*args)
        text = whole["text"]
        lines = []
        for i in range(60):
            stops = []
            for _ in range(draw.randint(1, 3)):
                at = draw.randrange(len(text) - 1)
                stop = text[at:at + draw.randint(1, 12)]
                stops.append(stop if draw.random() < 0.7 else stop[:-1] + "\u2603")  # a near miss
            lines.append({"id": i, "tokens": [1, 2], "temperature": 9, "top_k": 0, "ignore_eos": True, "seed": 3, "n": 40, "stop": stops})
        done = ok(self.exe, "generate", "--jsonl", stdin="\n".join(map(json.dumps, lines)).encode()).text.splitlines()
        answers = {a["id"]: a for a in map(json.loads, done)}
        stopped = 0
        for line in lines:
            # The stop that is complete first, of equal ends the longest.
            found = [(text.find(s) + len(s), -len(s)) for s in line["stop"] if s in text]
            want = text if not found else text[:sum(min(found))]
            answer = answers[line["id"]]
            self.assertEqual((answer["text"], answer["finish_reason"]), (want, "stop" if found else "length"), line["stop"])
            self.assertEqual(answer["tokens"], whole["tokens"][:len(answer["tokens"])])
            stopped += bool(found)
        self.assertGreater(stopped, 20)
        for line in lines[:6]:
            flags = [x for s in line["stop"] for x in (f"--stop={s}",)]
            self.assertEqual(self.streamed(*args, *flags), answers[line["id"]]["text"])

    def test_bad_stops(self):
        refused(self.exe, "generate", "--tokens", "1", "--stop=", codes=(2,), words=("stop", "empty"))
        refused(self.exe, "generate", "--tokens", "1", b"--stop=\xff".decode("utf-8", "surrogateescape"), words=("UTF-8",))
        out = run(self.exe, "generate", "--jsonl", stdin=b'{"tokens": [1], "stop": [3]}\n{"tokens": [1], "stop": 4}')
        self.assertEqual([l.count("expected a string or a list of strings") for l in out.text.splitlines()], [1, 1])

    def test_echo(self):
        prompt = "Once upon a time, \U0001f600 there"
        args = ("--raw", "-p", prompt, *SAMPLED, "--seed", 1, "-n", 12)
        plain, echoed = self.answer(*args), self.answer(*args, "--echo")
        self.assertEqual(echoed["text"], prompt + plain["text"])
        self.assertEqual(echoed["tokens"], plain["tokens"])
        self.assertEqual(self.streamed(*args, "--echo"), echoed["text"])
        # A stop string is looked for in what is generated only.
        stopped = self.answer(*args, "--echo", "--stop", "upon")
        self.assertEqual((stopped["text"], stopped["finish_reason"]), (echoed["text"], "length"))

    def test_logprobs(self):
        prompt = [5, 6, 7]
        answer = self.answer("--tokens", ids(prompt), *SAMPLED, "--repetition-penalty", "1.5", "--seed", 1, "-n", 6, "--logprobs", 3)
        tokens = prompt + answer["tokens"]
        rows = logits(self.exe, tokens)

        def check(entries, first):
            for i, entry in enumerate(entries, first):
                self.assertEqual(entry["token"], tokens[i])
                if i == 0:
                    self.assertIsNone(entry["logprob"])
                    continue
                row = rows[i - 1]
                largest = max(row)
                log = largest + math.log(sum(math.exp(x - largest) for x in row))
                self.assertAlmostEqual(entry["logprob"], row[tokens[i]] - log, delta=1e-6)
                best = sorted(range(len(row)), key=lambda t: (-row[t], t))[:3]
                self.assertEqual([t["token"] for t in entry["top"]], best)
                for t in entry["top"]:
                    self.assertAlmostEqual(t["logprob"], row[t["token"]] - log, delta=1e-6)
                    self.assertEqual(t["text"], ok(self.exe, "detokenize", "--tokens", t["token"]).text)
        check(answer["logprobs"], len(prompt))
        echoed = self.answer("--tokens", ids(prompt), *SAMPLED, "--seed", 1, "--repetition-penalty", "1.5", "-n", 6, "--logprobs", 3, "--echo")
        self.assertEqual(len(echoed["logprobs"]), len(tokens))
        check(echoed["logprobs"], 0)
        line = json.dumps({"tokens": prompt, "temperature": 9, "top_k": 0, "ignore_eos": True, "seed": 1, "n": 6,
                           "repetition_penalty": 1.5, "logprobs": 3, "echo": True})
        many = ok(self.exe, "generate", "--jsonl", stdin=line.encode()).json
        self.assertEqual(many["logprobs"], echoed["logprobs"])
        self.assertNotIn("logprobs", self.answer("--tokens", "5", "-n", 1, "--greedy"))
        none = self.answer("--tokens", "5", "-n", 1, "--greedy", "--logprobs", 0)["logprobs"]
        self.assertEqual(none[0]["top"], [])
        shown = run(self.exe, "generate", "--tokens", ids(prompt), "-n", 2, "--greedy", "--ignore-eos", "--logprobs", 2)
        self.assertEqual(len([l for l in shown.err.splitlines() if "|" in l]), 2)
        refused(self.exe, "generate", "--tokens", "5", "--logprobs", "-1", words=("logprobs", "-1"))
        refused(self.exe, "generate", "--tokens", "5", "--logprobs", "999999", words=("logprobs", "999999"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
