#!/usr/bin/env python3
"""Chat templates against the reference's renderings in template_cases.json and ids in chat_cases.json (both made by
make_template_cases.py): the text to the byte, an error where it has one, raise_exception's message word for word."""
import json
import os
import subprocess
import unittest

from support import BUILD, CASES

HERE = os.path.dirname(os.path.abspath(__file__))
DRIVER = os.path.join(BUILD, "test", "template-driver")


def load(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as f:
        stored = json.load(f)
    return [{**case, "input": stored["inputs"][case["input"]]} for case in stored["cases"]]


def ask(requests):
    lines = "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in requests)
    done = subprocess.run([DRIVER], input=lines.encode(), stdout=subprocess.PIPE, check=True, timeout=300)
    return [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]]


class Goldens(unittest.TestCase):
    def test_renderings(self):
        cases = load("template_cases.json")
        answers = ask({"template": c["template"], "specials": {"bos_token": "<s>", "eos_token": "</s>"}, "input": c["input"]} for c in cases)
        self.assertEqual(len(answers), len(cases))
        for case, answer in zip(cases, answers):
            with self.subTest(case["name"], template=case["template"]):
                if "output" in case:
                    self.assertEqual(answer.get("output", answer), case["output"])
                elif "raised" in case:
                    self.assertEqual(answer.get("error"), case["raised"])
                elif "compile" in case:
                    self.assertRegex(answer.get("compile", ""), r"^template: line \d+, column \d+: ")
                else:
                    self.assertRegex(answer.get("error", answer.get("compile", "")), r"^template: line \d+, column \d+: ")

    def test_ids(self):
        cases = load("chat_cases.json")
        answers = ask({"template": c["template"], "specials": c["specials"], "input": c["input"],
                       "tokenizer": os.path.join(CASES, c["tokenizer"], "model")} for c in cases)
        for case, answer in zip(cases, answers):
            with self.subTest(case["name"]):
                self.assertEqual(answer.get("ids", answer), case["ids"])


if __name__ == "__main__":
    unittest.main(verbosity=1)
