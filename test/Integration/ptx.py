#!/usr/bin/env python3
"""PTX of four architectures' models for sm_80 and sm_90: no call of a library, and, where ptxas is at hand, a table of
every kernel's registers and shared memory, in which no kernel spills.

    ptx.py     ptxas is looked for on PATH, in CUDA_HOME and where tools/setup puts it; without it only the PTX itself is checked, and that is said
"""
import re
import sys

from ptxas import assemble, emit, find_ptxas, kernels_of, parse_report
from support import Failure, case_model

# With random weights for the kernels that fill them.
BUILDS = [("llama-bf16", ()), ("llama-f16", ()), ("qwen2", ()), ("qwen3", ()), ("qwen3", ("--no-fuse",)), ("mistral-window", ()),
          ("llama3-rope", ()), ("tinylm-interleaved", ()), ("qwen3-0.6b-shape", ("--weights=random", "--dtype=bf16")),
          ("qwen3-0.6b-shape", ("--weights=random", "--dtype=f16")), ("qwen3-0.6b-shape", ("--weights=random", "--dtype=f32"))]
ARCHITECTURES = ["sm_80", "sm_90"]
KINDS = ("linear", "attention", "embedding", "rms_norm", "append", "argmax", "sample", "select_rows", "rotary_table")

# What ptxas prints of a kernel that spills: the test can fail.
SPILLING = """ptxas info    : Compiling entry function 'k' for 'sm_90'
ptxas info    : Function properties for k
    16 bytes stack frame, 24 bytes spill stores, 32 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 16 bytes cumulative stack size, 512 bytes smem
"""


def check_text(name, architecture, text, args):
    entries = kernels_of(text)
    yield from ([] if f".target {architecture}" in text else [f"{name}: no .target {architecture}"])
    yield from (f"{name}: calls {f}" for f in re.findall(r"\.extern \.func.*?(\w+)\s*\(", text))
    yield from (f"{name}: a call in {architecture}" for _ in re.findall(r"^\s*call", text, re.M))
    for kind in KINDS + (("random_rows", "random_panels") if "--weights=random" in args else ()):
        if not any(kind in e for e in entries):
            yield f"{name}: no kernel {kind} for {architecture}"
    if "--weights=random" not in args and any("random" in e for e in entries):
        yield f"{name}: kernels for random weights, which it has none of"


def main():
    ptxas, trouble, seen = find_ptxas(), [], {}
    planted = parse_report(SPILLING)["k"]
    if (planted.registers, planted.shared, planted.trouble) != (255, 512, "16 bytes of stack, spills 24 + 32 bytes"):
        trouble.append("a report of a kernel that spills is not understood")
    for model, args in BUILDS:
        texts = emit("ptx", case_model(model), ARCHITECTURES, *args)
        if list(texts) != ARCHITECTURES:
            trouble.append(f"{model}: PTX for {list(texts)}, not {ARCHITECTURES}")
        for architecture, text in texts.items():
            if "--no-fuse" not in args:
                trouble += check_text(model, architecture, text, args)
            if not ptxas:
                continue
            try:
                found = assemble(ptxas, architecture, text)
            except Failure as e:
                trouble.append(f"{model}: {e}")
                continue
            for kernel, resources in found.items():
                seen[kernel, architecture] = resources
                if resources.trouble:
                    trouble.append(f"{model}: {kernel} for {architecture}: {resources.trouble}")
    for (kernel, architecture), resources in sorted(seen.items()):
        print(f"{kernel:60} {architecture} {resources.registers:4} registers {resources.shared:6} bytes shared "
              f"{resources.spills:4} spilled")
    if not ptxas:
        print("no ptxas on PATH or in CUDA_HOME (CUDA toolkit, or the wheel nvidia-cuda-nvcc): registers and spills not looked at")
    print("\n".join(trouble) if trouble else f"{len(BUILDS)} builds, {len(seen)} kernels assembled, no spill")
    return 1 if trouble else 0


if __name__ == "__main__":
    sys.exit(main())
