#!/usr/bin/env python3
"""Writes the golden of a model that is too large to be kept: its config.json with random weights, as a case that
compiles with --weights=random:SEED. Needs torch, transformers and numpy; nobody needs them to run the case.

    make_golden.py --config DIR --seed N --name NAME --about TEXT [--new-tokens N] [--out cases]

tools/random_weights.py writes the weights that the seed stands for, in a temporary folder. The reference runs in float32
with eager attention; `noise` is its largest distance from the same model with every step, norms, softmax and angles of
RoPE included, in float64, and `tolerance` follows from it as README.md says. Of each kept row 256 logits are stored: the
largest 32 and others evenly spread over the vocabulary. Mutations, the reference with one thing got wrong, must move the
logits by far more than the tolerance, or the golden would prove nothing.
"""
import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("USE_HUB_KERNELS", "0")  # transformers 5.25 else replaces layers by kernels from the hub, or asks for its package

import numpy as np
import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
RANDOM_WEIGHTS = os.path.join(HERE, "..", "..", "tools", "random_weights.py")
STORED = 256


@contextlib.contextmanager
def float64_everywhere():
    """Within it the float32 that the reference asks for by name is float64."""
    kept = torch.float32, torch.float, torch.Tensor.float
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = kept
        torch.set_default_dtype(torch.float32)


def in_float64(model):
    """A copy of the model in float64, made anew so that the frequencies of RoPE are too; call it within the above."""
    finer = transformers.AutoModelForCausalLM.from_config(model.config, dtype=torch.float64, attn_implementation="eager")
    finer.load_state_dict(model.state_dict())
    return finer.double().eval()


def load(directory, dtype, **changes):
    config = transformers.AutoConfig.from_pretrained(directory)
    for key, value in changes.items():
        if key == "rope_theta" and getattr(config, "rope_parameters", None):
            config.rope_parameters = dict(config.rope_parameters, rope_theta=value)
        setattr(config, key, value)
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        directory, config=config, dtype=dtype, attn_implementation="eager", output_loading_info=True)
    bad = {k: v for k, v in info.items() if v}
    if bad:
        sys.exit(f"error: {directory}: the reference does not load it whole: {bad}")
    return model.eval()


def logits_of(model, tokens):
    with torch.no_grad():
        return model(torch.tensor([tokens]), use_cache=False).logits[0].double().numpy()


def greedy_of(model, tokens, count):
    ids = torch.tensor([tokens])
    with torch.no_grad():
        out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=count, output_logits=True,
                             return_dict_in_generate=True, pad_token_id=0)
    best = [torch.topk(step[0].double(), 2).values for step in out.logits]
    return out.sequences[0, len(tokens):].tolist(), [round(float(b[0] - b[1]), 6) for b in best]


def sparse_rows(logits, rows):
    vocab = logits.shape[1]
    for row in rows:
        largest = set(np.argsort(-logits[row])[:32].tolist())
        spread = [i for i in np.linspace(0, vocab - 1, STORED, dtype=np.int64).tolist() if i not in largest]
        ids = sorted(largest | set(spread[:STORED - len(largest)]) | {0, vocab - 1})
        yield {"row": row, "ids": ids, "values": [float(np.float32(logits[row][i])) for i in ids]}


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    ap.add_argument("--config", required=True, help="a directory with config.json")
    ap.add_argument("--seed", type=int, required=True)
    ap.add_argument("--name", required=True)
    ap.add_argument("--about", required=True)
    ap.add_argument("--new-tokens", type=int, default=8)
    ap.add_argument("--lengths", type=int, nargs="+", default=[1, 9, 70])
    ap.add_argument("--out", default=os.path.join(HERE, "cases"))
    ap.add_argument("--weights", help="a directory that tools/random_weights.py has already written")
    o = ap.parse_args()
    with tempfile.TemporaryDirectory() as work:
        directory = o.weights or os.path.join(work, "model")
        if not o.weights:
            subprocess.run([sys.executable, RANDOM_WEIGHTS, o.config, "-o", directory, "--seed", str(o.seed)], check=True)
        model = load(directory, torch.float32)
        vocab = model.config.vocab_size
        numbers = np.random.Generator(np.random.PCG64(o.seed))
        prompts = [numbers.integers(0, vocab, n).tolist() for n in o.lengths]
        exact = [logits_of(model, p) for p in prompts]
        greedy = [greedy_of(model, p, o.new_tokens) for p in prompts]
        ends = model.generation_config.eos_token_id
        with float64_everywhere():
            finer_model = in_float64(model)
            finer = [logits_of(finer_model, p) for p in prompts]
        del model, finer_model
        moved = {}
        for name, change in (("theta", {"rope_theta": 10000.0}), ("eps", {"rms_norm_eps": 1e-2})):
            model = load(directory, torch.float32, **change)
            moved[name] = float(f"{np.abs(logits_of(model, prompts[-1]) - exact[-1]).max():.4g}")
            del model
    entries = []
    for tokens, logits, fine, (new, margins) in zip(prompts, exact, finer, greedy):
        noise, largest = float(np.abs(logits - fine).max()), float(np.abs(logits).max())
        tolerance = max(1e-5 * max(1.0, largest), 4 * noise)
        if min(moved.values()) < 50 * tolerance:
            sys.exit(f"error: {o.name}: the mutations {moved} do not stand out from the tolerance {tolerance}")
        rows = sorted({0, len(tokens) // 2, len(tokens) - 1})
        entries.append({"tokens": tokens, "sparse": list(sparse_rows(logits, rows)), "max_abs": float(f"{largest:.6g}"),
                        "noise": float(f"{noise:.3g}"), "tolerance": float(f"{tolerance:.3g}"), "greedy": new, "margins": margins})
    case = os.path.join(o.out, o.name)
    os.makedirs(os.path.join(case, "model"), exist_ok=True)
    shutil.copy(os.path.join(o.config, "config.json"), os.path.join(case, "model", "config.json"))
    golden = {"format": 1, "kind": "logits", "name": o.name, "about": o.about,
              "reference": f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}, float32, eager attention, CPU",
              "model": "model", "ingotc_args": ["--dtype=f32", f"--weights=random:{o.seed}"], "vocab_size": vocab, "new_tokens": o.new_tokens,
              "end_tokens": ends if isinstance(ends, list) else [] if ends is None else [ends], "cache_consistent": True,
              "mutations": moved, "prompts": entries}
    with open(os.path.join(case, "golden.json"), "w", encoding="utf-8") as f:
        json.dump(golden, f, separators=(",", ":"))
        f.write("\n")
    print(f"{case}: tolerances {[e['tolerance'] for e in entries]}, mutations {moved}, greedy margins {[min(e['margins']) for e in entries]}")


if __name__ == "__main__":
    main()
