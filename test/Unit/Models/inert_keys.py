#!/usr/bin/env python3
"""Checks the list of inert keys of config.json against the reference (needs torch and transformers; run by hand).

Reads the rows {"key", "values at which it is inert", reason} of models/*.cpp, sets each key in a small model of each
architecture it belongs to, and compares logits in bits with those of the model without the key.
"""
import glob, json, os, re, sys
import torch
import transformers

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
ROW = re.compile(r'\{"([^"]+)",\s*"([^"]*)",\s*(?:"|generationReason)')
CLASS = re.compile(r'Architecture \w+ = \{\s*"(\w+)"')
BASE = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 37, "max_position_embeddings": 64}
# Values that the reference's own checks of types let through.
VALUES = {"problem_type": ["regression"], "id2label": [{"0": "a", "1": "b", "2": "c"}], "label2id": [{"a": 0}],
          "num_labels": [5], "chunk_size_feed_forward": [7], "transformers_version": ["1.2.3"],
          "initializer_range": [0.5], "attention_dropout": [0.5], "use_cache": [False], "is_decoder": [True, False],
          "output_hidden_states": [True], "return_dict": [False], "output_attentions": [True],
          "tokenizer_class": ["X"], "auto_map": [{"AutoModel": "x.Y"}], "attn_implementation": ["eager", "sdpa"]}
ANY = [1, True, "text", None]


def rows():
    """Yields (architecture or None, key, values)."""
    for path in sorted(glob.glob(f"{ROOT}/models/*.cpp")):
        text = open(path).read()
        owner = CLASS.search(text)
        for key, at in ROW.findall(text):
            if owner and key == owner.group(1):
                continue
            values = [json.loads(v) for v in at.split("|")] if at else VALUES.get(key, ANY)
            yield owner.group(1) if owner else None, key, values


def logits(model_type, more):
    # attention_dropout acts in training mode only; the seed makes the same weights whatever the configuration says.
    config = transformers.AutoConfig.for_model(model_type, **dict(BASE, **more))
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval().float()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) * 0.2)
        out = model(torch.arange(20)[None] % 37)
    return out[0] if isinstance(out, tuple) else out.logits


def main():
    types = ["llama", "mistral", "qwen2", "qwen3", "ernie4_5"]
    base = {t: logits(t, {}) for t in types}
    checked, wrong = 0, 0
    for owner, key, values in rows():
        for t in [owner] if owner else types:
            for value in values:
                if owner is None and key in BASE:
                    sys.exit(f"{key} is a size")
                try:
                    got = logits(t, {key: value})
                except Exception as e:  # the reference refuses the value: it cannot change results either
                    print(f"refused by the reference: {t} {key}={value!r}: {str(e).splitlines()[0][:100]}")
                    continue
                checked += 1
                if not torch.equal(got, base[t]):
                    wrong += 1
                    print(f"NOT INERT: {t} {key}={value!r} moves logits by {float((got - base[t]).abs().max())}")
    print(f"{checked} settings checked, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
