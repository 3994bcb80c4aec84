#!/usr/bin/env python3
"""tools/random_weights.py against random.h: for small configurations of every architecture and type, each tensor is what
the C++ generator makes (random_weights_check compares in bits), with and without numpy, and the tensors are those that
the architecture has."""
import importlib.util
import json
import os
import struct
import subprocess
import sys
import tempfile

ROOT, BUILD = os.environ["INGOT_SOURCE_DIR"], os.environ["INGOT_BUILD_DIR"]
TOOL = os.path.join(ROOT, "tools/random_weights.py")
CHECK = os.path.join(BUILD, "test/unit/random_weights_check")
CASES = os.path.join(ROOT, "test/Integration/cases")
HAVE_NUMPY = importlib.util.find_spec("numpy") is not None


def run(argv, expect=0):
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != expect:
        sys.exit(f"error: {' '.join(argv)}: exit code {done.returncode}, expected {expect}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def header_of(path):
    with open(path, "rb") as f:
        size, = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(size))
    header.pop("__metadata__", None)
    return {name: tuple(entry["shape"]) for name, entry in header.items()}


def stored_tensors(model):
    """The names and shapes of a golden case's checkpoint, made by the reference."""
    tensors = {}
    for name in os.listdir(model):
        if name.endswith(".safetensors"):
            tensors |= header_of(os.path.join(model, name))
    return tensors


def check_config(config, home, dtype, seed, expected):
    outputs = []
    for pure in (True, False) if HAVE_NUMPY else (True,):
        out = os.path.join(home, f"{dtype}-{pure}.safetensors")
        run([sys.executable, "-B", TOOL, config, "-o", out, "--seed", str(seed), "--dtype", dtype] + (["--pure"] if pure else []))
        print(os.path.basename(os.path.dirname(os.path.dirname(config))), dtype, run([CHECK, out, str(seed)]).strip())
        with open(out, "rb") as f:
            outputs.append(f.read())
    if len(set(outputs)) != 1:
        sys.exit(f"error: {config} {dtype}: the files made with and without numpy differ")
    if header_of(out) != expected:
        sys.exit(f"error: {config}: tensors {sorted(set(header_of(out).items()) ^ set(expected.items()))} differ from the reference's")
    # The check must see a wrong byte and a wrong seed.
    run([CHECK, out, str(seed + 1)], expect=1)
    with open(out, "r+b") as f:
        f.seek(-1, os.SEEK_END)
        last = f.read(1)
        f.seek(-1, os.SEEK_END)
        f.write(bytes([last[0] ^ 1]))
    run([CHECK, out, str(seed)], expect=1)


def main():
    names = ["llama-gqa-tied", "llama-bias", "mistral-window", "qwen2", "qwen3", "tinylm-interleaved", "tinylm-gqa"]
    with tempfile.TemporaryDirectory() as home:
        for i, name in enumerate(names):
            model = os.path.join(CASES, name, "model")
            dtype = ["float32", "bfloat16", "float16"][i % 3]
            check_config(os.path.join(model, "config.json"), home, dtype, 7 + i, stored_tensors(model))
        # A directory gets the configuration beside the weights; the type is the configuration's.
        out = os.path.join(home, "model")
        run([sys.executable, "-B", TOOL, os.path.join(CASES, "llama-bf16/model"), "-o", out])
        with open(os.path.join(out, "config.json"), encoding="utf-8") as f:
            assert json.load(f)["torch_dtype"] == "bfloat16"
        with open(os.path.join(out, "model.safetensors"), "rb") as f:
            assert b'"dtype":"BF16"' in f.read(4096)
        bad = os.path.join(home, "config.json")
        for text, word in ((json.dumps({"model_type": "gpt7"}), "gpt7"), ("[]", "object"), ("{", "config.json")):
            with open(bad, "w", encoding="utf-8") as f:
                f.write(text)
            message = run([sys.executable, "-B", TOOL, bad, "-o", home], expect=1)
            assert "error: " in message and word in message, message
    print("passed", "with numpy" if HAVE_NUMPY else "without numpy")


if __name__ == "__main__":
    main()
