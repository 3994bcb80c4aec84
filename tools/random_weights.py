#!/usr/bin/env python3
"""Writes the weights that `ingotc --weights=random:SEED` generates, as safetensors that any other program can read.

    random_weights.py CONFIG -o OUT [--seed N] [--dtype float32|bfloat16|float16]

CONFIG is a config.json or a directory with one. OUT that ends in .safetensors is a file; any other OUT is a directory,
which gets model.safetensors and a copy of config.json. The default seed is 0; the default type is the configuration's
dtype (or torch_dtype), else float32, and every type holds the same values. Architectures: llama, mistral, qwen2, qwen3,
ernie4_5, tinylm.

The values are those of runtime/include/ingot_rt/random.h, to the bit. Python's standard library suffices; with numpy,
which is used where it is installed (--pure does without), a billion weights take about a minute.
"""
import argparse
import json
import os
import shutil
import struct
import sys

MATRIX, NORM, BIAS = range(3)
SIZES = {"float32": 4, "bfloat16": 2, "float16": 2}
NAMES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}
CHUNK = 1 << 20  # elements that are made at a time


class Refused(Exception):
    """A configuration or an argument that cannot be used, with a message for people."""


# ---------------------------------------------------------------- the generator, as in random.h
def fnv1a(seed, name):
    h = 0xcbf29ce484222325 ^ seed
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001b3) & 0xffffffffffffffff
    return h


def philox(key, block):
    """Philox4x32-10 on the counter (low(block), high(block), 0, 0): 16 bytes."""
    c0, c1, c2, c3 = block & 0xffffffff, block >> 32, 0, 0
    k0, k1 = key & 0xffffffff, key >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & 0xffffffff, (p0 >> 32) ^ c3 ^ k1, p0 & 0xffffffff
        k0, k1 = (k0 + 0x9E3779B9) & 0xffffffff, (k1 + 0xBB67AE85) & 0xffffffff
    return struct.pack("<4I", c0, c1, c2, c3)


def shift_of(columns):
    return (max(columns, 1).bit_length() - 1) // 2


def exponent_of(kind, shift):
    return 12 if kind == BIAS else 8 + shift


def pure_bytes(kind, key, shift, first, count, dtype):
    """Elements [first, first + count) of a tensor as bytes of `dtype`; `first` is a multiple of 16."""
    stream = b"".join(philox(key, b) for b in range(first // 16, (first + count + 15) // 16))[:count]
    signed = struct.unpack(f"<{count}b", stream)
    if kind == NORM:
        values = [(128 + (b >> 3)) / 128 for b in signed]
    else:
        values = [(2 * b + 1) / (1 << exponent_of(kind, shift)) for b in signed]
    if dtype == "float16":
        return struct.pack(f"<{count}e", *values)
    data = struct.pack(f"<{count}f", *values)
    if dtype == "bfloat16":
        return bytes(b for i in range(2, len(data), 4) for b in data[i:i + 2])
    return data


def numpy_bytes(np, kind, key, shift, first, count, dtype):
    """The same as pure_bytes, by numpy."""
    blocks = np.arange(first // 16, (first + count + 15) // 16, dtype=np.uint64)
    low, half = np.uint64(0xffffffff), np.uint64(32)
    c0, c1, c2, c3 = blocks & low, blocks >> half, np.zeros_like(blocks), np.zeros_like(blocks)
    k0, k1 = key & 0xffffffff, key >> 32
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (p1 >> half) ^ c1 ^ np.uint64(k0), p1 & low, (p0 >> half) ^ c3 ^ np.uint64(k1), p0 & low
        k0, k1 = (k0 + 0x9E3779B9) & 0xffffffff, (k1 + 0xBB67AE85) & 0xffffffff
    words = np.stack([c0, c1, c2, c3], axis=1).astype("<u4")
    signed = words.view(np.int8).reshape(-1)[:count]
    if kind == NORM:
        values = (128 + (signed >> 3).astype(np.int32)).astype(np.float32) * np.float32(0.0078125)
    else:
        values = (2 * signed.astype(np.int32) + 1).astype(np.float32) / np.float32(1 << exponent_of(kind, shift))
    if dtype == "float16":
        return values.astype("<f2").tobytes()
    if dtype == "bfloat16":
        return (values.view(np.uint32) >> 16).astype("<u2").tobytes()
    return values.astype("<f4").tobytes()


# ---------------------------------------------------------------- which tensors a configuration has
def positive(config, key, default=None):
    value = config.get(key)
    if value is None:
        value = default
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise Refused(f"{key}: expected a positive integer, got {value!r}")
    return value


def flag(config, key, default):
    value = config.get(key)
    return default if value is None else bool(value)


def kind_of(name, shape):
    if name.endswith(".bias"):
        return BIAS
    return NORM if len(shape) == 1 else MATRIX


def decoder_tensors(names, hidden, intermediate, vocab, layers, heads, kv_heads, head_dim, biased=(), qk_norm=False, tied=False):
    """name -> shape, in the order of a checkpoint: embedding, layers, norm, lm_head."""
    tensors = {names["embedding"] + ".weight": (vocab, hidden)}
    matrices = {"q": (heads * head_dim, hidden), "k": (kv_heads * head_dim, hidden), "v": (kv_heads * head_dim, hidden),
                "o": (hidden, heads * head_dim), "gate": (intermediate, hidden), "up": (intermediate, hidden), "down": (hidden, intermediate)}
    for layer in range(layers):
        def add(part, shape, suffix=".weight"):
            tensors[names[part].replace("{layer}", str(layer)) + suffix] = shape
        add("input_norm", (hidden,))
        for part, shape in matrices.items():
            if part == "gate":
                if qk_norm:
                    add("q_norm", (head_dim,))
                    add("k_norm", (head_dim,))
                add("post_norm", (hidden,))
            add(part, shape)
            if part in biased:
                add(part, shape[:1], ".bias")
    tensors[names["norm"] + ".weight"] = (hidden,)
    if not tied:
        tensors[names["head"] + ".weight"] = (vocab, hidden)
    return tensors


LAYER = "model.layers.{layer}."
HUGGING_FACE = {"embedding": "model.embed_tokens", "norm": "model.norm", "head": "lm_head", "input_norm": LAYER + "input_layernorm",
                "post_norm": LAYER + "post_attention_layernorm", "q_norm": LAYER + "self_attn.q_norm", "k_norm": LAYER + "self_attn.k_norm",
                **{p: f"{LAYER}self_attn.{p}_proj" for p in "qkvo"}, **{p: f"{LAYER}mlp.{p}_proj" for p in ("gate", "up", "down")}}
TINYLM = {"embedding": "embed", "norm": "norm", "head": "lm_head", "input_norm": "blocks.{layer}.n1", "post_norm": "blocks.{layer}.n2",
          **{p: "blocks.{layer}.attn." + p for p in "qkvo"}, **{p: "blocks.{layer}.mlp." + p for p in ("gate", "up", "down")}}
# model_type -> the reference's defaults: key/value heads and head_dim (None: from the others), tied embeddings.
DEFAULTS = {"llama": (None, None, False), "mistral": (8, None, False), "qwen2": (32, None, False), "qwen3": (32, 128, False),
            "ernie4_5": (2, 128, True)}
ATTENTION, MLP = ("q", "k", "v", "o"), ("gate", "up", "down")


def biased_parts(config, model_type):
    if model_type == "qwen2":
        return ("q", "k", "v")
    if model_type == "ernie4_5":
        return ATTENTION + MLP if flag(config, "use_bias", False) else ()
    attention = ATTENTION if model_type != "mistral" and flag(config, "attention_bias", False) else ()
    return attention + (MLP if model_type == "llama" and flag(config, "mlp_bias", False) else ())


def expected_tensors(config):
    model_type = config.get("model_type")
    if model_type == "tinylm":
        hidden, heads = positive(config, "hidden"), positive(config, "heads")
        return decoder_tensors(TINYLM, hidden, positive(config, "intermediate"), positive(config, "vocab"), positive(config, "layers"),
                               heads, positive(config, "kv_heads"), hidden // heads, tied=True)
    if model_type not in DEFAULTS:
        raise Refused(f"model_type: expected one of {', '.join([*DEFAULTS, 'tinylm'])}, got {model_type!r}")
    kv_default, dim_default, tied_default = DEFAULTS[model_type]
    hidden, heads = positive(config, "hidden_size"), positive(config, "num_attention_heads")
    # A null means "as many as heads", "hidden / heads"; an absent key means the reference's default.
    kv_heads = positive(config, "num_key_value_heads", heads if "num_key_value_heads" in config else kv_default or heads)
    head_dim = positive(config, "head_dim", hidden // heads if "head_dim" in config else dim_default or hidden // heads)
    return decoder_tensors(HUGGING_FACE, hidden, positive(config, "intermediate_size"), positive(config, "vocab_size"),
                           positive(config, "num_hidden_layers"), heads, kv_heads, head_dim, biased_parts(config, model_type),
                           model_type == "qwen3", flag(config, "tie_word_embeddings", tied_default))


# ---------------------------------------------------------------- the file
def count_of(shape):
    count = 1
    for dimension in shape:
        count *= dimension
    return count


def write_safetensors(path, tensors, seed, dtype, np):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in tensors.items():
        end = at + count_of(shape) * SIZES[dtype]
        header[name] = {"dtype": NAMES[dtype], "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    temporary = f"{path}.part"
    with open(temporary, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name, shape in tensors.items():
            kind, key, shift, total = kind_of(name, shape), fnv1a(seed, name), shift_of(shape[-1]), count_of(shape)
            for first in range(0, total, CHUNK):
                count = min(CHUNK, total - first)
                make = pure_bytes if np is None else lambda *a: numpy_bytes(np, *a)
                f.write(make(kind, key, shift, first, count, dtype))
    os.replace(temporary, path)


def storage_type(config):
    name = config.get("dtype") or config.get("torch_dtype") or "float32"
    name = str(name).removeprefix("torch.")
    name = {"float": "float32", "half": "float16"}.get(name, name)
    if name not in SIZES:
        raise Refused(f"dtype: expected float32, bfloat16 or float16, got {name!r}")
    return name


def load_numpy(pure):
    if pure:
        return None
    try:
        import numpy
        return numpy
    except ImportError:
        return None


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("config")
    ap.add_argument("-o", dest="out", required=True)
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--dtype", choices=list(SIZES))
    ap.add_argument("--pure", action="store_true", help="without numpy")
    a = ap.parse_args()
    source = os.path.join(a.config, "config.json") if os.path.isdir(a.config) else a.config
    try:
        if not 0 <= a.seed < 1 << 64:
            raise Refused(f"--seed: expected 0 to 2^64 - 1, got {a.seed}")
        with open(source, encoding="utf-8") as f:
            config = json.load(f)
        if not isinstance(config, dict):
            raise Refused("expected an object")
        tensors, dtype = expected_tensors(config), a.dtype or storage_type(config)
        path = a.out
        if not path.endswith(".safetensors"):
            os.makedirs(a.out, exist_ok=True)
            copy = os.path.join(a.out, "config.json")
            if os.path.realpath(copy) != os.path.realpath(source):
                shutil.copyfile(source, copy)
            path = os.path.join(a.out, "model.safetensors")
        write_safetensors(path, tensors, a.seed, dtype, load_numpy(a.pure))
    except (Refused, OSError, ValueError) as e:
        sys.exit(f"error: {source}: {e}")


if __name__ == "__main__":
    main()
