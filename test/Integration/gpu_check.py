#!/usr/bin/env python3
"""tools/gpu-check, as far as it can be tested without a GPU: executables that the emulator runs in the place of a GPU's;
executables for GPUs with the double of the driver; what it says where there is no driver, no PyTorch, or where something
does not hold. And tools/kernel-model."""
import json
import os
import shutil
import sys

from ptxas import find_ptxas
from support import BUILD, ROOT, Failure, case_model, driven, ok, refused, run, run_checks, scratch

TOOL = os.path.join(ROOT, "tools", "gpu-check")
MODEL = os.path.join(ROOT, "tools", "kernel-model")
TARGET = "cuda-emulated"


def check(home, *args, **options):
    """The tool that was carried along with the folder."""
    return run(sys.executable, os.path.join(home, "tools", "gpu-check"), home, *args, timeout=900, **options)


def prepared(target, cases, shapes):
    home = scratch(f"{target}-{cases}-{shapes}".replace(",", "-"))
    ok(sys.executable, TOOL, "--prepare", home, "--target", target, "--cases", cases, "--shapes", shapes, timeout=900)
    return home


def says(result, code, *words):
    for word in words:
        if word not in result.text + result.err:
            raise Failure(f"{word!r} is not in what {result} printed: {result.text[-1500:]!r}")
    if result.code != code:
        raise Failure(f"expected exit code {code} from {result}: {result.text[-1500:]!r}")
    return result


def check_emulated():
    """All parts that need no GPU pass, in a folder that was carried elsewhere, and all is written down."""
    made = prepared(TARGET, "qwen3,llama-bf16,gguf-q8_0", "tiny")
    home = scratch("carried")
    os.rename(made, home)
    env = {k: v for k, v in os.environ.items() if not k.startswith("INGOT_")}
    says(check(home, "--repetitions", "1", env=env), 0, "selftest: passed", "goldens: passed", "one-result: passed", "bench: passed",
         "pytorch: not run", "sanitizer: not run", "qwen3: largest difference", "tiny: 75 rows")
    with open(os.path.join(home, "result.json"), encoding="utf-8") as f:
        result = json.load(f)
    tests = {(r["test"], r["batch"], r["tokens"]) for r in result["rows"]}
    if tests != {("decode", 1, 3), ("decode", 2, 3), ("prefill", 1, 20)} or min(r["ingot"] for r in result["rows"]) <= 0:
        raise Failure(f"expected three tests with figures, got {result['rows']}")
    return home


def check_findings():
    """What does not hold is found: a golden that was changed, weights that were damaged, a part that does not exist."""
    home = prepared(TARGET, "qwen3", "")
    path = os.path.join(home, "cases", "qwen3", "golden.json")
    with open(path, encoding="utf-8") as f:
        golden = json.load(f)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(dict(golden, prompts=[dict(p, tokens=p["tokens"][:-1] + [5]) for p in golden["prompts"]]), f)
    says(check(home, "--only", "goldens"), 1, "goldens: FAILED: qwen3, prompt of")
    exe = os.path.join(home, "cases", "qwen3", "model")
    with open(exe, "r+b") as f:
        f.seek(-5000, os.SEEK_END)
        byte = f.read(1)
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte[0] ^ 1]))
    says(check(home, "--only", "selftest,one-result"), 1, "selftest: FAILED", "one-result: passed", "goldens: skipped")
    says(check(home, "--only", "selftests"), 1, "error: no part 'selftests'")
    os.remove(os.path.join(home, "check.json"))
    says(check(home), 1, "error: ", "check.json", "--prepare")


def check_gpu():
    """With the double of the driver in the place of NVIDIA's; without any; and with sanitizers that find something."""
    home = prepared("cuda", "qwen3", "")
    says(check(home, env={"PATH": os.environ["PATH"]}), 1, "error: no NVIDIA driver on this machine")
    exe = os.path.join(home, "cases", "qwen3", "model")
    os.rename(exe, exe + ".gpu")
    shutil.copy(driven(exe + ".gpu", case_model("qwen3"), ("--dtype=f32",)), exe)
    double = dict(os.environ, LD_LIBRARY_PATH=os.path.join(BUILD, "test", "cuda-driver"))
    tools = scratch("sanitizer")
    os.makedirs(tools)
    for code, words in ((0, "sanitizer: passed"), (99, "sanitizer: FAILED: qwen3 logits: memcheck: exit code 99: ========= Invalid")):
        with open(os.path.join(tools, "compute-sanitizer"), "w", encoding="utf-8") as f:
            f.write(f'#!/bin/sh\n[ "$1 $3" = "--tool --error-exitcode" ] || exit 2\n[ {code} = 0 ] || echo "========= Invalid read"\n'
                    f'shift 4\n"$@" || exit 3\nexit {code}\n')
        os.chmod(os.path.join(tools, "compute-sanitizer"), 0o755)
        says(check(home, "--skip", "pytorch", env=dict(double, PATH=tools + os.pathsep + os.environ["PATH"])), min(code, 1),
             "Double 0 (sm_90), CUDA 13.0", "selftest: passed", "goldens: passed", "one-result: passed", words)
    says(check(home, "--only", "sanitizer", env=dict(double, PATH="/usr/bin:/bin", CUDA_HOME=tools)), 1, "no compute-sanitizer")
    says(check(home, "--only", "pytorch", env=double), 1, "pytorch: FAILED: PyTorch: ")


def check_kernel_model():
    """Tables of a small shape: kernels of both architectures, and all ops of a step."""
    told = ok(sys.executable, MODEL, "--shapes", "tiny", "--tests", "decode/2,prefill/20", timeout=600).text
    for words in ("random_panels_bf16", "sm_80", " 0 of them spill", "tiny, decode, batch 2", "tiny, prefill, 20 tokens",
                  "layer.attention", "a step: "):
        if words not in told:
            raise Failure(f"{words!r} is not in {told[-2000:]!r}")
    refused(sys.executable, MODEL, "--shapes", "llama-4", codes=(1,), words=("--shapes", "llama-4", "tiny"))


def main():
    checks = [check_emulated, check_findings]
    if find_ptxas():
        checks += [check_gpu, check_kernel_model]
    else:
        print("no ptxas (tools/setup installs it): only the emulator's executables were checked")
    return run_checks(checks)


if __name__ == "__main__":
    sys.exit(main())
