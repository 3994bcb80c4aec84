#!/usr/bin/env python3
"""Records the reference's logits for what the golden cases leave out (needs torch and transformers): reference_cases.json.

Options of every architecture on small models whose weights tools/random_weights.py makes, so that a case is a
config.json, a prompt and a few rows of logits: float32, eager attention. GoldenTest.cpp compares.
"""
import json, os, subprocess, sys, tempfile
os.environ.setdefault("USE_HUB_KERNELS", "0")  # the plain modules, not kernels from the hub
import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..", "..")
SEED = 5
BASE = {"hidden_size": 44, "intermediate_size": 60, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 37, "max_position_embeddings": 256, "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "float32"}
GONE = object()
SHORT, LONG = [1 + i / 16 for i in range(8)], [1 + i for i in range(8)]
LONGROPE = {"rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG, "original_max_position_embeddings": 24}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
CASES = [
    ("llama-linear", "llama", {"rope_scaling": {"type": "linear", "factor": 3.0}}),
    ("llama-yarn", "llama", {"rope_scaling": YARN}),
    ("llama-yarn-mscale", "llama", {"rope_scaling": dict(YARN, mscale=0.7, mscale_all_dim=1.3, beta_fast=8)}),
    ("llama-longrope", "llama", {"rope_scaling": LONGROPE}),
    ("llama-longrope-factor", "llama", {"rope_scaling": dict(LONGROPE, attention_factor=1.3)}),
    ("llama-attention-bias", "llama", {"attention_bias": True}),
    ("llama-mlp-bias", "llama", {"mlp_bias": True, "num_key_value_heads": 1}),
    ("llama-defaults", "llama", {"head_dim": GONE, "hidden_size": 48, "num_key_value_heads": GONE, "rope_theta": GONE,
                                 "rms_norm_eps": GONE, "tie_word_embeddings": GONE, "max_position_embeddings": GONE}),
    ("llama-null-head-dim", "llama", {"head_dim": None, "hidden_size": 56, "num_key_value_heads": None}),
    ("llama-tied", "llama", {"tie_word_embeddings": True}),
    ("mistral-window", "mistral", {"sliding_window": 5, "head_dim": 24}),
    ("mistral-no-window", "mistral", {"sliding_window": None}),
    ("mistral-yarn", "mistral", {"sliding_window": 7, "rope_scaling": YARN}),
    ("qwen2-max-window-layers", "qwen2", {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1}),
    ("qwen2-layer-types", "qwen2", {
        "use_sliding_window": True, "sliding_window": 4,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}),
    ("qwen2-window-off", "qwen2", {"use_sliding_window": False, "sliding_window": 6, "max_window_layers": 0}),
    ("qwen2-own-head-dim", "qwen2", {"head_dim": 24, "tie_word_embeddings": True}),
    ("qwen3-bias", "qwen3", {"attention_bias": True, "tie_word_embeddings": True}),
    ("qwen3-default-head-dim", "qwen3", {"head_dim": GONE, "num_attention_heads": 2, "num_key_value_heads": 1}),
    ("qwen3-window", "qwen3", {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 2}),
    ("qwen3-yarn", "qwen3", {"rope_scaling": YARN}),
    ("ernie4_5-bias", "ernie4_5", {"use_bias": True}),
    ("ernie4_5-defaults", "ernie4_5", {k: GONE for k in ("head_dim", "rope_theta", "rms_norm_eps", "tie_word_embeddings",
                                                         "max_position_embeddings")}),
    ("ernie4_5-linear", "ernie4_5", {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 20000.0},
                                     "rope_theta": GONE}),
]


def without_option(config):
    """The configuration without its rope scaling and windows, or None if it has neither."""
    plain = {k: v for k, v in config.items() if k not in ("rope_scaling", "rope_parameters", "layer_types")}
    windowed = config.get("sliding_window") and config.get("use_sliding_window", True)
    if windowed:
        plain.update({"sliding_window": None, "use_sliding_window": False})
    return plain if windowed or len(plain) < len(config) else None


def logits_of(home, config, tokens):
    with open(f"{home}/model/config.json", "w") as f:
        json.dump(config, f)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        f"{home}/model", dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        return [model(t).logits[0] for t in tokens]


def main():
    generator = torch.Generator().manual_seed(1)
    rows = []
    for name, model_type, more in CASES:
        config = {k: v for k, v in dict(BASE, model_type=model_type, **more).items() if v is not GONE}
        with tempfile.TemporaryDirectory() as home:
            with open(f"{home}/config.json", "w") as f:
                json.dump(config, f)
            subprocess.run([sys.executable, f"{ROOT}/tools/random_weights.py", home, "-o", f"{home}/model", "--seed",
                            str(SEED)], check=True, stdout=subprocess.DEVNULL)
            tokens = [torch.randint(config["vocab_size"], (1, length), generator=generator) for length in (3, 40)]
            logits = logits_of(home, config, tokens)
            moved = "-"
            if plain := without_option(config):
                # The prompt is long enough, and the weights are such, that the option matters.
                moved = float((logits_of(home, plain, tokens)[1] - logits[1]).abs().max())
                assert moved > 1e-3, (name, moved)
        prompts = []
        for t, values in zip(tokens, logits):
            length = t.shape[1]
            chosen = sorted({0, length // 2, length - 1})
            prompts.append({"tokens": t[0].tolist(), "rows": chosen,
                            "logits": [[float(f"{x:.9g}") for x in values[r].tolist()] for r in chosen]})
        rows.append({"name": name, "seed": SEED, "config": config, "prompts": prompts})
        print(f"{name:26s} largest {max(abs(x) for p in prompts for r in p['logits'] for x in r):.3f}"
              f"  without its option {moved}")
    with open(f"{HERE}/reference_cases.json", "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")
    print(f"{len(rows)} cases, torch {torch.__version__}, transformers {transformers.__version__}")


if __name__ == "__main__":
    main()
