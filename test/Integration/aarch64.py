#!/usr/bin/env python3
"""Executables for AArch64, linked here and run under qemu-user: their bits are those of the x86-64 executable, alone, in
batches, in chunks and by several workers; random weights are the same; the variant is chosen by the CPU; what cannot be
made is refused by name."""
import os
import random
import shutil
import struct
import unittest

from quantized import VOCAB, all_formats
from support import AARCH64, BUILD, INGOTC, case_model, compiled, emulated, hashes, ids, ok, refused, run, scratch

BASELINE = ("--target-cpu=armv8-a",)
VARIANTS = ["armv8-a", "armv8.2-a+dotprod", "armv8.2-a+dotprod+i8mm+bf16"]


def sequences(vocab, lengths):
    numbers = random.Random(7)
    return [[numbers.randrange(3, vocab) for _ in range(n)] for n in lengths]


class Bits(unittest.TestCase):
    """Products in f32 have one order on every machine, exp, cosine and sine are our own, and everything else is rounded as
    IEEE 754 says: the executables of both architectures give the same bits."""

    def check(self, case, *args, vocab=192):
        here, there = compiled(case, "--target-cpu=x86-64-v3", *args), compiled(case, AARCH64, *BASELINE, *args)
        batch = sequences(vocab, (1, 2, 7, 33))
        want = hashes(here, *batch, args=("-t", "1"))
        self.assertEqual(len(set(want)), len(want))
        self.assertEqual(hashes(there, *batch, args=("-t", "2")), want)
        self.assertEqual(hashes(there, batch[-1], args=("-t", "1", "--chunk", "3")), want[-len(batch[-1]):])

    def test_storage_types(self):
        for dtype, kv in (("f32", "f32"), ("bf16", "bf16"), ("f16", "f16"), ("bf16", "f16")):
            with self.subTest(weights=dtype, cache=kv):
                self.check("qwen3", f"--dtype={dtype}", f"--kv-dtype={kv}")

    def test_quantized_weights(self):
        """In integers and in float32, every format; the dot products' definition by vectors has the sums of AVX2's."""
        path, _ = all_formats()
        for args in ((), ("--compute=int8",), ("--compute=f32", "--kv-dtype=int8")):
            with self.subTest(formats=args):
                self.check(path, *args, vocab=VOCAB)
                ok(compiled(path, AARCH64, *BASELINE, *args), "selftest")
        for quantize in ("int8", "int4"):
            with self.subTest(quantize=quantize):
                self.check("qwen3", f"--quantize={quantize}")

    def test_architectures(self):
        for case in ("llama-bias", "mistral-window", "llama3-rope"):
            with self.subTest(case):
                self.check(case)

    def test_naive_attention(self):
        self.check("llama-gqa-tied", "--attention=naive")

    def test_random_weights(self):
        args = ("--weights=random:5", "--dtype=bf16")
        self.check("qwen2", *args)
        ok(compiled("qwen2", AARCH64, *BASELINE, *args), "selftest")

    def test_tokens_and_their_sampling(self):
        here, there = compiled("qwen3"), compiled("qwen3", AARCH64)
        for args in (("--greedy",), ("--temperature", "0.9", "--seed", "3", "--top-k", "20")):
            say = ("generate", "--tokens", "5,6,7,8", "-n", "12", "--json", *args)
            self.assertEqual(ok(there, *say).json["tokens"], ok(here, *say).json["tokens"])


class Variants(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.script = compiled("qwen3", AARCH64)
        cls.exe = cls.script.removesuffix(".max")

    def test_the_file_is_one_for_aarch64(self):
        with open(self.exe, "rb") as f:
            header = f.read(20)
        self.assertEqual((header[:6], struct.unpack_from("<HH", header, 16)), (b"\x7fELF\x02\x01", (2, 183)))
        info = ok(self.script, "info", "--json").json
        self.assertEqual((info["target"], info["variants"]), ("aarch64-linux-gnu", VARIANTS))
        self.assertIn("target-triple=aarch64-linux-gnu", info["build"])
        self.assertIn("aarch64-linux-gnu", ok(self.script, "info").text)
        self.assertEqual(ok(compiled("qwen3"), "info", "--json").json["target"], "x86_64-linux-gnu")

    def test_cut_in_its_code(self):
        with open(self.exe, "rb") as f:
            head = f.read(1_000_000)
        for size in (len(head), 65536, 4096):
            cut = scratch("aarch64-cut")
            with open(cut, "wb") as f:
                f.write(head[:size])
            os.chmod(cut, 0o755)
            result = run(emulated(cut, "max"), "info")
            self.assertEqual(result.code, 1, str(result))
            self.assertRegex(result.err, rf"^error: .*truncated: expected at least \d+ bytes, the file has {size}\n$")

    def test_chosen_by_the_cpu(self):
        seen = set()
        for cpu, name, variant in (("cortex-a53", "Arm Cortex-A53", 0), ("neoverse-n1", "Arm Neoverse N1", 1), ("max", "", 2)):
            exe = emulated(self.exe, cpu)
            info = ok(exe, "info", "--json").json
            self.assertEqual(info["variant"], VARIANTS[variant])
            self.assertIn(name, info["cpu"])
            seen.add(tuple(hashes(exe, [5, 6, 7])))
            ok(exe, "selftest")
        self.assertEqual(len(seen), 1)

    def test_a_variant_that_does_not_run_here(self):
        refused(emulated(self.exe, "cortex-a53"), "logits", "--hash", "--tokens", "5", "--cpu-variant", VARIANTS[1],
                words=("dotprod", "Cortex-A53"))
        needs = compiled("qwen3", AARCH64, "--target-cpu=neoverse-v1").removesuffix(".max")
        refused(emulated(needs, "neoverse-n1"), "logits", "--hash", "--tokens", "5", words=("i8mm", "SVE"))


class Refusals(unittest.TestCase):
    def refuse(self, *args, words, codes=(1, 2)):
        refused(INGOTC, case_model("qwen3"), "-o", scratch("x"), *args, words=words, codes=codes)
        self.assertFalse(os.path.exists(scratch("x")))

    def test_names(self):
        self.refuse("--target-triple=riscv64-linux-gnu", codes=(2,), words=("riscv64-linux-gnu", "x86_64-linux-gnu", "aarch64-linux-gnu"))
        self.refuse(AARCH64, "--target-cpu=native", words=("native", "aarch64-linux-gnu", "armv8-a"))
        self.refuse("--target-cpu=native", AARCH64, words=("native",))
        self.refuse(AARCH64, "--target-cpu=x86-64-v3", words=("x86-64-v3", "armv8-a"))
        self.refuse(AARCH64, "--target-cpu=armv8-a+nothing", words=("armv8-a+nothing",))
        self.refuse(AARCH64, "--target-cpu=armv8-a+nosimd", words=("Advanced SIMD",))
        self.refuse("--target-cpu=armv8-a", words=("armv8-a", "x86-64-v3"))

    def test_list(self):
        text = ok(INGOTC, "--list").text
        for word in ("x86_64-linux-gnu", "aarch64-linux-gnu", *VARIANTS, "x86-64-v4-bf16", "native"):
            self.assertIn(word, text)

    def test_a_build_without_its_runtime(self):
        prefix = scratch("prefix")
        os.makedirs(os.path.join(prefix, "bin"))
        shutil.copy(INGOTC, os.path.join(prefix, "bin", "ingotc"))
        shutil.copytree(os.path.join(BUILD, "lib", "ingot", "x86_64-linux-gnu"), os.path.join(prefix, "lib", "ingot", "x86_64-linux-gnu"))
        alone = os.path.join(prefix, "bin", "ingotc")
        ok(alone, case_model("qwen3"), "-o", scratch("native"), "--target-cpu=x86-64-v3")
        refused(alone, case_model("qwen3"), "-o", scratch("y"), AARCH64, codes=(1,), words=("aarch64-linux-gnu", "INGOT_AARCH64"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
