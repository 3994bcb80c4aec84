#!/usr/bin/env python3
"""Command lines at their limits: each gets a right answer or an error that says what was expected and what came."""
import json
import math
import os
import shutil
import stat
import struct
import subprocess
import unittest

from support import INGOTC, case_model, compiled, hashes, ids, logits, ok, refused, run, scratch, write_json

QWEN3_06B = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072,
    "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "hidden_act": "silu",
    "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1000000, "rope_scaling": None, "tie_word_embeddings": True,
    "attention_bias": False, "torch_dtype": "bfloat16", "use_sliding_window": False, "sliding_window": None, "max_window_layers": 28,
}
LLAMA_8B = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_act": "silu", "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False,
    "torch_dtype": "bfloat16",
}
CONTEXT = 64


class Prompts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.exe = compiled("llama-gqa-tied", f"--max-context={CONTEXT}")

    def generate(self, *args):
        return ok(self.exe, "generate", "--greedy", "--json", *args).json

    def test_one_token(self):
        answer = self.generate("--tokens", "1", "-n", "1")
        row = logits(self.exe, [1])[0]
        self.assertEqual(answer["tokens"], [row.index(max(row))])
        self.assertEqual(answer["finish_reason"], "length")

    def test_nothing_asked_for(self):
        answer = self.generate("--tokens", "1,5", "-n", "0")
        self.assertEqual((answer["tokens"], answer["finish_reason"]), ([], "length"))

    def test_exactly_the_context(self):
        prompt = [3 + i % 180 for i in range(CONTEXT)]
        self.assertEqual(len(hashes(self.exe, prompt)), CONTEXT)
        answer = self.generate("--tokens", ids(prompt[:-1]), "-n", "9")
        # One position is free: its token is computed, and the one after it is known without a place in the cache.
        self.assertEqual(answer["finish_reason"], "context")
        self.assertIn(len(answer["tokens"]), (1, 2))
        full = self.generate("--tokens", ids(prompt), "-n", "1")
        self.assertLessEqual(len(full["tokens"]), 1)
        self.assertEqual(full["finish_reason"], "length" if full["tokens"] else "context")

    def test_longer_than_the_context(self):
        for verb in (("generate", "--greedy"), ("logits", "--hash")):
            refused(self.exe, *verb, "--tokens", ids([5] * (CONTEXT + 1)), words=(CONTEXT + 1, CONTEXT))

    def test_empty_prompts(self):
        refused(self.exe, "generate", "--tokens", "")
        refused(self.exe, "logits", "--hash", "--tokens", "1;;2")

    def test_ids_out_of_range(self):
        for bad in ("192", "-1", "4294967297", "99999999999999999999", "x"):
            refused(self.exe, "logits", "--hash", "--tokens", f"1,{bad}", words=(bad,))
        refused(self.exe, "generate", "--tokens", "1,192", words=("192",))

    def test_a_file_of_ids(self):
        path = scratch("ids")
        with open(path, "w", encoding="utf-8") as f:
            f.write("3,4,5\n")
        self.assertEqual(hashes(self.exe, [3, 4, 5]), [l.split()[-1] for l in ok(self.exe, "logits", "--hash", "--tokens", "@" + path).text.splitlines()])
        with open(path, "w", encoding="utf-8") as f:
            f.write(ids([7] * 100000))
        refused(self.exe, "generate", "--tokens", "@" + path, words=(100000, CONTEXT))
        refused(self.exe, "generate", "--tokens", "@" + path + ".absent", words=(path + ".absent",))

    def test_options(self):
        for args, word in ((("generate", "--tokens", "1", "--tempratur", "1"), "--temperature"), (("generat", "--tokens", "1"), "generate")):
            refused(self.exe, *args, codes=(2,), words=(word,))
        for value in ("-1", "nan"):
            refused(self.exe, "generate", "--tokens", "1", "-n", "1", "--temperature", value, words=("temperature",))
        cold = ok(self.exe, "generate", "--tokens", "1,5", "-n", "6", "--temperature", "0", "--json").json["tokens"]
        self.assertEqual(cold, self.generate("--tokens", "1,5", "-n", "6")["tokens"])
        for verb in ("generate", "chat", "logits", "loss", "perplexity", "bench", "info", "selftest", "tokenize", "detokenize"):
            self.assertIn(verb, ok(self.exe, verb, "--help").text)

    def test_text_without_a_tokenizer(self):
        refused(self.exe, "generate", "-p", "hello", words=("tokenizer",))

    def test_closed_pipe(self):
        with subprocess.Popen([self.exe, "logits", "--tokens", ids([5] * CONTEXT), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
            p.stdout.read(1)
            p.stdout.close()
            err = p.stderr.read()
        self.assertEqual(err, b"")

    def test_loss(self):
        rows = ok(self.exe, "logits", "--tokens", "5,6,7", "--json").json["logits"]
        losses = [math.log(sum(math.exp(x) for x in rows[i])) - rows[i][t] for i, t in ((0, 6), (1, 7))]
        got = ok(self.exe, "loss", "--tokens", "5,6,7", "--json").json["loss"]
        self.assertAlmostEqual(got, sum(losses) / 2, delta=1e-4)
        got = ok(self.exe, "loss", "--tokens", "5,6,7", "--labels=5,-100,7", "--json").json["loss"]
        self.assertAlmostEqual(got, losses[1], delta=1e-4)
        refused(self.exe, "loss", "--tokens", "5,6,7", "--labels=-100,-100,-100", words=("label",))
        two = ok(self.exe, "loss", "--tokens", "5,6,7;9,10", "--json").json["loss"]
        other = ok(self.exe, "loss", "--tokens", "9,10", "--json").json["loss"]
        self.assertAlmostEqual(two, (sum(losses) + other) / 3, delta=1e-4)


class Compiler(unittest.TestCase):
    def test_usage(self):
        model = case_model("llama-gqa-tied")
        self.assertEqual(run(INGOTC).code, 2)
        self.assertEqual(run(INGOTC, model).code, 2)
        refused(INGOTC, model, "-o", scratch("x"), "--dtyp=f32", codes=(2,), words=("--dtype",))
        refused(INGOTC, model, "-o", scratch("x"), "--dtype=f8", words=("f8", "f32", "bf16", "f16"))
        self.assertFalse(os.path.exists(scratch("x")))

    def test_an_old_file_survives_a_failure(self):
        exe = scratch("old")
        with open(exe, "w", encoding="utf-8") as f:
            f.write("old")
        refused(INGOTC, case_model("refuse-truncated"), "-o", exe, codes=(1,))
        with open(exe, encoding="utf-8") as f:
            self.assertEqual(f.read(), "old")

    def test_the_output_replaces_no_input_and_no_device(self):
        model = scratch("kept")
        shutil.copytree(case_model("llama-gqa-tied"), model, dirs_exist_ok=True)
        weights = os.path.join(model, "model.safetensors")
        os.symlink("model.safetensors", os.path.join(model, "link"))
        with open(weights, "rb") as f:
            before = f.read()
        for name in ("model.safetensors", "config.json", "link"):
            with self.subTest(name):
                refused(INGOTC, model, "-o", os.path.join(model, name), codes=(1,), words=(name, "is a file of the model"))
        other = write_json(scratch("other/config.json"), QWEN3_06B)
        refused(INGOTC, other, "--weights=random:1", "-o", other, codes=(1,), words=("is a file of the model",))
        with open(weights, "rb") as f:
            self.assertEqual(f.read(), before)
        pipe = scratch("pipe")
        os.mkfifo(pipe)
        for arguments in ((), ("--emit=ingot",), ("--emit=obj",)):
            with self.subTest(arguments):
                refused(INGOTC, model, "-o", pipe, *arguments, codes=(1,), words=(pipe, "a pipe"))
                self.assertTrue(stat.S_ISFIFO(os.stat(pipe).st_mode))
        # Inside the directory, under a name of its own, an executable may lie, also in place of an older one.
        for _ in range(2):
            ok(INGOTC, model, "-o", os.path.join(model, "exe"), "--selftest=none", "--target-cpu=x86-64-v3")

    def test_a_weight_beyond_the_range_of_its_type(self):
        """float16 and bfloat16 have no finite value for it: an infinity in its place would make every logit NaN."""
        model, exe = scratch("beyond"), scratch("beyond.exe")
        shutil.copytree(case_model("llama-bias"), model, dirs_exist_ok=True)
        path = os.path.join(model, "model.safetensors")
        with open(path, "rb") as f:
            whole = bytearray(f.read())
        start = 8 + struct.unpack("<Q", whole[:8])[0]
        header = json.loads(whole[8:start])
        # The last element of the second input of a concatenation by rows, and of one of vectors.
        for name in ("model.layers.1.self_attn.k_proj.weight", "model.layers.1.self_attn.k_proj.bias"):
            at = start + header[name]["data_offsets"][1] - 4
            for dtype, largest, beyond in (("f16", 65519.0, -65520.0), ("bf16", 3.38e38, -3.4e38)):
                with self.subTest(name, dtype=dtype):
                    with open(path, "wb") as f:
                        f.write(whole[:at] + struct.pack("<f", largest) + whole[at + 4:])
                    ok(INGOTC, model, "-o", exe, f"--dtype={dtype}", "--selftest=none", "--target-cpu=x86-64-v3")
                    os.remove(exe)
                    with open(path, "wb") as f:
                        f.write(whole[:at] + struct.pack("<f", beyond) + whole[at + 4:])
                    refused(INGOTC, model, "-o", exe, f"--dtype={dtype}", "--selftest=none", "--target-cpu=x86-64-v3", codes=(1,),
                            words=(path, f"'{name}'", f"beyond the range of {dtype}"))
                    self.assertFalse(os.path.exists(exe))

    def test_parameters_of_a_shape(self):
        config = write_json(scratch("qwen3-0.6b/config.json"), QWEN3_06B)
        exe = compiled(os.path.dirname(config), "--weights=random:1", "--selftest=none")
        self.assertLess(os.path.getsize(exe), 64 << 20)
        info = json.dumps(ok(exe, "info", "--json").json)
        self.assertIn("596049920", info)

    def test_random_weights_are_those_of_their_names(self):
        """Biases of gate and up were once both written over the first: the self-test compares with the generator."""
        for case in ("llama-bias", "qwen2", "qwen3"):
            with self.subTest(case):
                ok(compiled(case, "--weights=random:5"), "selftest")

    def test_an_8b_shape_is_a_small_file(self):
        config = write_json(scratch("llama-8b/config.json"), LLAMA_8B)
        exe = compiled(os.path.dirname(config), "--weights=random:1")
        self.assertLess(os.path.getsize(exe), 64 << 20)
        self.assertIn("8030261248", json.dumps(ok(exe, "info", "--json").json))
        self.assertRegex(ok(exe, "info", "--memory").text, r"weights\D*16\d{9}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
