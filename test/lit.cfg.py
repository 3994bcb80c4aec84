"""The lit suite: IR in, IR or diagnostics out, checked by FileCheck or -verify-diagnostics.

Substitutions: %ingotc, %ingot-opt, %ingot-eval (or the bare names of the last two), %fixtures (small checkpoints and
configs of models/), %cases (the golden cases of test/Integration), %python, and lit's own (%s, %t, %S).
INGOT_TEST_ROUNDTRIP=1: every RUN of ingot-opt also prints its result, parses it again and compares.
"""
import os

import lit.formats

build = os.path.join(config.ingot_build, "bin")
config.name = "Ingot"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "Integration", "Numeric", "Unit", "Fuzz"]
config.test_source_root = os.path.dirname(os.path.abspath(__file__))
config.test_exec_root = os.path.join(config.ingot_build, "test")

# FileCheck, not and split-file stand in LLVM's own folder; /usr/bin has them under versioned names only.
config.environment["PATH"] = os.pathsep.join([build, config.llvm_tools, os.environ.get("PATH", "")])
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
# Freed memory is overwritten (glibc does not where a thread keeps it), so that who reads it still is seen without a
# sanitizer too.
config.environment["GLIBC_TUNABLES"] = "glibc.malloc.tcache_count=0:glibc.malloc.perturb=165"

opt = os.path.join(build, "ingot-opt")
if os.environ.get("INGOT_TEST_ROUNDTRIP", "0") not in ("", "0"):
    opt += " --verify-roundtrip"


def word(name):
    """A program's bare name where a shell would run it, not as part of a path, an option or another name."""
    return r"(?<![-\w./%])" + name + r"(?![-\w./])"


# In this order: lit replaces one after the other, and a result must not be replaced again.
config.substitutions += [
    ("%ingot-opt", opt),
    ("%ingot-eval", os.path.join(build, "ingot-eval")),
    ("%ingotc", os.path.join(build, "ingotc")),
    ("%fixtures", os.path.join(config.ingot_source, "models", "fixtures")),
    ("%cases", os.path.join(config.ingot_source, "test", "Integration", "cases")),
    ("%python", config.python),
    (word("ingot-opt"), opt),
]
