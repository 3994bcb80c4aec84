#!/usr/bin/env python3
"""Records what the reference computes for rope configurations (needs torch and transformers): writes rope_fixtures.json.

Each case is a config.json; the values are the float32 frequencies that the model's rotary embedding holds, for a short
and, with longrope, for a long sequence, and the factor of cosine and sine. Floats are written as their bits.
"""
import json, os
import numpy as np
import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
BASE = {"model_type": "llama", "hidden_size": 128, "intermediate_size": 64, "num_hidden_layers": 1, "vocab_size": 32,
        "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 4096}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 1024}
SHORT, LONG = [1 + i / 64 for i in range(32)], [1 + i / 3 for i in range(32)]
CASES = {
    "default": {},
    "theta": {"rope_theta": 1000000.0},
    "head 128": {"hidden_size": 256, "rope_theta": 500000.0},
    "head 80": {"hidden_size": 160},
    "head 6": {"hidden_size": 12},
    "rope_parameters": {"rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}},
    "linear": {"rope_scaling": {"type": "linear", "factor": 2.5}},
    "linear, new": {"rope_parameters": {"rope_theta": 5000000.0, "rope_type": "linear", "factor": 4}},
    "llama3": {"rope_theta": 500000.0, "rope_scaling": LLAMA3},
    "llama3, factor 32": {"rope_theta": 500000.0, "rope_scaling": dict(LLAMA3, factor=32.0, high_freq_factor=8.0)},
    "yarn": {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}},
    "yarn, no original": {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
    "yarn, betas": {"rope_theta": 1000000.0, "rope_scaling": {
        "rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 512, "beta_fast": 16, "beta_slow": 2}},
    "yarn, no truncation": {"rope_scaling": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024, "truncate": False}},
    "yarn, mscale": {"rope_scaling": {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 1024,
                                      "mscale": 0.707, "mscale_all_dim": 1.2}},
    "yarn, mscale alone": {"rope_scaling": {
        "rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 1024, "mscale": 0.707}},
    "yarn, attention factor": {"rope_scaling": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024, "attention_factor": 1.25}},
    "yarn, factor 1": {"rope_scaling": {"rope_type": "yarn", "factor": 1.0, "original_max_position_embeddings": 4096}},
    "yarn, null factor": {"rope_scaling": {
        "rope_type": "yarn", "factor": None, "original_max_position_embeddings": 256}},
    "yarn, tiny base": {"rope_theta": 10.0, "rope_scaling": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8}},
    "longrope": {"rope_scaling": {"rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG,
                                  "original_max_position_embeddings": 1024}},
    "longrope, original outside": {"original_max_position_embeddings": 512, "rope_scaling": {
        "type": "longrope", "short_factor": SHORT, "long_factor": LONG}},
    "longrope, factor": {"rope_scaling": {"rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG,
                                          "factor": 32.0, "original_max_position_embeddings": 1024}},
    "longrope, attention factor": {"rope_scaling": {
        "rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG, "attention_factor": 1.19,
        "original_max_position_embeddings": 1024}},
    "longrope, not extended": {"rope_scaling": {"rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG}},
    "ernie4_5": {"model_type": "ernie4_5", "head_dim": 16},
    "qwen3": {"model_type": "qwen3", "rope_theta": 1000000},
}


def bits(t):
    return torch.as_tensor(t, dtype=torch.float32).numpy().view(np.uint32).tolist()


def main():
    rows = []
    for name, more in CASES.items():
        config = dict(BASE, **more)
        kind = dict(config)
        model_type = kind.pop("model_type")
        c = transformers.AutoConfig.for_model(model_type, **json.loads(json.dumps(kind)))
        model = transformers.AutoModelForCausalLM.from_config(c).float()
        rope = model.model.rotary_emb
        row = {"name": name, "config": config, "frequencies": bits(rope.original_inv_freq),
               "scaling": bits([float(rope.attention_scaling)])[0]}
        if c.rope_parameters["rope_type"] == "longrope":
            row["long_from"] = c.rope_parameters["original_max_position_embeddings"]
            rope(torch.zeros(1), torch.tensor([[row["long_from"]]]))
            row["long_frequencies"] = bits(rope.inv_freq)
        rows.append(row)
    with open(f"{HERE}/rope_fixtures.json", "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")
    print(f"{len(rows)} cases, torch {torch.__version__}, transformers {transformers.__version__}")


if __name__ == "__main__":
    main()
