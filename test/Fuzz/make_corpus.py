#!/usr/bin/env python3
"""Makes the seeds of the fuzz targets, corpus/<format>/: make_corpus.py  (Python's standard library only)

One small well-formed file for each thing a format can hold, so that mutation starts from deep inside the readers.
"""
import json
import os
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
GGML = {"F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20), "Q5_0": (6, 32, 22),
        "Q5_1": (7, 32, 24), "Q8_0": (8, 32, 34), "Q2_K": (10, 256, 84), "Q3_K": (11, 256, 110), "Q4_K": (12, 256, 144),
        "Q5_K": (13, 256, 176), "Q6_K": (14, 256, 210), "BF16": (30, 1, 2)}


def save(kind, name, data):
    os.makedirs(f"{HERE}/corpus/{kind}", exist_ok=True)
    with open(f"{HERE}/corpus/{kind}/{name}", "wb") as f:
        f.write(data)


def safetensors(header, data):
    text = header if isinstance(header, str) else json.dumps(header, separators=(",", ":"))
    text = text.encode() + b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def string(text):
    return struct.pack("<Q", len(text)) + text.encode()


def value(kind, payload):
    return struct.pack("<I", kind) + payload


def u32(x):
    return value(4, struct.pack("<I", x))


def f32(x):
    return value(6, struct.pack("<f", x))


def text(x):
    return value(8, string(x))


def array(kind, items):
    return value(9, struct.pack("<IQ", kind, len(items)) + b"".join(items))


def ramp(_name, _kind, size):
    return bytes(i % 251 for i in range(size))


def gguf(keys, tensors, version=3, alignment=32, fill=ramp):
    """tensors: name -> (type, dimensions innermost first); fill(name, type, bytes) makes a tensor's bytes."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys))
    for key, v in keys.items():
        head += string(key) + v
    data = b""
    for name, (kind, dimensions) in tensors.items():
        number, elements, size = GGML[kind]
        count = 1
        for d in dimensions:
            count *= d
        data += b"\0" * (-len(data) % alignment)
        head += string(name) + struct.pack("<I", len(dimensions)) + struct.pack(f"<{len(dimensions)}Q", *dimensions)
        head += struct.pack("<IQ", number, len(data))
        data += fill(name, kind, count // elements * size)
    return head + b"\0" * (-len(head) % alignment) + data


def model(arch, **more):
    keys = {"general.architecture": text(arch), f"{arch}.embedding_length": u32(8), f"{arch}.feed_forward_length": u32(8),
            f"{arch}.block_count": u32(1), f"{arch}.attention.head_count": u32(2),
            f"{arch}.attention.head_count_kv": array(4, [struct.pack("<I", 1)]),
            f"{arch}.attention.layer_norm_rms_epsilon": f32(1e-5), f"{arch}.context_length": u32(64)}
    return {**keys, **{k.replace("ARCH", arch).replace("__", "."): v for k, v in more.items()}}


def main():
    save("json", "config", json.dumps({"model_type": "llama", "hidden_size": 64, "rope_scaling": None, "eps": 1e-5, "tie": True,
                                       "eos": [1, 2], "rope": {"type": "yarn", "factor": 2.5}}).encode())
    save("json", "escapes", b'{"\\u00e9\\ud83d\\ude00":"\\n\\t\\"\\\\/","\xc3\xa9":[-0,1E+2,0.5e-3,18446744073709551615]}')
    save("json", "nested", b"[" * 20 + b"{}" + b"]" * 20)
    save("json", "scalars", b'[null,true,false,"",0,-1,1e308,[],{}]')

    save("safetensors", "empty", safetensors({}, b""))
    save("safetensors", "metadata", safetensors({"__metadata__": {"format": "pt"}, "w": entry("F32", [2, 2], 0, 16)}, bytes(16)))
    every = [("F64", 8), ("F32", 4), ("F16", 2), ("BF16", 2), ("F8_E4M3", 1), ("F8_E5M2", 1), ("I64", 8), ("I32", 4), ("I16", 2),
             ("I8", 1), ("U64", 8), ("U32", 4), ("U16", 2), ("U8", 1), ("BOOL", 1)]
    header, at = {}, 0
    for name, size in every:
        header[name] = entry(name, [2], at, at + 2 * size)
        at += 2 * size
    save("safetensors", "types", safetensors(header, bytes(range(at))))
    save("safetensors", "scalar-and-nothing", safetensors({"s": entry("F32", [], 0, 4), "e": entry("F32", [0, 3], 4, 4)}, bytes(4)))

    attention = {"token_embd.weight": ("F32", [8, 3]), "blk.0.attn_q.weight": ("F16", [8, 8]), "blk.0.attn_q.bias": ("F32", [8]),
                 "blk.0.attn_k.weight": ("BF16", [8, 4])}
    save("gguf", "llama", gguf(model("llama"), attention))
    save("gguf", "qwen3", gguf(model("qwen3", general__alignment=u32(8)), {**attention, "output.weight": ("F32", [8, 3])}, 2, 8))
    save("gguf", "rope", gguf(model("llama", ARCH__rope__scaling__type=text("longrope"),
                                    ARCH__rope__scaling__original_context_length=u32(16)),
                              {**attention, "rope_factors_long.weight": ("F32", [2]), "rope_factors_short.weight": ("F32", [2]),
                               "rope_freqs.weight": ("F32", [2])}))
    save("gguf", "tokenizer", gguf(model("llama", tokenizer__ggml__tokens=array(8, [string("a"), string("b")]),
                                         tokenizer__ggml__scores=array(6, [struct.pack("<f", 0.5)] * 2),
                                         tokenizer__ggml__merges=array(8, [string("a b")]),
                                         tokenizer__ggml__eos_token_id=u32(1), tokenizer__chat_template=text("x")), attention))
    blocks = {f"t.{name}": (name, [256]) for name in GGML if GGML[name][1] > 1}
    save("gguf", "quantized", gguf(model("llama"), {"token_embd.weight": ("F32", [8, 1]), **blocks}))
    kinds = {f"k{k}": value(k, bytes(n)) for k, n in enumerate([1, 1, 2, 2, 4, 4, 4, 1]) if n}
    kinds |= {"k10": value(10, bytes(8)), "k11": value(11, bytes(8)), "k12": value(12, bytes(8))}
    save("gguf", "metadata", gguf({**model("llama"), **kinds}, attention))

    # A byte that seeds the cuts, then text: whole, broken at each length, the ends of the ranges.
    save("utf8", "whole", b"\0" + "aé日🙂\U0010ffff\ud7ff\ue000".encode())
    save("utf8", "broken", b"\1a\xf0\x9f\x99 \xe2\x82 \xc3 \x80\xff\xed\xa0\x80\xf4\x90\x80\x80\xc0\xaf\xe0\x9f\xbf\xf0\x8f\xbf\xbf\xe2")
    # Number of stop strings, each with its length before it, a byte that seeds the cuts, text.
    save("stop", "overlap", b"\2\3aab\2ba\7aaabaabaaab")
    save("stop", "inside", b"\3\4abcd\2bc\1x\1zabzabcabcd")
    save("stop", "characters", b"\1" + bytes([len("é🙂".encode())]) + "é🙂".encode() + b"\3" + "aéé🙃é🙂b".encode())


if __name__ == "__main__":
    main()
