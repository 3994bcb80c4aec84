#!/usr/bin/env python3
"""An executable runs in a root directory that holds nothing but it, with an empty environment, and writes nothing."""
import os
import shutil
import unittest

from chat import executable
from support import compiled, inside, ok, scratch


class EmptyRoot(unittest.TestCase):
    def test_every_verb_that_needs_no_input(self):
        exe, root = compiled("llama-gqa-tied"), scratch("root")
        os.makedirs(root)
        shutil.copy(exe, os.path.join(root, "model"))
        os.chmod(root, 0o555)
        for verb in (("logits", "--tokens", "1,5,9;7", "--hash"), ("generate", "--tokens", "1", "-n", "5", "--greedy", "--json"),
                     ("info",), ("selftest",)):
            with self.subTest(verb[0]):
                there, here = inside(root, "/model", *verb), ok(exe, *verb)
                if verb[0] == "logits":
                    self.assertEqual(there.out, here.out)
                if verb[0] == "generate":
                    self.assertEqual(there.json["tokens"], here.json["tokens"])
        self.assertEqual(os.listdir(root), ["model"])

    def test_a_chat(self):
        exe, root = executable(), scratch("chat-root")
        os.makedirs(root)
        shutil.copy(exe, os.path.join(root, "model"))
        os.chmod(root, 0o555)
        args, questions = ("chat", "--greedy", "-n", 3), "hällo\nand?\n".encode()
        self.assertEqual(inside(root, "/model", *args, stdin=questions).out, ok(exe, *args, stdin=questions).out)
        self.assertEqual(os.listdir(root), ["model"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
