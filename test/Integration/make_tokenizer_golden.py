#!/usr/bin/env python3
"""Makes the goldens of test/Unit/Text/synthetic: tokenizers with random parts and what the `tokenizers` library does with
generated strings; and test/Unit/Text/gguf-llama.json, a SentencePiece vocabulary as a GGUF has it. Needs

    python3 -m pip install tokenizers==0.23.3 transformers==5.24.0

    make_tokenizer_golden.py [OUTPUT]

Of the tokenizers that synthetic_tokenizer.py makes those are kept that have parts, or settings of parts, which none before
them has.
"""
import json
import os
import random
import sys

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import fuzz_tokenizer
import synthetic_tokenizer
from tokenizers import Tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))


def features(part, name, found):
    """All types, and all settings that are words or flags."""
    if isinstance(part, dict):
        kind = part.get("type", "")
        found.add((name, kind))
        for key, value in part.items():
            if isinstance(value, (bool, str)) and key not in ("content", "type", "trim_offsets", "Regex", "String", "prepend", "delimiter"):
                found.add((name, kind, key, value))
            elif key not in ("vocab", "merges", "special_tokens", "pair"):
                features(value, name if key in ("pattern", "pretokenizers", "normalizers", "decoders", "processors") else key, found)
    elif isinstance(part, list):
        for value in part:
            features(value, name, found)
    return found


def golden(data, seed):
    t, r = Tokenizer.from_str(json.dumps(data)), random.Random(seed)
    added = [a["content"] for a in data["added_tokens"]]
    words = fuzz_tokenizer.WORDS + added * 3 + [" " + a for a in added] + [a + " " for a in added]
    size = t.get_vocab_size()
    pieces = [fuzz_tokenizer.panics(t.decode, [i], skip_special_tokens=False) or "" for i in range(size)]
    items, lists = [], []
    for i in range(24):
        text = fuzz_tokenizer.text(r, words, pieces, i)[:120]
        encoding, plain = (fuzz_tokenizer.panics(t.encode, text, add_special_tokens=s) for s in (True, False))
        if encoding is not None and plain is not None:
            items.append({"text": text, "ids": encoding.ids, "ids_plain": plain.ids})
            lists.append(encoding.ids)
    lists += [[r.randrange(size + 2) for _ in range(r.randint(1, 9))] for _ in range(12)]
    decoded = []
    for ids in lists:
        texts = [fuzz_tokenizer.panics(t.decode, ids, skip_special_tokens=skip) for skip in (False, True)]
        if None not in texts:
            decoded.append({"ids": ids, "decoded": texts[0], "decoded_skip": texts[1]})
    return {"tokenizer": data, "items": items, "decode": decoded}


def sentencepiece():
    """The vocabulary of cases/tokenizer-sp-llama2 with scores by rank. The reference is what transformers makes of a GGUF:
    all merges whose result is a token, by score."""
    from transformers.convert_slow_tokenizer import generate_merges
    with open(os.path.join(HERE, "cases", "tokenizer-sp-llama2", "model", "tokenizer.json"), encoding="utf-8") as f:
        data = json.load(f)
    vocab = data["model"]["vocab"]
    tokens = sorted(vocab, key=vocab.get)
    special = {"<unk>": 2, "<s>": 3, "</s>": 3}
    types = [special.get(t, 6 if t.startswith("<0x") and len(t) == 6 else 1) for t in tokens]
    scores = [0.0 if k != 1 else -float(i) for i, k in enumerate(types)]
    data["model"]["merges"] = [list(m) for m in generate_merges(vocab, {t: s for t, s, k in zip(tokens, scores, types) if k == 1})]
    data["added_tokens"] = [a for a in data["added_tokens"] if a["content"] in special]
    t, r = Tokenizer.from_str(json.dumps(data)), random.Random(5)
    pieces = [t.decode([i], skip_special_tokens=False) for i in range(len(tokens))]
    items = []
    for i in range(240):
        text = fuzz_tokenizer.text(r, fuzz_tokenizer.WORDS + list(special), pieces, i)[:160]
        ids = t.encode(text).ids
        items.append({"text": text, "ids": ids, "decoded": t.decode(ids)})
    return {"tokens": tokens, "scores": scores, "types": types, "items": items}


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "..", "Unit", "Text", "synthetic")
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "..", "gguf-llama.json"), "w", encoding="utf-8") as f:
        json.dump(sentencepiece(), f, separators=(",", ":"))
    seen, kept = set(), 0
    for seed in range(1, 400):
        data = synthetic_tokenizer.make(seed, size=110)
        if data is None:
            continue
        new = features(data, "", set()) - seen
        if len(new) < (4 if kept < 12 else 1) or kept >= 36:
            continue
        made = golden(data, seed)
        if len(made["items"]) < 16 or len(made["decode"]) < 24:
            continue
        seen |= new
        kept += 1
        with open(os.path.join(out, f"{seed:03d}.json"), "w", encoding="utf-8") as f:
            json.dump(made, f, separators=(",", ":"))
    print(f"{kept} tokenizers with {len(seen)} different parts and settings")


if __name__ == "__main__":
    main()
