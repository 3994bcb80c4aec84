#!/usr/bin/env python3
"""Writes a model that computes the same, whose units stand in another order: hidden, intermediate and value units.

    reorder_units.py MODEL -o OUT [--seed N]

MODEL is a Hugging Face directory of one safetensors file; architectures: llama, mistral, qwen2, qwen3. A sum's terms come in
another order, nothing else changes. Blocks of 32 along a row are then blocks of other weights: weights that once were a
quantized file's lie on no grid that a quantizer could find again, and what quantizing takes from a model can be measured on
them (tools/quality). Python's standard library suffices.
"""
import argparse
import json
import math
import os
import random
import re
import shutil
import struct
import sys
from array import array
from operator import itemgetter

TYPES = {"F32": "I", "BF16": "H", "F16": "H"}  # as unsigned integers: bits are moved, not read


class Tensor:
    def __init__(self, name, entry, data):
        self.name, self.shape = name, entry["shape"]
        if entry["dtype"] not in TYPES:
            raise SystemExit(f"error: tensor {name}: dtype expected of {', '.join(TYPES)}, got {entry['dtype']}")
        begin, end = entry["data_offsets"]
        self.elements = array(TYPES[entry["dtype"]])
        self.elements.frombytes(data[begin:end])

        if len(self.elements) != math.prod(self.shape):
            raise SystemExit(f"error: tensor {name}: expected {math.prod(self.shape)} elements, got {len(self.elements)}")

    def reorder(self, axis, order):
        """Element i along the axis becomes what was element order[i]."""
        if self.shape[axis] != len(order):
            raise SystemExit(f"error: tensor {self.name}: expected {len(order)} along axis {axis}, got {self.shape[axis]}")
        if len(self.shape) == 1:
            self.elements = array(self.elements.typecode, itemgetter(*order)(self.elements))
            return
        rows, columns = self.shape
        row = lambda i: self.elements[i * columns:(i + 1) * columns]  # noqa: E731
        pick, moved = itemgetter(*order), array(self.elements.typecode)
        for i in order if axis == 0 else range(rows):
            moved.extend(row(i) if axis == 0 else pick(row(i)))
        self.elements = moved


class Orders:
    """The orders of a model's units, and the axes of its tensors along which they lie."""

    def __init__(self, config, seed):
        self.random = random.Random(seed)
        self.config, self.of_layer = config, {}
        self.hidden = self.shuffled(config["hidden_size"])

    def shuffled(self, count):
        order = list(range(count))
        self.random.shuffle(order)
        return order

    def layer(self, number):
        """(intermediate units, value units by key/value head, value units by query head)"""
        if number not in self.of_layer:
            heads, inner = self.config["num_attention_heads"], self.shuffled(self.config["intermediate_size"])
            size = self.config.get("head_dim") or self.config["hidden_size"] // heads
            shared = self.config.get("num_key_value_heads") or heads
            values = [self.shuffled(size) for _ in range(shared)]
            flat = lambda orders: [head * size + i for head, order in enumerate(orders) for i in order]  # noqa: E731
            by_query_head = [values[head * shared // heads] for head in range(heads)]
            self.of_layer[number] = inner, flat(values), flat(by_query_head)
        return self.of_layer[number]

    def apply(self, tensor):
        module = tensor.name.split(".")[-2]
        found = re.match(r"model\.layers\.(\d+)\.", tensor.name)
        inner, values, of_queries = self.layer(int(found[1])) if found else (None, None, None)
        axes = {"embed_tokens": (None, self.hidden), "lm_head": (None, self.hidden), "norm": (self.hidden,),
                "input_layernorm": (self.hidden,), "post_attention_layernorm": (self.hidden,), "q_norm": (None,), "k_norm": (None,),
                "q_proj": (None, self.hidden), "k_proj": (None, self.hidden), "v_proj": (values, self.hidden),
                "o_proj": (self.hidden, of_queries), "gate_proj": (inner, self.hidden), "up_proj": (inner, self.hidden),
                "down_proj": (self.hidden, inner)}
        if module not in axes:
            raise SystemExit(f"error: tensor {tensor.name}: not one of the architectures' that are known")
        for axis, order in enumerate(axes[module][:len(tensor.shape)]):
            if order:
                tensor.reorder(axis, order)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("-o", dest="out", metavar="OUT", required=True)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with open(os.path.join(options.model, "config.json"), encoding="utf-8") as f:
        orders = Orders(json.load(f), options.seed)
    with open(os.path.join(options.model, "model.safetensors"), "rb") as f:
        size, = struct.unpack("<Q", f.read(8))
        header, data = json.loads(f.read(size)), memoryview(f.read())
    os.makedirs(options.out)
    for name in os.listdir(options.model):
        if name != "model.safetensors" and os.path.isfile(os.path.join(options.model, name)):
            shutil.copy2(os.path.join(options.model, name), options.out)
    # Each tensor keeps its size, so its place and the header, too.
    with open(os.path.join(options.out, "model.safetensors"), "wb") as f:
        text = json.dumps(header).encode()
        f.write(struct.pack("<Q", len(text)) + text)
        for name, entry in header.items():
            if name != "__metadata__":
                tensor = Tensor(name, entry, data)
                orders.apply(tensor)
                f.seek(8 + len(text) + entry["data_offsets"][0])
                tensor.elements.tofile(f)
    return 0


if __name__ == "__main__":
    sys.exit(main())
