#!/usr/bin/env python3
"""What Hugging Face transformers says the loss of ids is, for the verbs `loss` and `perplexity`.

    make_perplexity.py                      writes perplexity.json from models of cases/
    make_perplexity.py --model DIR --exe FILE --text FILE --ctx N --stride N
                                            compares an executable with its model on a text, by hand

Needs torch, transformers and numpy; the test perplexity.py needs none of them. The reference computes float32 logits with
eager attention; their log-softmax is taken in float64. A text longer than the context is scored in windows as in
transformers' documentation ("Perplexity of fixed-length models"), except that each loss is added, not a window's mean
times one token too few. `noise` is the relative distance of the loss from the same model in float64.
"""
import argparse
import json
import os
import subprocess

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("USE_HUB_KERNELS", "0")  # transformers 5.25 else replaces layers by kernels from the hub, or asks for its package

import numpy as np
import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
IGNORED = -100


def load(path, dtype):
    return transformers.AutoModelForCausalLM.from_pretrained(path, dtype=dtype, attn_implementation="eager", use_kernels=False).eval()


def losses(model, tokens, labels):
    """-log p(label) for each label but the first and ignored ones, float64."""
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0].double()
    log = torch.log_softmax(logits, -1)
    return [-log[i - 1, label].item() for i, label in enumerate(labels) if i and label != IGNORED]


def windows(model, tokens, ctx, stride):
    """The losses of all tokens but the first, by the sliding window."""
    all_losses, previous = [], 1
    for begin in range(0, len(tokens), stride):
        end = min(begin + ctx, len(tokens))
        labels = [IGNORED] * (previous - begin) + tokens[previous:end]
        all_losses += losses(model, tokens[begin:end], labels)
        previous = end
        if end == len(tokens):
            break
    assert len(all_losses) == len(tokens) - 1
    return all_losses


def main():
    parser = argparse.ArgumentParser()
    for name in ("model", "exe", "text"):
        parser.add_argument("--" + name)
    parser.add_argument("--ctx", type=int)
    parser.add_argument("--stride", type=int)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.model:
        with open(args.text, encoding="utf-8") as f:
            tokens = transformers.AutoTokenizer.from_pretrained(args.model)(f.read())["input_ids"]
        want = float(np.mean(windows(load(args.model, torch.float32), tokens, args.ctx, args.stride)))
        got = json.loads(subprocess.run([args.exe, "perplexity", "-f", args.text, "--ctx", str(args.ctx), "--stride",
                                         str(args.stride), "--json"], check=True, stdout=subprocess.PIPE).stdout)
        assert got["count"] == len(tokens) - 1, (got, len(tokens))
        print(f"{len(tokens)} tokens, {got['windows']} windows: reference loss {want:.9g}, got {got['loss']:.9g}, "
              f"relative difference {abs(got['loss'] - want) / want:.2e}; perplexity {np.exp(want):.6g}")
        return
    golden = {"reference": f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}, float32, eager attention, CPU",
              "loss": [], "perplexity": []}
    for case in ("llama-gqa-tied", "qwen3", "mistral-window"):
        path = os.path.join(HERE, "cases", case, "model")
        single, double = load(path, torch.float32), load(path, torch.float64)
        random = np.random.default_rng(len(case))
        tokens = [int(t) for t in random.integers(3, single.config.vocab_size, 150)]
        for ctx, stride in ((200, 100), (64, 32), (64, 63), (20, 7), (2, 1)):
            loss, exact = (float(np.mean(windows(m, tokens, ctx, stride))) for m in (single, double))
            golden["perplexity"].append({"case": case, "tokens": tokens, "ctx": ctx, "stride": stride, "loss": loss,
                                         "perplexity": float(np.exp(loss)), "noise": abs(loss - exact) / exact})
        sequences = [tokens[:40], tokens[40:47], tokens[50:52]]
        labels = [[t if i % 3 else IGNORED for i, t in enumerate(sequences[0])], sequences[1], sequences[2]]
        each = [losses(single, s, l) for s, l in zip(sequences, labels)]
        golden["loss"].append({"case": case, "tokens": sequences, "labels": labels,
                               "loss": float(np.mean([x for one in each for x in one])),
                               "count": sum(map(len, each)), "sequences": [float(np.mean(one)) for one in each]})
    with open(os.path.join(HERE, "perplexity.json"), "w", encoding="utf-8") as f:
        json.dump(golden, f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
