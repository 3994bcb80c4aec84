#!/usr/bin/env python3
"""Executables whose kernels the emulator runs: every golden of logits but the largest, the CPU's greedy tokens, one result whatever the
batch, the chunks and the order of blocks, the other verbs, and what --target refuses."""
import json
import os
import sys

from golden import run_logits
from support import CASES, INGOTC, Failure, case_model, compiled, folder, hashes, ids, ok, refused, run, run_checks, scratch

TARGET = "--target=cuda-emulated"
TOO_LARGE = ("qwen3-0.6b-shape",)  # 10^11 multiply-adds


def check_goldens():
    passed = 0
    for name in sorted(os.listdir(CASES)):
        with open(os.path.join(CASES, name, "golden.json"), encoding="utf-8") as f:
            golden = json.load(f)
        if golden["kind"] != "logits" or name in TOO_LARGE:
            continue
        golden = dict(golden, ingotc_args=[*golden["ingotc_args"], TARGET])
        golden.pop("stored_dtype_distance", None)  # as stored: compiled without arguments, so for the CPU
        try:
            print(f"passed {name}: {run_logits(os.path.join(CASES, name), golden)}")
        except Failure as e:
            raise Failure(f"{name}: {e}") from e
        passed += 1
    if passed < 15:
        raise Failure(f"expected at least 15 goldens of logits, got {passed}")


def check_as_stored():
    """16-bit weights and cache, against the CPU's executable."""
    for name in ("llama-bf16", "llama-f16"):
        tokens = [ok(compiled(name, *args), "generate", "--tokens", "1,5,9,3", "--greedy", "-n", 12, "--json").json["tokens"]
                  for args in ((), (TARGET,))]
        if tokens[0] != tokens[1]:
            raise Failure(f"{name}: greedy tokens of the CPU {tokens[0]}, of the emulator {tokens[1]}")


def check_one_result():
    exe = compiled("qwen3", TARGET)
    first, second = [7 * i % 190 + 1 for i in range(75)], [11 * i % 190 + 1 for i in range(20)]
    alone = hashes(exe, first)
    if hashes(exe, second, first)[len(second):] != alone:
        raise Failure("bits depend on the batch")
    if hashes(exe, first, args=("--chunk", 1)) != alone or hashes(exe, first, args=("--chunk", 31)) != alone:
        raise Failure("bits depend on the chunks of a prompt")
    if hashes(exe, first, args=("--threads", 2)) != alone:
        raise Failure("bits depend on the number of threads")
    for order in ("reverse", "1"):
        result = ok(exe, "logits", "--hash", "--tokens", ids(first), env=dict(os.environ, INGOT_EMULATOR_ORDER=order))
        if [line.split()[-1] for line in result.text.splitlines()] != alone:
            raise Failure(f"bits depend on the order of blocks ({order})")
    refused(exe, "logits", "--tokens", "1", words=("INGOT_EMULATOR_ORDER", "expected forward, reverse or a number"),
            env=dict(os.environ, INGOT_EMULATOR_ORDER="sideways"))


def check_sampling():
    """Tokens that the kernel chooses are those that the host chooses from the same logits, which it sees where log
    probabilities are asked for; in batches of sequences that want different things, too."""
    exe, prompt = compiled("qwen3", TARGET), ("--tokens", "1,5,9,3")
    for options in (("--temperature", "0.8", "--top-k", "40", "--top-p", "0.9", "--min-p", "0.02", "--repetition-penalty", "1.1"),
                    ("--temperature", "1.5", "--top-p", "0.8"), ("--greedy", "--repetition-penalty", "1.3")):
        common = ("generate", *prompt, *options, "--seed", 7, "-n", 12, "--ignore-eos", "--json")
        device, host = (ok(exe, *common, *more).json["tokens"] for more in ((), ("--logprobs", "1")))
        if device != host or len(device) != 12:
            raise Failure(f"{options}: the emulator chooses {device}, the host {host}")
    requests = [{"id": "a", "tokens": [3, 7], "greedy": True}, {"id": "b", "tokens": [9], "temperature": 1.2, "seed": 3},
                {"id": "c", "tokens": [4, 4, 5], "top-k": 9, "repetition-penalty": 1.4, "seed": 1}]
    requests = [dict(r, **{"max-new-tokens": 7, "ignore-eos": True}) for r in requests]
    answers = []
    for more in ({}, {"logprobs": 1}):
        text = "".join(json.dumps(dict(r, **more)) + "\n" for r in requests).encode()
        lines = [json.loads(line) for line in ok(exe, "generate", "--jsonl", stdin=text).text.splitlines()]
        answers.append({line["id"]: line["tokens"] for line in lines if "tokens" in line})
    if answers[0] != answers[1] or len(answers[0]) != 3:
        raise Failure(f"--jsonl: the emulator chooses {answers[0]}, the host {answers[1]}")


def check_verbs():
    exe = compiled("qwen3", TARGET)
    ok(exe, "selftest")
    if "cuda-emulated" not in ok(exe, "info").text:
        raise Failure("info does not name the variant")
    trace = scratch("trace")
    # Whoever listens to ops meets all workers, of whom one launches.
    ok(compiled("qwen3", TARGET, "--no-fuse"), "logits", "--tokens", "1,2,3", "--trace", trace, "--threads", 3)
    if not any("q_proj" in name for name in os.listdir(trace)):
        raise Failure(f"a trace without q_proj: {sorted(os.listdir(trace))[:5]}")


def check_refusals():
    model, before = case_model("qwen3"), set(os.listdir(folder()))
    for arguments, words in (
            (("--target=cuda-emulated", "--target-cpu=x86-64-v4", "-o", scratch("x")), ("--target-cpu", "portable")),
            (("--target=cuda-emulated", "--attention=naive", "-o", scratch("x")), ("--attention", "tiled")),
            (("--target=cuda-emulated", "--cuda-arch=sm_90", "-o", scratch("x")), ("--cuda-arch", "no architecture")),
            (("--target=cuda", "--target-triple=aarch64-linux-gnu", "-o", scratch("x")), ("--target-triple", "x86_64")),
            (("--target=cuda", "--emit=loops"), ("--emit", "gpu", "loops")),
            (("--target=cuda-emulated", "--emit=ptx"), ("--emit", "ptx")),
            (("--emit=gpu",), ("--emit", "gpu")),
            (("--target=cuda-emulated", "--quantize=int8", "-o", scratch("x")), ("quantized weights", "--dtype")),
            (("--target=cuda-emulated", "--kv-dtype=int8", "-o", scratch("x")), ("int8 cache", "--kv-dtype")),
            (("--target=gpu", "-o", scratch("x")), ("--target", "cuda-emulated")),
            (("--target=cuda", "--emit=ptx", "--cuda-arch=sm_75"), ("--cuda-arch", "sm_80")),
            (("--target=cuda", "--emit=ptx", "--cuda-arch=sm_90,sm_90"), ("--cuda-arch", "once"))):
        refused(INGOTC, model, *arguments, codes=(2,), words=words)
    refused(INGOTC, case_model("gguf-q8_0"), "--target=cuda-emulated", "-o", scratch("x"), codes=(1,),
            words=("quantized weights", "--dtype"))
    if run(INGOTC, model, "--target=cuda", "--emit=ptx", "--cuda-arch=sm_899").code != 1:
        raise Failure("an architecture that LLVM does not know was not refused")
    if set(os.listdir(folder())) != before:
        raise Failure("a refusal left a file behind")


def main():
    return run_checks((check_refusals, check_verbs, check_sampling, check_one_result, check_as_stored, check_goldens))


if __name__ == "__main__":
    sys.exit(main())
