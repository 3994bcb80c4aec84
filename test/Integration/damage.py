#!/usr/bin/env python3
"""A damaged executable says what is wrong: a flipped byte of a weight or a wrong constant of a kernel in selftest, a cut
or stripped file at its start."""
import os
import re
import shutil
import struct
import subprocess
import unittest

from support import LLVM_BIN, ROOT, compiled, ok, run, scratch

CASE = "llama-gqa-tied"
VECTOR_MATH = os.path.join(ROOT, "compiler", "Codegen", "CPU", "VectorMath.cpp")


def readelf(flag, exe):
    return subprocess.run([os.path.join(LLVM_BIN, "llvm-readelf"), flag, exe], stdout=subprocess.PIPE, text=True, check=True).stdout


def entry_end(exe):
    """Where the code ends that a start needs before anything else (.ingot.entry), as an offset in the file."""
    offset, size = re.search(r"\.ingot\.entry +PROGBITS +\w+ (\w+) (\w+)", readelf("-S", exe)).groups()
    return int(offset, 16) + int(size, 16)


def segments_end(exe):
    """Where the last byte ends that is loaded when the program starts."""
    return max(int(offset, 16) + int(size, 16)
               for offset, size in re.findall(r"(?m)^ +LOAD +(\w+) +\w+ +\w+ +(\w+)", readelf("-l", exe)))


def payload_start(exe):
    """Where the weights begin: the first multiple of 64 KiB behind the ELF file's own end (its section headers)."""
    text = readelf("-h", exe)
    offset, size, count = (int(re.search(name + r"\D*(\d+)", text).group(1))
                           for name in ("Start of section headers:", "Size of section headers:", "Number of section headers:"))
    return (offset + size * count + 65535) // 65536 * 65536


def exp_coefficients():
    """The coefficients of the kernels' exponential, highest power first, as its source has them."""
    with open(VECTOR_MATH, encoding="utf-8") as f:
        text = f.read()
    body = re.search(r"(?ms)^static std::pair<Value, Value> reduceExp\(.*?^}", text)
    found = body and re.search(r"polynomial\(\s*e,\s*r,\s*{([^}]*)}", body.group())
    if not found:
        raise AssertionError(f"{VECTOR_MATH}: no polynomial(e, r, {{...}}) in reduceExp; this test takes its coefficients from there")
    return [float(c) for c in found.group(1).split(",")]


class Damage(unittest.TestCase):
    def copy(self, name):
        path = scratch(name)
        shutil.copy(compiled(CASE), path)
        return path

    def test_whole(self):
        result = ok(compiled(CASE), "selftest")
        self.assertRegex(result.text + result.err, r"(?i)logits")

    def test_flipped_weight(self):
        exe = self.copy("flipped")
        start, size = payload_start(exe), os.path.getsize(exe)
        self.assertLess(start, size)
        for place in (start + 1000, (start + size) // 2):
            with open(exe, "r+b") as f:
                f.seek(place)
                byte = f.read(1)[0]
                f.seek(place)
                f.write(bytes([byte ^ 0x40]))
            result = run(exe, "selftest")
            self.assertEqual(result.code, 1, str(result))
            self.assertRegex(result.text + result.err, r"(?i)hash")
            with open(exe, "r+b") as f:
                f.seek(place)
                f.write(bytes([byte]))
        ok(exe, "selftest")

    def test_wrong_constant_of_a_kernel(self):
        # The terms of x^3 and x^4. Those of higher powers change the result by little more than the tolerance.
        for power, value in list(enumerate(reversed(exp_coefficients()), start=2))[1:3]:
            with self.subTest(term=f"x^{power}", value=value):
                exe = self.copy("wrong-constant")
                code = payload_start(exe)
                with open(exe, "r+b") as f:
                    image = f.read(code)
                    right, wrong = struct.pack("<f", value), struct.pack("<f", 1.05 * value + 0.01)
                    self.assertTrue(right in image, f"the float {value} of {VECTOR_MATH} is not in the executable's code and constants")
                    f.seek(0)
                    f.write(image.replace(right, wrong))
                result = run(exe, "selftest", "--json")
                self.assertEqual(result.code, 1, str(result))
                self.assertEqual((result.json["hashes"]["result"], result.json["logits"]["result"]), ("passed", "failed"))

    def test_cut(self):
        for cut in (1, 4096, 100000):
            exe = self.copy(f"cut-{cut}")
            os.truncate(exe, os.path.getsize(exe) - cut)
            for verb in (("logits", "--hash", "--tokens", "1"), ("info",)):
                result = run(exe, *verb)
                self.assertEqual(result.code, 1, str(result))
                self.assertRegex(result.err, r"error: .*(?i:truncat|cut|expected)")

    def test_cut_in_its_code(self):
        exe = self.copy("cut-in-code")
        needed, first = segments_end(exe), entry_end(exe)
        self.assertLess(first, 4096, "the entry is not in the file's first page")
        for size in [needed - 1, *range((needed - 1) // 4096 * 4096, first, -4096), first]:
            os.truncate(exe, size)
            result = run(exe, "info")
            self.assertEqual((result.code, result.text), (1, ""), f"{size} bytes: {result}")
            self.assertEqual(result.err, f"error: {exe}: truncated: expected at least {needed} bytes, the file has {size}\n")

    def test_stripped(self):
        exe = self.copy("stripped")
        subprocess.run([os.path.join(LLVM_BIN, "llvm-strip"), exe], check=True)
        result = run(exe, "logits", "--hash", "--tokens", "1")
        self.assertEqual(result.code, 1, str(result))
        self.assertRegex(result.err, r"error: .*(?i:strip|payload|truncat|cut)")

    def test_separate_weights_of_another_model(self):
        one, other = compiled(CASE, "--weights=separate"), compiled("llama-mha", "--weights=separate")
        self.assertTrue(os.path.exists(one + ".weights"))
        ok(one, "logits", "--hash", "--tokens", "1")
        shutil.copy(one + ".weights", scratch("kept"))
        shutil.copy(other + ".weights", one + ".weights")
        result = run(one, "logits", "--hash", "--tokens", "1")
        self.assertEqual(result.code, 1, str(result))
        os.remove(one + ".weights")
        result = run(one, "logits", "--hash", "--tokens", "1")
        self.assertEqual(result.code, 1, str(result))
        self.assertIn(".weights", result.err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
