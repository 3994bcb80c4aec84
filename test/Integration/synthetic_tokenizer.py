"""Tokenizers with random parts, trained on a little text by the `tokenizers` library: for fuzz_tokenizer.py and for the
goldens of test/Unit/Text/synthetic. The same seed gives the same tokenizer.json."""
import json
import random

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

TEXTS = ["The quick brown fox jumps over the lazy dog, don't it? 1234 and 56.7% of 8,900!",
         "  def f(x):\n\treturn x + 1  # naïve café déjà vu\n\n", "日本語のテキスト、中文文本。한국어 텍스트", "Привет, мир! Ça va? Ñandú Øre ÅÄÖ",
         "🙂👍🏽 emoji \u200d and e\u0301 marks q\u0323\u0307", "aaaa aaaa bbbb abab  a  b   ab", "▁meta▁space ▁▁ text", "ﬁ ½ ² Ⅻ ㎏ İstanbul ẞ",
         "word's we'll I'm he'd they've ... --- ___ $5 <b>x</b> [a] {b}", "hello world hello there world wide web"]
REGEXES = [r"\s+", r" {2,}", r"\d+", r"[aeiou]", r"\p{Lu}", r"\w+|[^\w\s]+", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|\s+(?!\S)|\s+",
           r"\p{P}", r"\s+$", r"[^\s]+", r"x?a"]
BEHAVIORS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
BYTES = [f"<0x{b:02X}>" for b in range(256)]


def pattern(r, literals):
    return Regex(r.choice(REGEXES[:10])) if r.random() < 0.5 else r.choice(literals)


def normalizer(r):
    return r.choice([
        lambda: normalizers.NFC(), lambda: normalizers.NFD(), lambda: normalizers.NFKC(), lambda: normalizers.NFKD(),
        lambda: normalizers.Lowercase(), lambda: normalizers.StripAccents(), lambda: normalizers.Nmt(),
        lambda: normalizers.Replace(pattern(r, [" ", "a", "ab", "``", "the"]), r.choice(["▁", "", "x", " ", "é\u0301"])),
        lambda: normalizers.Replace(" ", "▁"), lambda: normalizers.Prepend(r.choice(["▁", " ", "x y"])),
        lambda: normalizers.Strip(left=r.random() < 0.5, right=r.random() < 0.5),
        lambda: normalizers.BertNormalizer(clean_text=r.random() < 0.5, handle_chinese_chars=r.random() < 0.5,
                                           strip_accents=r.choice([None, True, False]), lowercase=r.random() < 0.5),
    ])()


def metaspace(r, kind):
    keys = {"replacement": r.choice(["▁", "▁", "_"]), "prepend_scheme": r.choice(["first", "never", "always"])}
    return kind.Metaspace(split=r.random() < 0.6, **keys)


def pre_tokenizer(r):
    return r.choice([
        lambda: pre_tokenizers.Split(pattern(r, [" ", "a", "▁", "''"]), r.choice(BEHAVIORS), invert=r.random() < 0.3),
        lambda: pre_tokenizers.Digits(individual_digits=r.random() < 0.5), lambda: metaspace(r, pre_tokenizers),
        lambda: pre_tokenizers.Whitespace(), lambda: pre_tokenizers.WhitespaceSplit(),
        lambda: pre_tokenizers.Punctuation(r.choice(BEHAVIORS)), lambda: pre_tokenizers.BertPreTokenizer(),
        lambda: pre_tokenizers.CharDelimiterSplit(r.choice([" ", "a", "▁"])),
        lambda: pre_tokenizers.ByteLevel(add_prefix_space=r.random() < 0.5, use_regex=r.random() < 0.5),
    ])()


def decoder(r):
    return r.choice([
        lambda: decoders.ByteLevel(), lambda: decoders.ByteFallback(), lambda: decoders.Fuse(), lambda: decoders.Fuse(),
        lambda: decoders.Replace(pattern(r, ["▁", "a", " .", "aa"]), r.choice([" ", "", "b"])),
        lambda: decoders.Replace("▁", " "), lambda: decoders.Strip(r.choice([" ", "a", "▁"]), r.randint(0, 2), 0),
        lambda: decoders.Metaspace(replacement="▁", prepend_scheme=r.choice(["first", "never", "always"])),
        lambda: decoders.BPEDecoder(r.choice(["</w>", "e"])), lambda: decoders.WordPiece(prefix="##", cleanup=r.random() < 0.5),
    ])()


def sequence(kind, parts):
    return None if not parts else parts[0] if len(parts) == 1 else kind.Sequence(parts)


def added_tokens(r):
    out = []
    for content in ["<s>", "</s>", "<tool>", "WORD", "Ünï", "  ", "\n", "the", "ſ", "▁x"]:
        if r.random() < 0.5:
            out.append({"id": 0, "content": content, **{k: r.random() < 0.35 for k in ("single_word", "lstrip", "rstrip", "normalized", "special")}})
    return out


def post_processor(r, ids):
    tokens = [t for t in ("<s>", "</s>") if t in ids]
    if not tokens or r.random() < 0.4:
        return r.choice([None, {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}])
    special = {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in tokens}
    single = [{"SpecialToken": {"id": tokens[0], "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    if r.random() < 0.4:
        single.append({"SpecialToken": {"id": tokens[-1], "type_id": 0}})
    template = {"type": "TemplateProcessing", "single": single, "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
                "special_tokens": special}
    return template if r.random() < 0.6 else {"type": "Sequence", "processors": [template]}


def train(r, size):
    """(model as JSON, normalizers, pre-tokenizers): a model trained with some of its normalizers and pre-tokenizers."""
    norms = [normalizer(r) for _ in range(r.choice([0, 0, 1, 1, 2, 3]))]
    pres = [pre_tokenizer(r) for _ in range(r.choice([0, 1, 1, 2, 3]))]
    byte_level = r.random() < 0.25
    if byte_level:
        pres.append(pre_tokenizers.ByteLevel(add_prefix_space=r.random() < 0.3, use_regex=r.random() < 0.6))
    unigram = not byte_level and r.random() < 0.4
    specials = ["<unk>"] + (BYTES if r.random() < 0.4 else [])
    size += len(specials)
    texts = TEXTS * 2 + [x.replace(" ", "▁") for x in TEXTS]
    t = Tokenizer(models.Unigram() if unigram else models.BPE(unk_token="<unk>"))
    t.normalizer = sequence(normalizers, norms)
    if pres and r.random() < 0.7:
        t.pre_tokenizer = sequence(pre_tokenizers, pres)
    elif not unigram:
        t.pre_tokenizer = pre_tokenizers.Split(Regex(r"▁?[^▁\s]+|\s+|▁+"), "isolated")
    if unigram:
        trainer = trainers.UnigramTrainer(vocab_size=size, show_progress=False, unk_token="<unk>", special_tokens=specials,
                                          max_piece_length=8, seed_size=4000)
    else:
        affix = {} if byte_level or r.random() < 0.8 else r.choice([{"continuing_subword_prefix": "##"}, {"end_of_word_suffix": "</w>"},
                                                                    {"continuing_subword_prefix": "@", "end_of_word_suffix": "$"}])
        trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, special_tokens=specials,
                                      limit_alphabet=r.choice([40, 90, 300]), **affix)
    t.train_from_iterator(texts, trainer)
    model = json.loads(t.to_str())["model"]
    if unigram:
        model["byte_fallback"] = r.random() < 0.6
        r.shuffle(model["vocab"])
        model["unk_id"] = [x[0] for x in model["vocab"]].index("<unk>")
    else:
        model.update(byte_fallback=r.random() < 0.5, fuse_unk=r.random() < 0.5, ignore_merges=r.random() < 0.3)
        if r.random() < 0.2:
            model["unk_token"] = None
    return model, norms, pres


def make(seed, size=160):
    """A tokenizer.json, or None where the library cannot train or read it."""
    r = random.Random(seed)
    try:
        model, norms, pres = train(r, size)
        chain = r.choice([
            [decoders.ByteLevel()], [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)],
            [decoders.Metaspace()], [decoder(r) for _ in range(r.randint(0, 4))], [decoder(r) for _ in range(r.randint(0, 4))]])
        t = Tokenizer(models.BPE())
        t.normalizer, t.pre_tokenizer, t.decoder = (sequence(k, p) for k, p in ((normalizers, norms), (pre_tokenizers, pres), (decoders, chain)))
        data = json.loads(t.to_str())
        data["model"], data["added_tokens"] = model, added_tokens(r)
        ids = {a["content"]: a for a in data["added_tokens"]}
        vocab = Tokenizer.from_str(json.dumps(data)).get_vocab()
        data["post_processor"] = post_processor(r, {k: vocab[k] for k in ids if k in vocab})
        Tokenizer.from_str(json.dumps(data))
        return data
    except BaseException as e:  # panics are no Exceptions
        if isinstance(e, KeyboardInterrupt):
            raise
        return None
