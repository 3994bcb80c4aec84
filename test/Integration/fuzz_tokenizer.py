#!/usr/bin/env python3
"""Compares Ingot's tokenizer with the `tokenizers` library on generated strings; run by hand, needs

    python3 -m pip install tokenizers==0.23.3
    ninja -C build/release tokenizer-driver

    fuzz_tokenizer.py [--count N] [--seed S] [--driver PROGRAM] DIRECTORY...     DIRECTORY has a tokenizer.json
    fuzz_tokenizer.py --variants [...] DIRECTORY...     the same with other pre-tokenizers, flags, holes in the vocabulary
    fuzz_tokenizer.py --synthetic N [...]               N tokenizers with random parts, see synthetic_tokenizer.py
    fuzz_tokenizer.py --code-points                     every code point through every normalizer and pre-tokenizer
    fuzz_tokenizer.py --gguf FILE.gguf DIRECTORY      the GGUF's tokenizer against that of the directory
    fuzz_tokenizer.py --speed [--text FILE] DIRECTORY...  processor time of 10 MB of text, and of a megabyte of hard ones

Each string is encoded with and without special tokens and decoded both ways, whole and as a stream; so are random ids.
Prints each difference and exits 1, or prints the numbers compared.
"""
import argparse
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["RUST_BACKTRACE"] = "0"
from tokenizers import Tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
POOLS = ["abcdefghij ABCXYZ", "     \n\t\r", "0123456789", ".,;:!?'\"()[]{}<>/\\|@#$%^&*-_=+~`", "éüñßøåçÅ", "日本中文字한국어かな", "абвгд",
         "مرحبا", "हिन्दी", "🙂👍🏽👨‍👩❤️🇫🇷", "\u0301\u0308\u0323\u0345\u05b0\u093c\u094d\u0327\u200d\ufe0f", "\u200b\u00a0\u3000\u1680\u2028\u2029\u202f\u205f\ufeff\u0085\x1c",
         "\u0000\u0001\u001f\u007f\u0085", "ſKﬁİıßẞ's'S'ſ'T'lL'Ve", "ㅎㅏㄴ한글\u1112\u1161\u11ab\u1100\u1161\uac00\u11a8", "²³¼½Ⅻ٣४𝟘㉈",
         "Å\u212b\u2126\u0958\u0344\u1f71\u2adc\ufb1d\u0374", "\U00011938\U000105c9\U000113c5\U0001e08f\u0898\U00011de3"]
WORDS = ["the", " the", "Hello", " world", "'s", "'LL", " don't", "\n\n", "  ", "123", " 45", "▁", "<0x0A>", "return", "  return x\n", "é",
         "e\u0301", "日本", "🙂", "...", "!", "\r\n", " \n ", "'ſ", "don'ſ", "Ġ", "ĠĠ", "Ċ", "éé", "q\u0323\u0307", "q\u0307\u0323"]


def code_point(r):
    while True:
        c = r.choice([r.randint(0, 0x7f), r.randint(0, 0x7ff), r.randint(0, 0xffff), r.randint(0, 0x1ffff), r.randint(0, 0x10ffff)])
        if not 0xd800 <= c <= 0xdfff:
            return chr(c)


def text(r, words, tokens, i):
    kind = i % 6
    if kind == 0:  # characters from a few pools
        pools = r.sample(POOLS, r.choice([1, 2, 2, 3]))
        return "".join(r.choice(r.choice(pools)) for _ in range(r.randint(1, 40)))
    if kind == 1:  # words and added tokens
        return "".join(r.choice(words) for _ in range(r.randint(1, 10)))
    if kind == 2:  # any code point
        return "".join(code_point(r) for _ in range(r.randint(1, 12)))
    if kind == 3:  # tokens of the vocabulary, whole and cut
        return "".join(t[:r.randint(1, len(t))] if r.random() < 0.2 else t for t in r.choices(tokens, k=r.randint(1, 12)) if t)
    if kind == 4:  # runs, longer than what is merged without a heap
        return "".join(r.choice(words + [r.choice(POOLS)[0]]) * r.choice([1, 2, 7, 30, 80]) for _ in range(r.randint(1, 3)))
    parts = [r.choice(words) if r.random() < 0.5 else code_point(r) for _ in range(r.randint(1, 8))]
    return " ".join(parts) if r.random() < 0.5 else "".join(parts)


def panics(function, *args, **keys):
    """What the library answers, or None where it panics: on white space that one token stripped and another is in, on a
    decoder Strip of a short token, on alignments it cannot follow."""
    try:
        return function(*args, **keys)
    except BaseException as e:
        if type(e).__name__ != "PanicException":
            raise
        return None


class Driver:
    def __init__(self, program, model, stderr=None):
        self.process = subprocess.Popen([program, model], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def ask(self, kind, flag, data):
        self.process.stdin.write(struct.pack("<3I", kind, flag, len(data)) + data)
        self.process.stdin.flush()
        head = self.process.stdout.read(4)
        if len(head) != 4:
            raise SystemExit("the driver ended")
        return self.process.stdout.read(struct.unpack("<I", head)[0])

    def encode(self, string, special):
        data = self.ask(0, int(special), string.encode("utf-8"))
        return list(struct.unpack(f"<{len(data) // 4}i", data))

    def decode(self, ids, skip):
        data = struct.pack(f"<{len(ids)}i", *ids)
        return [self.ask(kind, int(skip), data).decode("utf-8") for kind in (1, 2)]


def compare(directory, model, o):
    reference = Tokenizer.from_file(os.path.join(directory, "tokenizer.json"))
    reference.no_truncation()
    reference.no_padding()
    driver, r = Driver(o.driver, model), random.Random(o.seed)
    added = [t.content for t in reference.get_added_tokens_decoder().values()]
    words = WORDS + added * max(1, len(WORDS) // (2 * len(added))) + [" " + a for a in added[:8]] + [a + " " for a in added[:8]] if added else WORDS
    size = max(reference.get_vocab().values()) + 1
    tokens = [panics(reference.decode, [i], skip_special_tokens=False) or "" for i in range(size)]
    different, strings, lists, failed = 0, 0, 0, 0
    for i in range(o.count):
        string = text(r, words, tokens, i)
        checks = []
        encoding = panics(reference.encode, string)
        if encoding is None:
            driver.encode(string, True)
            failed += 1
            continue
        ids = encoding.ids
        checks.append(("ids", ids, driver.encode(string, True)))
        checks.append(("ids without special tokens", reference.encode(string, add_special_tokens=False).ids, driver.encode(string, False)))
        if i % 4 == 0:
            ids = [r.randrange(size + 3) if r.random() < 0.8 else r.randrange(min(size, 300)) for _ in range(r.randint(1, 9))]
            lists += 1
        for skip in (False, True):
            expected = panics(reference.decode, ids, skip_special_tokens=skip)
            whole, stream = driver.decode(ids, skip)
            if expected is None:
                failed += 1
                expected = whole
            checks += [(f"text, skip={skip}", expected, whole), (f"stream, skip={skip}", expected, stream)]
        strings += 1
        for what, expected, actual in checks:
            if expected != actual:
                different += 1
                if different <= 20:
                    print(f"{directory}: {what} of {string!r} / {ids}:\n  expected {expected!r}\n  got      {actual!r}", flush=True)
    driver.close()
    print(f"{directory}: {strings} strings, {lists} lists of random ids, {different} differences"
          + (f"; the library itself failed on {failed} more" if failed else ""), flush=True)
    return different


O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
PUNCTUATION = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
               r"|\s*[\r\n]+|\s+(?!\S)|\s+")
PATTERNS = [O200K, PUNCTUATION, r"\p{N}{1,3}", r"[0-9][0-9][0-9]", r"\w+|[^\w\s]+", r"a*", r"a*?b|a", r"(?=\d)", r"\s+(?=\S)|x{2,3}", r"[^\S\n]+|\n",
            r"(?:ab|a)(?:bc|c)?", r"\p{^L}+?(?!\p{L})", r"[一-龥぀-ゟ゠-ヿ]+", r"(?i:[a-f]k|d)", r"\x41|\u00e9|\x{1f642}", r"[\p{P}\$\+<=>\^~\|]+", r"\W", r".", r"\s+$", r"a$|b"]


def variants(directory):
    """(name, tokenizer.json) with one thing changed."""
    with open(os.path.join(directory, "tokenizer.json"), encoding="utf-8") as f:
        base = f.read()

    def variant(name, change):
        data = json.loads(base)
        change(data)
        return name, data

    def pre(*steps):
        return lambda data: data.update(pre_tokenizer={"type": "Sequence", "pretokenizers": list(steps) + [byte_level(use_regex=False)]})

    def byte_level(**keys):
        return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True, **keys}

    def split(pattern, behavior, invert=False, kind="Regex"):
        return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}

    def flags(**keys):
        def change(data):
            for i, token in enumerate(data["added_tokens"]):
                token.update({k: v if v in (True, False) else i % v == 0 for k, v in keys.items()})
        return change

    def more(data):
        for content in ("  ", "e\u0301", "caf\u00e9", "WORDWORD", "<m", "日", "\n", "x "):
            data["added_tokens"].append({"id": 0, "content": content, "single_word": len(content) == 4, "lstrip": content < "b",
                                         "rstrip": content > "b", "normalized": content != "<m", "special": content == "日"})

    def holes(unknown, fuse):
        def change(data):
            vocab, merges = data["model"]["vocab"], []
            gone = {k for k in vocab if k in "abxĠéÃ©1" or "tio" in k}
            for merge in data["model"]["merges"]:
                left, right = merge.split(" ") if isinstance(merge, str) else merge
                if not {left, right, left + right} & gone:
                    merges.append([left, right])
            kept = [k for k in sorted(vocab, key=vocab.get) if k not in gone]
            data["model"].update(vocab={k: i for i, k in enumerate(kept)}, merges=merges, fuse_unk=fuse, unk_token="e" if unknown else None)
        return change

    yield variant("prefix space", lambda d: d.update(pre_tokenizer=byte_level(add_prefix_space=True)))
    yield variant("prefix space, no pattern", lambda d: d.update(pre_tokenizer=byte_level(add_prefix_space=True, use_regex=False)))
    yield variant("digits together", pre({"type": "Digits", "individual_digits": False}, split(" ", "MergedWithNext", kind="String")))
    for i, pattern in enumerate(PATTERNS):
        yield variant(f"pattern {pattern}", pre(split(pattern, "Isolated")))
        behavior = ["Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"][i % 4]
        yield variant(f"{behavior} {pattern}", pre(split(pattern, behavior, i % 8 > 3)))
    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for invert in (False, True):
            yield variant(f"{behavior}, invert={invert}", pre(split("[ea ]", behavior, invert)))
            yield variant(f"{behavior} text, invert={invert}", pre(split(".l", behavior, invert, "String"), {"type": "Digits", "individual_digits": True}))
    yield variant("single words", flags(single_word=True, lstrip=3, rstrip=2))
    yield variant("normalized added tokens, NFC", lambda d: (flags(normalized=True, lstrip=2)(d), more(d), d.update(normalizer={"type": "NFC"})))
    yield variant("more added tokens", more)
    yield variant("ignore merges", lambda d: d["model"].update(ignore_merges=True))
    for unknown in (False, True):
        for fuse in (False, True):
            yield variant(f"holes, unknown={unknown}, fused={fuse}", holes(unknown, fuse))


def compare_variants(directory, o):
    different = 0
    for name, data in variants(directory):
        with tempfile.TemporaryDirectory() as home:
            with open(os.path.join(home, "tokenizer.json"), "w", encoding="utf-8") as f:
                json.dump(data, f)
            print(name, end=": ")
            different += compare(home, home, o)
    return different


def compare_synthetic(o):
    """Returns the number of differences. Of what the reader refuses, the messages are counted."""
    import synthetic_tokenizer
    different, made, refused = 0, 0, {}
    for seed in range(o.seed, o.seed + o.synthetic):
        data = synthetic_tokenizer.make(seed)
        if data is None:
            continue
        made += 1
        with tempfile.TemporaryDirectory() as home:
            with open(os.path.join(home, "tokenizer.json"), "w", encoding="utf-8") as f:
                json.dump(data, f)
            run = subprocess.run([o.driver, home], stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if run.returncode != 0:
                message = run.stderr.strip().split(": ", 2)[-1]
                refused[message] = refused.get(message, 0) + 1
                continue
            parts = {k: summary(data[k]) for k in ("normalizer", "pre_tokenizer", "decoder")}
            print(f"{seed} {data['model']['type']}", end=" ")
            found = compare(home, home, o)
            if found:
                print(f"  {seed}: {parts}", {k: v for k, v in data["model"].items() if k not in ("vocab", "merges")}, flush=True)
            different += found
    print(f"{made} tokenizers, {different} differences; refused: {refused}")
    return different


def summary(part):
    if part is None:
        return None
    inner = part.get("normalizers") or part.get("pretokenizers") or part.get("decoders")
    return [summary(p) for p in inner] if inner else {k: v for k, v in part.items()}


def code_points(o):
    """Every code point, alone between letters and before and after a mark, through each part; the model shows the bytes
    that come to it and, by a suffix, where pieces end."""
    vocab = {f"<0x{b:02X}>": b for b in range(256)}
    base = {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None,
            "model": {"type": "BPE", "vocab": vocab, "merges": [], "byte_fallback": True, "end_of_word_suffix": "|"}}
    norms = [{"type": t} for t in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel")]
    norms += [{"type": "Strip", "strip_left": True, "strip_right": True},
              {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": True, "lowercase": True}]
    pres = [{"type": t} for t in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer")]
    pres += [{"type": "Punctuation", "behavior": "Isolated"}, {"type": "Digits", "individual_digits": True}]
    pres += [{"type": "Split", "pattern": {"Regex": p}, "behavior": "Isolated", "invert": False} for p in (r"\w", r"\s", r"\p{L}", r"\p{P}")]
    all_points = [chr(c) for c in range(0x110000) if not 0xd800 <= c <= 0xdfff]
    different = 0
    for part in norms + pres:
        data = {**base, ("normalizer" if part in norms else "pre_tokenizer"): part}
        with tempfile.TemporaryDirectory() as home:
            with open(os.path.join(home, "tokenizer.json"), "w", encoding="utf-8") as f:
                json.dump(data, f)
            reference, driver, bad = Tokenizer.from_file(os.path.join(home, "tokenizer.json")), Driver(o.driver, home), 0
            step = 1 if part["type"] == "Strip" else 64
            for i in range(0, len(all_points), step):
                chunk = all_points[i:i + step]
                for string in ("".join(f"a{c}a" for c in chunk), "".join(f"e{c}\u0301{c}" for c in chunk)) if step > 1 else (chunk[0] + "a" + chunk[0],):
                    expected = panics(reference.encode, string)
                    if expected is not None and expected.ids != driver.encode(string, False):
                        bad += 1
                        if bad <= 5:
                            print(f"{part}: code points from {ord(chunk[0]):x} differ")
            driver.close()
            print(f"{part}: {len(all_points)} code points, {bad} differences", flush=True)
            different += bad
    return different


def speed(directory, model, o):
    reference = Tokenizer.from_file(os.path.join(directory, "tokenizer.json"))
    driver = Driver(o.driver, model)
    if o.text:
        with open(o.text, encoding="utf-8") as f:
            prose = f.read()
    else:
        r = random.Random(1)
        chunks = []
        for folder, _, files in os.walk(ROOT):
            if "build" not in folder and ".git" not in folder:
                for name in sorted(files):
                    if name.endswith((".cpp", ".h", ".md", ".py", ".td")):
                        with open(os.path.join(folder, name), encoding="utf-8") as f:
                            chunks.append(f.read())
        r.shuffle(chunks)
        prose = "".join(chunks)
    prose = (prose * (10_000_000 // len(prose.encode()) + 1)).encode()[:10_000_000].decode("utf-8", "ignore")
    hard = {"letters": "a" * 1_000_000, "spaces": " " * 1_000_000, "emoji": "🙂" * 250_000, "marks": "\u0301\u0323" * 250_000}
    best = 0
    for name, string in [("text", prose)] + list(hard.items()):
        data = string.encode("utf-8")
        ours = min(struct.unpack("<Q", driver.ask(3, 0, data))[0] for _ in range(3)) / 1e9
        line = f"{directory}: {name}: {len(data) / ours / 1e6:.1f} MB/s"
        if name == "text":
            lines = string.splitlines(keepends=True)
            documents = ["".join(lines[i:i + 200]) for i in range(0, len(lines), 200)]
            best = len(data) / ours
            times = []
            for _ in range(2):
                start = time.process_time()
                for document in documents:
                    reference.encode(document, add_special_tokens=False)
                times.append(time.process_time() - start)
            line += f", the library {len(data) / min(times) / 1e6:.1f} MB/s, ratio {min(times) / ours:.1f}"
        else:
            line += f", {best / (len(data) / ours):.2f} times the time of text"
        print(line, flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("directories", nargs="*")
    ap.add_argument("--count", type=int, default=100_000)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--gguf")
    ap.add_argument("--synthetic", type=int, metavar="N")
    ap.add_argument("--code-points", action="store_true")
    ap.add_argument("--variants", action="store_true")
    ap.add_argument("--speed", action="store_true")
    ap.add_argument("--text")
    ap.add_argument("--driver", default=os.path.join(ROOT, "build", "release", "test", "tokenizer-driver"))
    o = ap.parse_args()
    different = 0
    if o.synthetic:
        different += compare_synthetic(o)
    if o.code_points:
        different += code_points(o)
    for directory in o.directories:
        if o.speed:
            speed(directory, o.gguf or directory, o)
        elif o.variants:
            different += compare_variants(directory, o)
        else:
            different += compare(directory, o.gguf or directory, o)
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
