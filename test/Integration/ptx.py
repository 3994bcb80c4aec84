#!/usr/bin/env python3
"""PTX of four architectures' models for sm_80 and sm_90: no call of a library, and, where ptxas is at hand, a table of
every kernel's registers and shared memory, in which no kernel spills.

    ptx.py     ptxas is looked for on PATH, in CUDA_HOME and where tools/setup puts it; without it only the PTX itself is checked, and that is said
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from support import CASES, INGOTC

MODELS = ["llama-bf16", "llama-f16", "qwen2", "qwen3", "mistral-window", "llama3-rope", "tinylm-interleaved"]
ARCHITECTURES = ["sm_80", "sm_90"]
PROPERTIES = re.compile(r"Function properties for (\S+)\s+(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes "
                        r"spill loads\s+ptxas info\s+: Used (\d+) registers(?:[^\n]*?(\d+) bytes smem)?")


def find_ptxas():
    home = os.environ.get("CUDA_HOME")
    return shutil.which("ptxas") or next(filter(None, (shutil.which("ptxas", path=os.path.join(p, "bin")) for p in (
        home or "/usr/local/cuda", "/usr/local/lib/ingot-cuda"))), None)


def emit(model, extra=()):
    command = [INGOTC, os.path.join(CASES, model, "model"), "--target=cuda", "--cuda-arch=" + ",".join(ARCHITECTURES),
               "--emit=ptx", *extra]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def split(ptx):
    """The text for each architecture."""
    parts = re.split(r"^// (sm_\d+)\n", ptx, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def check_text(name, architecture, text):
    entries = re.findall(r"\.entry (\S+?)\(", text)
    yield from ([] if f".target {architecture}" in text else [f"{name}: no .target {architecture}"])
    yield from (f"{name}: calls {f}" for f in re.findall(r"\.extern \.func.*?(\w+)\s*\(", text))
    yield from (f"{name}: a call in {architecture}" for _ in re.findall(r"^\s*call", text, re.M))
    for kind in ("linear", "attention", "embedding", "rms_norm", "append", "argmax", "select_rows", "rotary_table"):
        if not any(kind in e for e in entries):
            yield f"{name}: no kernel {kind} for {architecture}"


def assemble(ptxas, name, architecture, text, seen):
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "kernels.ptx")
        with open(source, "w", encoding="utf-8") as f:
            f.write(text)
        done = subprocess.run([ptxas, "-v", "-arch=" + architecture, source, "-o", os.path.join(folder, "kernels.cubin")],
                              stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        yield f"{name}: ptxas for {architecture}: {done.stdout.strip()[-300:]}"
        return
    found = PROPERTIES.findall(done.stdout)
    kernels = re.findall(r"\.entry (\S+?)\(", text)
    if sorted(f[0] for f in found) != sorted(kernels):
        yield f"{name}: ptxas speaks of {len(found)} kernels for {architecture}, the PTX has {len(kernels)}"
    for kernel, stack, stores, loads, registers, shared in found:
        seen[kernel, architecture] = (int(registers), int(shared or 0))
        if int(stack) or int(stores) or int(loads):
            yield f"{name}: {kernel} for {architecture}: {stack} bytes of stack, spills {stores} + {loads} bytes"


def main():
    ptxas, trouble, seen = find_ptxas(), [], {}
    for model in MODELS:
        for extra in ((), ("--no-fuse",)) if model == "qwen3" else ((),):
            texts = split(emit(model, extra))
            if list(texts) != ARCHITECTURES:
                trouble.append(f"{model}: PTX for {list(texts)}, not {ARCHITECTURES}")
            for architecture, text in texts.items():
                if not extra:
                    trouble += check_text(model, architecture, text)
                if ptxas:
                    trouble += assemble(ptxas, model, architecture, text, seen)
    for (kernel, architecture), (registers, shared) in sorted(seen.items()):
        print(f"{kernel:60} {architecture} {registers:4} registers {shared:6} bytes shared")
    if not ptxas:
        print("no ptxas on PATH or in CUDA_HOME (CUDA toolkit, or the wheel nvidia-cuda-nvcc): registers and spills not looked at")
    print("\n".join(trouble) if trouble else f"{len(MODELS)} models, {len(seen)} kernels assembled, no spill")
    return 1 if trouble else 0


if __name__ == "__main__":
    sys.exit(main())
