#!/usr/bin/env python3
"""Quantized weights: each format of GGUF stays as it is, with its values and near its size; float weights become int8 or
int4; results keep their bits in every company; what does not go together is refused."""
import os
import random
import struct
import sys
import unittest

from support import CASES, INGOTC, ROOT, compiled, hashes, ids, logits, ok, refused, scratch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "Fuzz"))
from make_corpus import GGML, f32, gguf, text, u32  # noqa: E402

FORMATS = ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K")
# Where the float16 of a block lie, and the exponent with which random codes give values of the order of 2^-4.
HALVES = {"Q8_0": ((0,), -11), "Q4_0": ((0,), -7), "Q5_0": ((0,), -8), "Q4_1": ((0, 2), -8), "Q5_1": ((0, 2), -8),
          "Q4_K": ((0, 2), -13), "Q5_K": ((0, 2), -13), "Q6_K": ((208,), -16)}
VOCAB, HIDDEN, INNER, HEADS, KV_HEADS = 48, 256, 512, 4, 2


def fill(name, kind, size):
    """Random weights in a format."""
    numbers = random.Random(name)
    if kind == "F32":  # norms
        return b"".join(struct.pack("<f", 1 + numbers.uniform(-0.1, 0.1)) for _ in range(size // 4))
    if kind == "F16":
        return b"".join(struct.pack("<e", numbers.uniform(-0.1, 0.1)) for _ in range(size // 2))
    data, (places, exponent), step = bytearray(numbers.randbytes(size)), HALVES[kind], GGML[kind][2]
    for block in range(0, size, step):
        for place in places:
            bits = numbers.getrandbits(10) | numbers.getrandbits(1) << 15 | (max(15 + exponent, 0) << 10)
            data[block + place:block + place + 2] = struct.pack("<H", bits)
    return bytes(data)


def write_model(path, layers, embedding, output):
    """A llama whose layer i stores the matrix NAME as layers[i](NAME). Returns the bytes of all matrices."""
    keys = {"general.architecture": text("llama"), "llama.embedding_length": u32(HIDDEN), "llama.feed_forward_length": u32(INNER),
            "llama.block_count": u32(len(layers)), "llama.attention.head_count": u32(HEADS),
            "llama.attention.head_count_kv": u32(KV_HEADS), "llama.attention.layer_norm_rms_epsilon": f32(1e-5),
            "llama.context_length": u32(256), "llama.vocab_size": u32(VOCAB)}
    kv = HIDDEN // HEADS * KV_HEADS
    tensors = {"token_embd.weight": (embedding, [HIDDEN, VOCAB])}
    for i, kind_of in enumerate(layers):
        for name, shape in (("attn_q", [HIDDEN, HIDDEN]), ("attn_k", [HIDDEN, kv]), ("attn_v", [HIDDEN, kv]),
                            ("attn_output", [HIDDEN, HIDDEN]), ("ffn_gate", [HIDDEN, INNER]), ("ffn_up", [HIDDEN, INNER]),
                            ("ffn_down", [INNER, HIDDEN])):
            tensors[f"blk.{i}.{name}.weight"] = (kind_of(name), shape)
        for name in ("attn_norm", "ffn_norm"):
            tensors[f"blk.{i}.{name}.weight"] = ("F32", [HIDDEN])
    tensors["output_norm.weight"] = ("F32", [HIDDEN])
    tensors["output.weight"] = (output, [HIDDEN, VOCAB])
    with open(path, "wb") as f:
        f.write(gguf(keys, tensors, fill=fill))
    return sum(shape[0] * shape[1] // GGML[kind][1] * GGML[kind][2] for kind, shape in tensors.values() if len(shape) == 2)


def all_formats():
    """A layer in each format; the path and the bytes of its matrices."""
    path = scratch("formats.gguf")
    size = write_model(path, [lambda _, f=f: f for f in FORMATS], "Q6_K", "Q8_0")
    return path, size


def distance(a, b):
    """The largest difference of two lists of rows, and the largest magnitude of the second."""
    return (max(abs(x - y) for r, s in zip(a, b) for x, y in zip(r, s)), max(abs(y) for s in b for y in s))


class Quantized(unittest.TestCase):
    TOKENS = [3, 17, 40, 5, 5, 31, 22, 9, 14, 2]

    def check_one_result(self, exe, vocab):
        numbers = random.Random(4)
        batch = [[numbers.randrange(3, vocab) for _ in range(n)] for n in (1, 2, 7, 33)]
        alone = [hashes(exe, s, args=("-t", "1")) for s in batch]
        self.assertGreater(len({h for rows in alone for h in rows}), 35)
        for threads in ("1", "2"):
            self.assertEqual(hashes(exe, *batch, args=("-t", threads)), [h for rows in alone for h in rows])
            for chunk in ("1", "5"):
                self.assertEqual(hashes(exe, batch[-1], args=("-t", threads, "--chunk", chunk)), alone[-1])

    def test_every_format_keeps_its_values_and_its_size(self):
        path, size = all_formats()
        exact = logits(compiled(path, "--dtype=f32", "--target-cpu=native"), self.TOKENS)
        exe = compiled(path, "--compute=f32", "--kv-dtype=f32", "--target-cpu=native")
        # The same float32 weights: only the sums of the row-parallel products are cut elsewhere.
        difference, largest = distance(logits(exe, self.TOKENS), exact)
        self.assertLess(difference, 1e-5 * max(1, largest))
        info = ok(exe, "info", "--json").json
        self.assertEqual({k for k in info["dtype_bytes"] if k != "f32"}, {f.lower() for f in FORMATS})
        stored = sum(v for k, v in info["dtype_bytes"].items() if k != "f32")
        self.assertLess(stored, 1.05 * size)
        self.assertGreaterEqual(stored, size)
        ok(exe, "selftest")
        self.check_one_result(exe, VOCAB)

    def test_integer_products_are_the_default_and_near(self):
        path, _ = all_formats()
        exact = logits(compiled(path, "--dtype=f32", "--target-cpu=native"), self.TOKENS)
        found = {}
        for bits, far, near in ((16, 1e-6, 1e-3), (8, 1e-3, 0.1)):
            with self.subTest(bits=bits):
                exe = compiled(path, f"--compute=int{bits}", "--kv-dtype=f32", "--target-cpu=native")
                found[bits] = logits(exe, self.TOKENS)
                difference, largest = distance(found[bits], exact)
                self.assertGreater(difference, far * largest)  # it is another computation
                self.assertLess(difference, near * largest)
                ok(exe, "selftest")
                self.check_one_result(exe, VOCAB)
        self.assertEqual(logits(compiled(path, "--kv-dtype=f32", "--target-cpu=native"), self.TOKENS), found[16])

    def test_mixed_layers_are_kinds_of_their_own(self):
        """As in Q4_K_M: values and the way down are stored better in some layers."""
        path = scratch("mixed.gguf")
        better = lambda name: "Q6_K" if name in ("attn_v", "ffn_down") else "Q4_K"  # noqa: E731
        size = write_model(path, [better, lambda _: "Q4_K", better], "Q4_K", "F16")
        module = ok(INGOTC, path, "--emit=packed").text
        self.assertEqual(module.count("func.func private @layer"), 2)
        exe = compiled(path, "--compute=f32", "--kv-dtype=f32", "--target-cpu=native")
        exact = logits(compiled(path, "--dtype=f32", "--target-cpu=native"), self.TOKENS)
        difference, largest = distance(logits(exe, self.TOKENS), exact)
        self.assertLess(difference, 1e-5 * max(1, largest))
        self.assertLess(ok(exe, "info", "--json").json["weights_bytes"], 1.05 * size + 16384)

    def test_float_weights_become_integers(self):
        for case, vocab in (("llama-gqa-tied", 192), ("qwen3", 192)):
            exact = logits(compiled(case, "--dtype=f32", "--target-cpu=native"), self.TOKENS)
            for quantize, near in (("int8", 0.1), ("int4", 0.5)):
                with self.subTest(case=case, quantize=quantize):
                    exe = compiled(case, f"--quantize={quantize}", "--target-cpu=native")
                    difference, largest = distance(logits(exe, self.TOKENS), exact)
                    self.assertLess(difference, near * largest)
                    stored = ok(exe, "info", "--json").json["dtype_bytes"]
                    self.assertEqual(set(stored), {"q8_0", "f32"} if quantize == "int8" else {"q8_0", "q4_1", "f32"})
                    ok(exe, "selftest")
                    self.check_one_result(exe, vocab)

    def test_integers_in_the_cache(self):
        for args in (("--dtype=f32",), ("--quantize=int8",), ("--quantize=int8", "--compute=int8")):
            exact = logits(compiled("qwen3", *args, "--target-cpu=native", "--kv-dtype=f32"), self.TOKENS)
            exe = compiled("qwen3", *args, "--target-cpu=native", "--kv-dtype=int8")
            difference, largest = distance(logits(exe, self.TOKENS), exact)
            self.assertGreater(difference, 0)
            self.assertLess(difference, 0.1 * largest)
            info = ok(exe, "info", "--json").json
            self.assertEqual(info["kv_dtype"], "int8")
            ok(exe, "selftest")
            self.check_one_result(exe, 192)

    def test_units_in_another_order_compute_the_same(self):
        """tools/reorder_units.py, whose models tools/quality measures."""
        for case in ("llama-gqa-tied", "qwen2", "qwen3"):
            model, moved = os.path.join(CASES, case, "model"), scratch(case + "-moved")
            ok(sys.executable, os.path.join(ROOT, "tools", "reorder_units.py"), model, "-o", moved)
            with open(os.path.join(model, "model.safetensors"), "rb") as a, open(os.path.join(moved, "model.safetensors"), "rb") as b:
                self.assertNotEqual(a.read(), b.read())
            found, exact = (logits(compiled(path, "--dtype=f32", "--target-cpu=native"), self.TOKENS) for path in (moved, model))
            difference, largest = distance(found, exact)
            self.assertGreater(difference, 0)
            self.assertLess(difference, 1e-5 * max(1, largest))

    def test_bytes_are_reproducible(self):
        path, _ = all_formats()
        files = []
        for i in range(2):
            exe = scratch(f"again-{i}")
            ok(INGOTC, path, "-o", exe, "--target-cpu=x86-64-v3")
            with open(exe, "rb") as f:
                files.append(f.read())
        self.assertEqual(*files)

    def test_what_does_not_go_together(self):
        llama = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases", "llama-gqa-tied", "model")
        out = ("-o", scratch("refused"))
        refused(INGOTC, llama, *out, "--quantize=int8", "--dtype=f16", words=("--quantize", "--dtype=auto", "f16"))
        refused(INGOTC, llama, *out, "--quantize=int3", words=("--quantize", "none, int8, int4", "int3"))
        refused(INGOTC, llama, *out, "--quantize=int8", "--weights=random", words=("--quantize", "random"))
        for compute in ("int16", "int8"):
            refused(INGOTC, llama, *out, f"--compute={compute}", words=(f"compute {compute}", "quantized weights", "--quantize"))
        refused(INGOTC, llama, *out, "--compute=int8", "--dtype=f32", words=("--compute=int8", "--dtype=auto"))
        self.assertFalse(os.path.exists(scratch("refused")))

    def test_generation_stops_and_starts_as_ever(self):
        exe = compiled("gguf-q8_0", "--target-cpu=native")
        new = ok(exe, "generate", "--tokens", ids([5, 9, 11]), "--greedy", "-n", "8", "--json").json["tokens"]
        rows = logits(exe, [5, 9, 11] + new[:-1])[2:]
        self.assertEqual(new, [row.index(max(row)) for row in rows])


if __name__ == "__main__":
    unittest.main(verbosity=2)
