#!/usr/bin/env python3
"""Executables for GPUs, with a test double of the driver that runs their kernels in the emulator: the host's part is what
is tested here. Goldens, the other verbs, batches that are recorded and replayed, the memory that is asked for, what a
machine without a fitting GPU is told, the code that CUDA's tools find in the file, and the C library that it needs.

    cuda.py    without ptxas and fatbinary (tools/setup) only the refusal is tested, and that is said; without cuobjdump
               the file's own fat binary is read
"""
import json
import os
import re
import shutil
import struct
import subprocess
import sys

from golden import run_logits
from support import (BUILD, CASES, CUDA, INGOTC, LLVM_BIN, Failure, case_model, compiled, driven, folder, hashes, ids, ok,
                     refused, run, run_checks, scratch, write_json)

ARCHITECTURES = "--cuda-arch=sm_80,sm_90"
OLDEST_GLIBC = (2, 35)  # docs/gpu.md
GOLDENS = ("qwen2", "qwen3", "llama-gqa-tied", "llama-f16", "llama-bf16", "mistral-window", "llama3-rope",
           "tinylm-interleaved", "gguf-q8_0", "llama-untied-1000")
WHEELS = "/usr/local/lib/ingot-cuda/bin"


def find(tool):
    places = [os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin"), os.environ.get("PATH", ""),
              "/usr/local/cuda/bin", WHEELS]
    return shutil.which(tool, path=os.pathsep.join(places))


def plain():
    """The executable of the case qwen3 itself, without the script around it."""
    script = compiled("qwen3", CUDA, ARCHITECTURES)
    return script.removesuffix(".driven")


def check_goldens():
    for name in GOLDENS:
        with open(os.path.join(CASES, name, "golden.json"), encoding="utf-8") as f:
            golden = json.load(f)
        golden = dict(golden, ingotc_args=[*golden["ingotc_args"], CUDA])
        golden.pop("stored_dtype_distance", None)
        try:
            print(f"passed {name}: {run_logits(os.path.join(CASES, name), golden)}")
        except Failure as e:
            raise Failure(f"{name}: {e}") from e


def check_one_result():
    """The bits of the emulator's own executable, whatever the batch and the chunks."""
    exe, emulator = compiled("qwen3", CUDA, ARCHITECTURES), compiled("qwen3", "--target=cuda-emulated")
    first, second = [7 * i % 190 + 1 for i in range(75)], [11 * i % 190 + 1 for i in range(20)]
    alone = hashes(emulator, first)
    for what, got in (("batch", hashes(exe, second, first)[len(second):]), ("alone", hashes(exe, first)),
                      ("one by one", hashes(exe, first, args=("--chunk", 1))),
                      ("threads", hashes(exe, first, args=("--threads", 3)))):
        if got != alone:
            raise Failure(f"bits differ from the emulator's: {what}")


def report(exe, *argv, **options):
    """What the double says that an executable did, which must leave nothing behind."""
    path = scratch("report.json")
    ok(exe, *argv, env=dict(os.environ, INGOT_DOUBLE_REPORT=path), **options)
    with open(path, encoding="utf-8") as f:
        told = json.load(f)
    if told["leaked"] or told["open"]:
        raise Failure(f"left behind by {argv}: {told}")
    return told


def check_recording():
    exe, cpu = compiled("qwen3", CUDA, ARCHITECTURES), compiled("qwen3")
    told = report(exe, "generate", "--tokens", "1,5,9,3", "--greedy", "--ignore-eos", "-n", 12)
    # Eleven decode steps, one recording: of a batch of one.
    if told["graphs"] != 1 or told["replays"] != 11:
        raise Failure(f"expected one recorded step and 11 replays, got {told}")
    # Sequences that end one after the other: a recording for each size of batch; texts as the CPU's.
    requests = "".join(json.dumps({"id": str(i), "tokens": [3 + i, 7, 11], "max-new-tokens": 4 + 3 * i, "greedy": True,
                                   "ignore-eos": True}) + "\n" for i in range(3)).encode()
    results = []
    for program in (cpu, exe):
        lines = [json.loads(l) for l in ok(program, "generate", "--jsonl", stdin=requests).text.splitlines()]
        results.append({l["id"]: l["tokens"] for l in lines if "tokens" in l})
    if not results[0] or results[0] != results[1]:
        raise Failure(f"--jsonl: the CPU's tokens {results[0]}, with the driver {results[1]}")
    told = report(exe, "generate", "--jsonl", stdin=requests)
    if told["graphs"] != 3:
        raise Failure(f"expected a recording for each of three sizes of batch, got {told}")


def ask(exe, requests):
    """The tokens of each request, of which each is asked for when the one before is answered."""
    with subprocess.Popen([exe, "generate", "--jsonl"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
        answers = []
        for request in requests:
            p.stdin.write(json.dumps(request) + "\n")
            p.stdin.flush()
            answers.append(json.loads(p.stdout.readline()).get("tokens"))
        p.stdin.close()
    return answers


def check_outputs():
    """Batches of the same size that want ids, then logits, then ids: each has its own recording."""
    common = {"tokens": [3, 7, 11], "max-new-tokens": 6, "ignore-eos": True}
    requests = [dict(common, id="a", greedy=True), dict(common, id="b", temperature=0.9, seed=5),
                dict(common, id="c", greedy=True, tokens=[5, 6])]
    cpu, driver = (ask(compiled("qwen3", *a), requests) for a in ((), (CUDA, ARCHITECTURES)))
    if None in cpu or cpu != driver:
        raise Failure(f"one request after the other: the CPU's tokens {cpu}, with the driver {driver}")


def check_sampling():
    """Tokens are chosen on the device as the host chooses them from the same logits, by a recorded step: with a penalty, which
    changes with every token, and without."""
    exe = compiled("qwen3", CUDA, ARCHITECTURES)
    common = ("generate", "--tokens", "1,5,9,3", "--temperature", "0.8", "--top-k", "40", "--top-p", "0.9", "--min-p", "0.02", "--seed", 7,
              "--ignore-eos", "-n", 12, "--json")
    for more in ((), ("--repetition-penalty", "1.3")):
        told = report(exe, *common, *more)
        if told["graphs"] != 1 or told["replays"] != 11:
            raise Failure(f"{more}: expected one recorded step and 11 replays, got {told}")
        device, host = (ok(exe, *common, *more, *other).json["tokens"] for other in ((), ("--logprobs", "1")))
        if device != host or len(device) != 12:
            raise Failure(f"{more}: the device chooses {device}, the host {host}")


def check_verbs():
    exe = compiled("qwen3", CUDA, ARCHITECTURES)
    ok(exe, "selftest")
    ok(exe, "loss", "--tokens", "1,2,3,4")
    ok(exe, "bench", "--prompt", 8, "--gen", 4, "--repetitions", 1, "--per-op", "--json")
    # A trace reads the device's memory after each op.
    names = []
    for target in (("--no-fuse", "--target=cuda-emulated"), ("--no-fuse", CUDA)):
        trace = scratch("trace" + target[1])
        ok(compiled("qwen3", *target), "logits", "--tokens", "1,2,3", "--trace", trace, "--threads", 2)
        names.append(trace)
    for name in sorted(os.listdir(names[0])):
        with open(os.path.join(names[0], name), "rb") as f, open(os.path.join(names[1], name), "rb") as g:
            if f.read() != g.read():
                raise Failure(f"the trace of {name} is not the emulator's")
    # The damage of one byte of the weights is found in what was copied to the device.
    bad = scratch("damaged")
    shutil.copy(plain(), bad)
    with open(bad, "r+b") as f:
        f.seek(-5000, os.SEEK_END)
        byte = f.read(1)
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte[0] ^ 1]))
    shutil.copy(plain() + ".kernels.so", bad + ".kernels.so")
    if run(driven(bad, "", ()), "selftest").code != 1:
        raise Failure("selftest passes damaged weights")


def check_random_weights():
    """Weights made at start are made by the device, the same as the CPU's, and cost the host nothing."""
    config = os.path.join(case_model("qwen3"), "config.json")
    cpu, exe = (compiled(config, "--weights=random:7", *a) for a in ((), (CUDA,)))
    ok(exe, "selftest")
    embedded = compiled("qwen3", CUDA, ARCHITECTURES)
    memory, other = (ok(e, "info", "--memory", "--json", "--ctx", 128).json for e in (exe, embedded))
    told = report(exe, "generate", "--tokens", "1,2", "-n", 3, "--greedy", "--ctx", 128)
    if told["peak"] != memory["device_peak"] or memory["peak_anonymous"] != memory["staging"]:
        raise Failure(f"info --memory promises {memory}, {told['peak']} bytes of the device were allocated")
    copied = report(embedded, "generate", "--tokens", "1,2", "-n", 3, "--greedy", "--ctx", 128)["copied"]
    if copied - told["copied"] != other["mapped_weights"] or other["staging"] <= memory["staging"]:
        raise Failure(f"expected {other['mapped_weights']} bytes of weights to be copied where they are embedded and none where they "
                      f"are random, got {copied} and {told['copied']} bytes in all")
    tokens = [ok(e, "generate", "--tokens", "1,5,9", "--greedy", "-n", 8, "--json").json["tokens"] for e in (cpu, exe)]
    if tokens[0] != tokens[1]:
        raise Failure(f"random weights: the CPU's tokens {tokens[0]}, with the driver {tokens[1]}")


def check_large_weights():
    """More weights than the buffers hold through which they travel: each is filled again. The case's model with a larger
    vocabulary, whose rows are those of the case's over and over."""
    source, there = case_model("qwen3"), scratch("large")
    vocab, more = 192, 160000
    with open(os.path.join(source, "config.json"), encoding="utf-8") as f:
        config = dict(json.load(f), vocab_size=more)
    write_json(os.path.join(there, "config.json"), config)
    with open(os.path.join(source, "model.safetensors"), "rb") as f:
        length = struct.unpack("<Q", f.read(8))[0]
        header, data, parts, end = json.loads(f.read(length)), f.read(), [], 0
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        part = data[slice(*tensor["data_offsets"])]
        if tensor["shape"][0] == vocab:
            tensor["shape"][0] = more
            part = (part * (more // vocab + 1))[:len(part) // vocab * more]
        parts.append(part)
        tensor["data_offsets"] = [end, end + len(part)]
        end += len(part)
    text = json.dumps(header).encode()
    with open(os.path.join(there, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(parts))
    exe = compiled(there, CUDA, "--selftest=none")
    if ok(exe, "info", "--json").json["weights_bytes"] <= 64 << 20:
        raise Failure("expected more weights than four buffers of 16 MiB hold")
    ok(exe, "selftest")


def check_memory():
    """What info says is what is asked for; a device with less is refused with both numbers."""
    exe = compiled("qwen3", CUDA, ARCHITECTURES)
    promised = ok(exe, "info", "--memory", "--json", "--ctx", 128).json["device_peak"]
    told = report(exe, "generate", "--tokens", "1,2", "-n", 3, "--greedy", "--ctx", 128)
    if told["peak"] != promised:
        raise Failure(f"info --memory promises {promised} bytes of the device, {told['peak']} were allocated")
    refused(driven(plain(), "", (), memory=promised - 1), "generate", "--tokens", "1,2", "--ctx", 128, codes=(1,),
            words=("memory of the GPU", "are left"))
    less = driven(plain(), "", (), memory=promised)
    ok(less, "generate", "--tokens", "1,2", "-n", 3, "--greedy", "--ctx", 128)


def check_refusals():
    exe, arguments = plain(), ("logits", "--tokens", "1,2,3")
    missing = refused(exe, *arguments, codes=(1,), words=("no NVIDIA driver", "CUDA 13.0"), env={})
    if missing.err.count("\n") != 1:
        raise Failure(f"expected one line, got {missing.err!r}")
    ok(exe, "info", env={})
    for settings, words in (({"driver": 12040}, ("too old", "13.0", "12.4")), ({"devices": 0}, ("no NVIDIA GPU",)),
                            ({"arch": 75}, ("sm_75", "sm_80,sm_90", "--cuda-arch"))):
        refused(driven(exe, "", (), **settings), *arguments, codes=(1,), words=words)
    for arch in (80, 89):  # machine code of the same major version
        ok(driven(exe, "", (), arch=arch), *arguments)
    refused(driven(exe, "", ()), *arguments, "--device", 1, codes=(1,), words=("--device", "0 to 0", "got 1"))
    ok(driven(exe, "", (), devices=2), *arguments, "--device", 1)
    refused(compiled("qwen3"), *arguments, "--device", 0, codes=(2,), words=("--device", "CPUs"))


def check_file():
    """The fat binary, as CUDA's tools find it, and what the executable needs of the system."""
    exe = plain()
    sections = ok(os.path.join(LLVM_BIN, "llvm-readelf"), "-SWd", "-V", exe).text
    offset, size = re.search(r"\.nv_fatbin\s+PROGBITS\s+\S+\s+(\S+)\s+(\S+)", sections).groups()
    with open(exe, "rb") as f:
        f.seek(int(offset, 16))
        data = f.read(int(size, 16))
    kinds, at = set(), 16
    while at < 16 + struct.unpack_from("<Q", data, 8)[0]:
        header, length, arch = struct.unpack_from("<I", data, at + 4)[0], struct.unpack_from("<Q", data, at + 8)[0], \
            struct.unpack_from("<I", data, at + 28)[0]
        kinds.add((struct.unpack_from("<H", data, at)[0], arch))
        at += header + length
    if kinds != {(2, 80), (2, 90), (1, 90)}:
        raise Failure(f"expected machine code of sm_80 and sm_90 and PTX of sm_90 in .nv_fatbin, got {kinds}")
    cuobjdump = find("cuobjdump")
    if cuobjdump:
        listed = ok(cuobjdump, "--list-elf", exe).text
        if "sm_80.cubin" not in listed or "sm_90.cubin" not in listed:
            raise Failure(f"cuobjdump lists {listed!r}")
    else:
        print("no cuobjdump (tools/setup installs it): the fat binary was read without it")
    needed = set(re.findall(r"NEEDED\)?\s+Shared library: \[(.*?)\]", sections))
    if not needed or needed - {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}:
        raise Failure(f"expected to need the C library only, got {sorted(needed)}")
    versions = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([\d.]+)", sections)}
    if max(versions) > OLDEST_GLIBC:
        raise Failure(f"needs glibc {max(versions)}, documented is {OLDEST_GLIBC}")


def check_without_tools():
    """Without a toolkit of CUDA 13 ingotc says what is missing before it does anything, and leaves nothing behind."""
    home = scratch("toolkit")
    arguments = (INGOTC, case_model("qwen3"), CUDA, "-o", scratch("x"))
    os.makedirs(os.path.join(home, "bin"))
    before = set(os.listdir(folder()))
    told = ("ptxas and fatbinary", "CUDA 13", home, "nvidia-cuda-nvcc")
    refused(*arguments, codes=(1,), words=told, env={"CUDA_HOME": home})
    for name, text in (("ptxas", "echo 'Cuda compilation tools, release 12.4, V12.4.131'"), ("fatbinary", "exit 1")):
        path = os.path.join(home, "bin", name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"#!/bin/sh\n{text}\n")
        os.chmod(path, 0o755)
    refused(*arguments, codes=(1,), words=(*told, "12.4"), env={"CUDA_HOME": home})
    if set(os.listdir(folder())) != before:
        raise Failure("a refusal left a file behind")


def check_sizes():
    """Steps are as large as a grid can be."""
    for size in (65536, 2147483647):
        refused(INGOTC, case_model("qwen3"), CUDA, f"--max-step-tokens={size}", "-o", scratch("x"), codes=(2,),
                words=("--max-step-tokens", "65535", str(size)))
    ok(INGOTC, case_model("qwen3"), CUDA, "--max-step-tokens=65535", "--emit=ptx", "-o", scratch("largest.ptx"))


def check_stages():
    """The stages behind PTX."""
    model = case_model("qwen3")
    for stage, words in (("llvm", "@ingot_kernel_rms_norm("), ("llvm-ir", "@ingot_kernel_rms_norm = "), ("asm", "ingot_step_cuda:")):
        if words not in ok(INGOTC, model, CUDA, f"--emit={stage}").text:
            raise Failure(f"--emit={stage} has no {words}")
    if find("nvdisasm"):
        sass = ok(INGOTC, model, CUDA, ARCHITECTURES, "--emit=sass").text
        if not all(w in sass for w in ("// sm_80\n", "// sm_90\n", ".text.rms_norm", "FFMA")):
            raise Failure("--emit=sass shows no machine code of both architectures")
    else:
        refused(INGOTC, model, CUDA, "--emit=sass", codes=(1,), words=("nvdisasm", "nvidia-cuda-nvdisasm"))


def main():
    checks = [check_without_tools, check_sizes]
    if find("ptxas") and find("fatbinary"):
        checks += [check_file, check_refusals, check_stages, check_memory, check_recording, check_outputs, check_sampling, check_verbs, check_random_weights, check_large_weights,
                   check_one_result, check_goldens]
    else:
        print("no ptxas and fatbinary of CUDA 13 (tools/setup installs them): no executable was made")
    return run_checks(checks)


if __name__ == "__main__":
    sys.exit(main())
