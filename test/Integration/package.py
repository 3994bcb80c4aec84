#!/usr/bin/env python3
"""The tarball of tools/package compiles a model in a root that holds nothing but it and the C library, and an installed
prefix still works after it was moved; both write the same bytes as the build's own ingotc."""
import filecmp
import os
import shutil
import tarfile
import unittest

from support import AARCH64, BUILD, INGOTC, ROOT, case_model, compiled, emulated, inside, ok, scratch

MODEL = "llama-gqa-tied"


class Package(unittest.TestCase):
    def test_tarball_in_a_root_without_llvm(self):
        tarball, root = scratch("ingot.tar.gz"), scratch("root")
        ok(os.path.join(ROOT, "tools", "package"), "--build", BUILD, "--level", "1", "-o", tarball)
        os.makedirs(os.path.join(root, "tmp"))
        with tarfile.open(tarball) as t:
            t.extractall(root)
        (name,) = [n for n in os.listdir(root) if n.startswith("ingot-")]
        self.assertEqual(sorted(os.listdir(os.path.join(root, name, "lib", "ingot"))), sorted(os.listdir(os.path.join(BUILD, "lib", "ingot"))))
        os.rename(os.path.join(root, name), os.path.join(root, "anywhere"))
        for line in ok("ldd", INGOTC).text.splitlines():
            words = line.split()
            path = words[2] if len(words) > 2 and words[1] == "=>" else words[0]
            if os.path.basename(path).startswith(("ld-linux", "libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so")):
                os.makedirs(root + os.path.dirname(path), exist_ok=True)
                shutil.copy(path, root + path)
        shutil.copytree(case_model(MODEL), os.path.join(root, "model"))
        # The loader asks /proc where a program stands ($ORIGIN). Mounting it needs more rights than changing the root.
        os.makedirs(os.path.join(root, "proc", "self"))
        os.symlink("/anywhere/bin/ingotc", os.path.join(root, "proc", "self", "exe"))
        inside(root, "/anywhere/bin/ingotc", "/model", "-o", "/tmp/exe")
        shutil.rmtree(os.path.join(root, "proc"))
        here, there = compiled(MODEL), os.path.join(root, "tmp", "exe")
        self.assertTrue(filecmp.cmp(here, there, shallow=False), "the packaged ingotc wrote other bytes than the build's")
        self.assertEqual(inside(root, "/tmp/exe", "logits", "--tokens", "1,5,9", "--hash").out,
                         ok(here, "logits", "--tokens", "1,5,9", "--hash").out)

    def test_moved_prefix(self):
        first, second = scratch("first"), scratch("second")
        ok("cmake", "--install", BUILD, "--prefix", first)
        os.rename(first, second)
        exe, other = scratch("exe"), scratch("other")
        ok(os.path.join(second, "bin", "ingotc"), case_model(MODEL), "-o", other, AARCH64, env={"PATH": "/nonexistent"})
        self.assertIn(b"aarch64-linux-gnu", ok(emulated(other), "info").out)
        ok(os.path.join(second, "bin", "ingotc"), case_model(MODEL), "-o", exe, env={"PATH": "/nonexistent"})
        self.assertTrue(filecmp.cmp(compiled(MODEL), exe, shallow=False), "the moved ingotc wrote other bytes than the build's")


if __name__ == "__main__":
    unittest.main(verbosity=2)
