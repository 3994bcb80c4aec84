#!/usr/bin/env python3
"""Makes the fixtures of the GGUF tests with gguf-py, the format's own Python package: make_fixtures.py [DIRECTORY]

Needs `pip install gguf` (0.17 or later, which brings numpy). The tests need only the files:

  quants.gguf, quants.f32   a tensor of each type the reader supports, of random bits, and the float32 values that gguf-py
                            computes from them, tensor after tensor
  llama.gguf, qwen2.gguf    one layer each, written by gguf.GGUFWriter; element (r, c) of a matrix is r + c / 64 in
                            Hugging Face's order, element i of a vector i / 4. llama's q and k are permuted as
                            llama.cpp's convert_hf_to_gguf.py does, biases included
  split-0000N-of-00003.gguf llama.gguf's model in three files
"""
import os
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T

# Where a block's float16 scales are: their exponents are kept small, since infinities and NaNs are no weights.
SCALES = {T.Q4_0: (0,), T.Q4_1: (0, 2), T.Q5_0: (0,), T.Q5_1: (0, 2), T.Q8_0: (0,), T.Q2_K: (80, 82), T.Q3_K: (108,),
          T.Q4_K: (0, 2), T.Q5_K: (0, 2), T.Q6_K: (208,)}
HIDDEN, HEADS, KV_HEADS, HEAD_DIM, MIDDLE, VOCAB = 16, 4, 2, 8, 24, 10


def quants(home):
    rng = np.random.Generator(np.random.PCG64(2024))
    writer = gguf.GGUFWriter(f"{home}/quants.gguf", "llama")
    expected = []
    for kind, scales in SCALES.items():
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = rng.integers(0, 256, (1024 // elements, size), np.uint8)
        for at in scales:
            blocks[:, at + 1] &= 0xbf  # exponent below 16: from subnormal to just under 2
        data = blocks.reshape(2, -1)
        writer.add_tensor(kind.name, data, raw_dtype=kind)
        expected.append(gguf.quants.dequantize(data, kind))
    bits = rng.integers(0, 1 << 16, 512).astype(np.uint16)
    half = bits.copy()
    half[(half & 0x7c00) == 0x7c00] &= 0xbfff
    writer.add_tensor("F16", half.view(np.float16).reshape(2, -1))
    expected.append(half.view(np.float16).astype(np.float32))
    brain = bits.copy()
    brain[(brain & 0x7f80) == 0x7f80] &= 0xbfff
    writer.add_tensor("BF16", brain.view(np.uint8).reshape(2, -1), raw_dtype=T.BF16)
    expected.append((brain.astype(np.uint32) << 16).view(np.float32))
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        step()
    with open(f"{home}/quants.f32", "wb") as f:
        for values in expected:
            f.write(np.ascontiguousarray(values, "<f4").tobytes())


def permute(weights, heads):
    """LlamaModel.permute of convert_hf_to_gguf.py."""
    return weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)


def model(path, arch, bias, permuted, split=0):
    matrix = lambda n, k: (np.arange(n)[:, None] + np.arange(k)[None, :] / 64).astype(np.float32)
    vector = lambda n: (np.arange(n) / 4).astype(np.float32)
    w = gguf.GGUFWriter(path, arch, split_max_tensors=split)
    w.add_name("Fixture")
    w.add_license("apache-2.0")
    w.add_context_length(64)
    w.add_embedding_length(HIDDEN)
    w.add_block_count(1)
    w.add_feed_forward_length(MIDDLE)
    w.add_head_count(HEADS)
    w.add_head_count_kv(KV_HEADS)
    w.add_layer_norm_rms_eps(2.0 ** -20)
    w.add_rope_freq_base(50000.0)
    w.add_key_length(HEAD_DIM)
    w.add_value_length(HEAD_DIM)
    w.add_rope_dimension_count(HEAD_DIM)
    w.add_vocab_size(VOCAB)
    w.add_file_type(0)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("smollm")
    w.add_token_list([f"t{i}" for i in range(VOCAB)])
    w.add_token_types([3, 3] + [1] * (VOCAB - 2))
    w.add_token_merges(["t 0", "t 1"])
    w.add_bos_token_id(0)
    w.add_eos_token_id(1)
    w.add_add_bos_token(True)
    w.add_chat_template("{{ messages }}")
    tensors = {"token_embd.weight": matrix(VOCAB, HIDDEN), "output_norm.weight": vector(HIDDEN)}
    b = "blk.0."
    shapes = {"attn_q": (HEADS * HEAD_DIM, HIDDEN), "attn_k": (KV_HEADS * HEAD_DIM, HIDDEN),
              "attn_v": (KV_HEADS * HEAD_DIM, HIDDEN), "attn_output": (HIDDEN, HEADS * HEAD_DIM),
              "ffn_gate": (MIDDLE, HIDDEN), "ffn_up": (MIDDLE, HIDDEN), "ffn_down": (HIDDEN, MIDDLE)}
    for name, (n, k) in shapes.items():
        heads = {"attn_q": HEADS, "attn_k": KV_HEADS}.get(name, 0) if permuted else 0
        kinds = [("weight", matrix(n, k))] + ([("bias", vector(n))] if bias and name in ("attn_q", "attn_k", "attn_v") else [])
        for kind, value in kinds:
            value = permute(value, heads) if heads else value
            # float16 holds r + c / 64 exactly for these sizes.
            tensors[f"{b}{name}.{kind}"] = value.astype(np.float16) if kind == "weight" else value
    tensors[b + "attn_norm.weight"] = vector(HIDDEN)
    tensors[b + "ffn_norm.weight"] = vector(HIDDEN)
    for name, value in tensors.items():
        w.add_tensor(name, value)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main():
    home = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures")
    os.makedirs(home, exist_ok=True)
    quants(home)
    model(f"{home}/llama.gguf", "llama", bias=True, permuted=True)
    model(f"{home}/qwen2.gguf", "qwen2", bias=True, permuted=False)
    model(f"{home}/split.gguf", "llama", bias=True, permuted=True, split=5)
    for name in sorted(os.listdir(home)):
        print(f"{name:28s} {os.path.getsize(os.path.join(home, name)):7d} bytes")


if __name__ == "__main__":
    main()
