#!/usr/bin/env python3
"""The same input and flags give the same bytes, from any folder, of a copied model, and with what another build folder
puts into executables."""
import filecmp
import os
import shutil
import unittest

from support import BUILD, INGOTC, LLVM_BIN, ROOT, case_model, compiled, ok, scratch


class Reproducible(unittest.TestCase):
    def test_two_folders(self):
        for case, args in (("llama-gqa-tied", ()), ("llama-bf16", ("--dtype=f16",)), ("gguf-q8_0", ()), ("qwen3", ("--weights=random:7",))):
            with self.subTest(case):
                model = case_model(case)
                one = compiled(case, *args)
                other = scratch(f"elsewhere-{case}/deeper")
                os.makedirs(other)
                copy = os.path.join(other, os.path.basename(model))
                (shutil.copytree if os.path.isdir(model) else shutil.copy)(model, copy)
                ok(INGOTC, os.path.basename(model), "-o", "again", *args, cwd=other)
                self.assertTrue(filecmp.cmp(one, os.path.join(other, "again"), shallow=False), f"{case}: the bytes differ")

    def test_another_build_folder(self):
        """All of an executable that is not computed from the model comes from lib/ingot: another build makes the same."""
        build = scratch("another build")
        cache = {}
        with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as f:
            for line in f:
                name, found, value = line.strip().partition("=")
                if found:
                    cache[name.split(":")[0]] = value
        environment = dict(os.environ, CCACHE_DISABLE="1")
        flags = cache["CMAKE_BUILD_TYPE"].upper()
        same = ["CMAKE_BUILD_TYPE", "CMAKE_C_COMPILER", "CMAKE_CXX_COMPILER", f"CMAKE_C_FLAGS_{flags}", f"CMAKE_CXX_FLAGS_{flags}"]
        ok("cmake", "-S", ROOT, "-B", build, "-G", "Ninja", *(f"-D{name}={cache[name]}" for name in same), env=environment)
        ok("cmake", "--build", build, "-j2", "--target", "ingot-rt", env=environment, timeout=1100)
        here, there = os.path.join(BUILD, "lib", "ingot"), os.path.join(build, "lib", "ingot")
        names = sorted(os.path.relpath(os.path.join(d, f), there) for d, _, fs in os.walk(there) for f in fs)
        self.assertTrue(any(n.endswith("ingot_rt.o") for n in names), names)
        for name in names:
            one, other = os.path.join(here, name), os.path.join(there, name)
            if flags == "DEBUG" and name.endswith(".o"):  # debug information names the build folder
                plain = scratch("here.o"), scratch("there.o")
                for source, target in zip((one, other), plain):
                    ok(os.path.join(LLVM_BIN, "llvm-objcopy"), "--strip-debug", source, target)
                one, other = plain
            self.assertTrue(filecmp.cmp(one, other, shallow=False), f"{name}: the bytes differ")


if __name__ == "__main__":
    unittest.main(verbosity=2)
