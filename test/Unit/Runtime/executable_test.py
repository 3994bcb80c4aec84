#!/usr/bin/env python3
"""Whole executables, made of the prelinked runtime and a small decoder: every verb, its JSON, its errors and exit codes,
the same bits however a sequence is computed, and files that were damaged, cut, stripped or moved.

    executable_test.py BUILD_DIR      (of test/Unit/Runtime: reference-random, reference-stored, reference-payload)
"""
import json
import math
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

BUILD = sys.argv.pop(1) if len(sys.argv) > 1 else "."
VOCAB, CONTEXT, LAYERS = 67, 200, 2
CACHE_BYTES = 2 * (6 + 16) * 4  # of a position in a layer: two heads of 6 keys and, padded to 16, 6 values, in f32


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp(prefix="ingot-runtime-")
        cls.exe = cls.make("random", "reference-random")
        cls.stored = cls.make("embed", "reference-stored")
        cls.separate = cls.make("separate", "reference-stored")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.work)

    @classmethod
    def make(cls, mode, program):
        out = os.path.join(cls.work, mode)
        subprocess.run([os.path.join(BUILD, "reference-payload"), os.path.join(BUILD, program), out, mode], check=True)
        return out

    def run_exe(self, *args, stdin=b"", exe=None, env=None, code=0):
        done = subprocess.run([exe or self.exe, *map(str, args)], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=dict(os.environ, **(env or {})), timeout=120, check=False)
        err = done.stderr.decode()
        self.assertEqual(done.returncode, code, err)
        return done.stdout.decode(), err

    def json(self, *args, **options):
        return json.loads(self.run_exe(*args, "--json", **options)[0])

    def fails(self, message, *args, code=2, **options):
        out, err = self.run_exe(*args, code=code, **options)
        self.assertEqual(out, "")
        self.assertIn("error: " + message, err)
        self.assertEqual(err.count("error:"), 1)


class Verbs(Case):
    def test_logits_shapes(self):
        one = self.json("logits", "--tokens", "1,2,3")
        self.assertEqual(one["tokens"], [1, 2, 3])
        self.assertEqual([len(row) for row in one["logits"]], [VOCAB] * 3)
        two = self.json("logits", "--tokens", "1,2,3;4")
        self.assertEqual(two["sequences"][0], one)
        self.assertEqual(two["sequences"][1]["tokens"], [4])
        self.assertEqual(two, self.json("logits", "--tokens", "1,2,3", "--tokens", "4"))
        last = self.json("logits", "--tokens", "1,2,3", "--last")
        self.assertEqual(last["logits"], one["logits"][2:])
        self.assertEqual(last["positions"], [2])

    def test_numbers_give_the_same_floats_back(self):
        path = os.path.join(self.work, "rows.npy")
        self.run_exe("logits", "--tokens", "5,6;7", "-o", path)
        with open(path, "rb") as f:
            data = f.read()
        self.assertEqual(data[:8], b"\x93NUMPY\x01\x00")
        length = struct.unpack("<H", data[8:10])[0]
        self.assertEqual((10 + length) % 64, 0)
        self.assertEqual(eval(data[10:10 + length]), {"descr": "<f4", "fortran_order": False, "shape": (3, VOCAB)})
        floats = struct.unpack(f"<{3 * VOCAB}f", data[10 + length:])
        rows = [row for s in self.json("logits", "--tokens", "5,6;7")["sequences"] for row in s["logits"]]
        printed = [struct.unpack("<f", struct.pack("<f", x))[0] for row in rows for x in row]
        self.assertEqual(list(floats), printed)

    def test_one_result(self):
        tokens = ",".join(str(i * 7 % VOCAB) for i in range(100))
        expected = self.run_exe("logits", "--tokens", tokens, "--hash")[0]
        self.assertEqual(len(set(line.split()[2] for line in expected.splitlines())), 100)
        for chunk in (1, 3, 16):
            self.assertEqual(self.run_exe("logits", "--tokens", tokens, "--hash", "--chunk", chunk)[0], expected)
        for threads in (1, 2, 3):
            self.assertEqual(self.run_exe("logits", "--tokens", tokens, "--hash", "-t", threads)[0], expected)
        batch = self.run_exe("logits", "--tokens", f"9,8;{tokens};5,5,5", "--hash")[0].splitlines()
        self.assertEqual([line.split()[1:] for line in batch if line.startswith("1 ")],
                         [line.split()[1:] for line in expected.splitlines()])
        last = self.run_exe("logits", "--tokens", tokens, "--hash", "--last")[0]
        self.assertEqual(last, expected.splitlines()[-1] + "\n")
        hashes = self.json("logits", "--tokens", tokens, "--hash")["hashes"]
        self.assertEqual(hashes, [line.split()[2] for line in expected.splitlines()])
        for exe in (self.stored, self.separate):
            self.assertEqual(self.run_exe("logits", "--tokens", tokens, "--hash", exe=exe)[0], expected)

    def test_generate(self):
        prompt = [3, 4, 5]
        out = self.json("generate", "--tokens", "3,4,5", "-n", 6, "--ignore-eos")
        self.assertEqual((len(out["tokens"]), out["finish_reason"], out["text"]), (6, "length", None))
        self.assertEqual(out["timings"]["prompt_tokens"], 3)
        self.assertIsInstance(out["seed"], int)
        # Greedy with the repetition penalty of the defaults, from the logits.
        for token in out["tokens"]:
            row = self.json("logits", "--tokens", ",".join(map(str, prompt)), "--last")["logits"][0]
            for seen in set(prompt):
                row[seen] = row[seen] * 1.1 if row[seen] < 0 else row[seen] / 1.1
            self.assertEqual(token, max(range(VOCAB), key=lambda i: row[i]))
            prompt.append(token)
        text, err = self.run_exe("--tokens", "3,4,5", "-n", 6, "--ignore-eos")
        self.assertEqual(text, ",".join(map(str, out["tokens"])) + "\n")
        self.assertIn("generated: 6 tokens", err)
        self.assertEqual(self.json("generate", "--tokens", "1", "-n", 0)["tokens"], [])
        self.assertEqual(len(self.json("generate", "--tokens", "1", "-n", 1)["tokens"]), 1)

    def test_sampling_is_decided_by_the_seed(self):
        def sample(*options):
            return self.json("generate", "--tokens", "1,2", "-n", 30, "--ignore-eos", "--temp", "1.5", "--top-k", 0, *options)
        first = sample("--seed", 5)
        self.assertEqual(first["seed"], 5)
        self.assertEqual(sample("--seed", 5, "-t", 2)["tokens"], first["tokens"])
        self.assertNotEqual(sample("--seed", 6)["tokens"], first["tokens"])
        fresh = sample()
        self.assertEqual(sample("--seed", fresh["seed"])["tokens"], fresh["tokens"])
        greedy = self.json("generate", "--tokens", "1,2", "-n", 30, "--ignore-eos")["tokens"]
        self.assertEqual(sample("--greedy")["tokens"], greedy)
        self.assertEqual(self.json("generate", "--tokens", "1,2", "-n", 30, "--ignore-eos", "--temperature", 0)["tokens"], greedy)

    def test_context(self):
        full = ",".join(["7"] * CONTEXT)
        for n in (0, 1, 2):
            out = self.json("generate", "--tokens", full, "-n", n, "--ignore-eos")
            self.assertEqual((len(out["tokens"]), out["finish_reason"]), (min(n, 1), "context" if n > 1 else "length"))
        self.fails("the prompt has 201 tokens, more than the context of 200", "generate", "--tokens", full + ",7", code=1)
        self.fails("the prompt has 200 tokens, more than the context of 150", "generate", "--tokens", full, "-c", 150, code=1)
        out = self.json("generate", "--tokens", "1", "--ignore-eos", "-c", 20)
        self.assertEqual((len(out["tokens"]), out["finish_reason"]), (20, "context"))
        many = os.path.join(self.work, "many")
        with open(many, "w") as f:
            f.write(",".join(["1"] * 100000))
        self.fails("the prompt has 100000 tokens, more than the context of 200", "generate", "--tokens", "@" + many, code=1)
        self.fails("the prompt has 100000 tokens, more than the context of 200", "logits", "--tokens", "@" + many, code=1)

    def test_jsonl(self):
        requests = [{"id": i, "tokens": [i, i + 1, i + 2], "n": 5 + i, "ignore_eos": True} for i in range(12)]
        requests[3].update(temperature=1.2, seed=9, id="three")
        text = "".join(json.dumps(r) + "\n" for r in requests)
        lines = [json.loads(l) for l in self.run_exe("generate", "--jsonl", stdin=text.encode())[0].splitlines()]
        self.assertEqual(len(lines), 12)
        self.assertEqual({str(l["id"]) for l in lines}, {str(r["id"]) for r in requests})
        for line in lines:
            r = next(r for r in requests if r["id"] == line["id"])
            extra = ["--temperature", "1.2", "--seed", "9"] if "seed" in r else []
            alone = self.json("generate", "--tokens", ",".join(map(str, r["tokens"])), "-n", r["n"], "--ignore-eos", *extra)
            self.assertEqual(line["tokens"], alone["tokens"])
        self.assertEqual(next(l for l in lines if l["id"] == "three")["seed"], 9)

    def test_jsonl_errors_and_cancel(self):
        bad = ['{"id": 1, "tokens": [1], "n": 2}', '{"id": 2, "tokens": [99]}', '{"id": 3', '{"id": 4, "tokens": [1], "tmp": 1}',
               '{"id": 5, "prompt": "x"}', '{"id": 6, "tokens": [1], "top_p": 2}', '{"cancel": 77}', '[]', '{"id": 7, "tokens": []}']
        out, err = self.run_exe("generate", "--jsonl", stdin="\n".join(bad).encode(), code=1)
        lines = {str(l["id"]): l for l in map(json.loads, out.splitlines())}
        self.assertEqual(len(lines["1"]["tokens"]), 2)
        self.assertIn("id 99 is out of range", lines["2"]["error"])
        self.assertIn("unknown key 'tmp'", lines["4"]["error"])
        self.assertIn("without a tokenizer", lines["5"]["error"])
        self.assertIn("top-p: expected a number from 0 to 1, got 2", lines["6"]["error"])
        self.assertIn("empty", lines["7"]["error"])
        self.assertIn("8 of the requests failed", err)
        # Ids that could not be told apart are refused, and none of them cancels another.
        out, err = self.run_exe("generate", "--jsonl", code=1, stdin=b'{"id": [1], "tokens": [1], "n": 2}\n{"cancel": {"a": 2}}\n')
        self.assertEqual([(l["id"], l["error"][:3]) for l in map(json.loads, out.splitlines())], [(None, "id:"), (None, "id:")])
        self.assertIn("2 of the requests failed", err)
        # All lines are read before the first step, so the request is there and unfinished when it is cancelled.
        out, _ = self.run_exe("generate", "--jsonl", stdin=b'{"id": "a", "tokens": [1], "ignore_eos": true}\n{"cancel": "a"}\n')
        self.assertEqual(json.loads(out)["finish_reason"], "cancelled")

    def test_loss(self):
        def expected(sequences, labels):
            total, kept = 0.0, 0
            for tokens, wanted in zip(sequences, labels):
                rows = self.json("logits", "--tokens", ",".join(map(str, tokens)))["logits"]
                for i in range(1, len(tokens)):
                    if wanted[i] != -100:
                        top = max(rows[i - 1])
                        total += math.log(sum(math.exp(x - top) for x in rows[i - 1])) + top - rows[i - 1][wanted[i]]
                        kept += 1
            return total / kept, kept
        sequences = [[1, 2, 3, 4], [9, 8]]
        loss, kept = expected(sequences, sequences)
        got = self.json("loss", "--tokens", "1,2,3,4;9,8")
        self.assertAlmostEqual(got["loss"], loss, places=6)
        self.assertEqual((got["count"], [s["count"] for s in got["sequences"]]), (kept, [3, 1]))
        labels = [[-100, -100, 30, 4], [5, -100]]
        got = self.json("loss", "--tokens", "1,2,3,4;9,8", "--labels", "-100,-100,30,4;5,-100")
        self.assertAlmostEqual(got["loss"], expected(sequences, labels)[0], places=6)
        self.assertEqual(got["count"], 2)
        self.fails("loss: no label is left", "loss", "--tokens", "1,2", "--labels", "1,-100", code=1)
        self.fails("loss: sequence 0 has 2 tokens and 3 labels", "loss", "--tokens", "1,2", "--labels", "1,2,3")
        self.fails("loss: label 1 of sequence 0: expected -100 or 0 to 66, got 67", "loss", "--tokens", "1,2", "--labels", "1,67", code=1)
        perplexity = self.json("perplexity", "--tokens", "1,2,3,4")
        self.assertAlmostEqual(perplexity["perplexity"], math.exp(expected([[1, 2, 3, 4]], [[1, 2, 3, 4]])[0]), places=4)

    def test_trace(self):
        folder = os.path.join(self.work, "trace")
        self.run_exe("logits", "--tokens", "1,2,3", "--trace", folder, "--last", "--hash", "-t", 2)
        self.assertEqual(sorted(os.listdir(folder)),
                         sorted(["embed.npy", "lm_head.npy"] + [f"layer.{i}.{op}.npy" for i in (0, 1)
                                                                for op in ("qkv", "attention", "mlp")]))
        self.fails("logits: --trace needs all tokens in one step", "logits", "--tokens", ",".join(["1"] * 33), "--trace", folder)

    def test_bench(self):
        plot = os.path.join(self.work, "roofline.svg")
        little = {"INGOT_MEMORY_LIMIT": str(600 << 20)}  # the probe takes what is left, up to much more than caches hold
        out = self.json("bench", "--prompt", "20,40", "--gen", 10, "--depth", "0,60", "--batch", 2, "-r", 3, "-t", "1,2", "--plot", plot, env=little)
        self.assertEqual([machine["workers"] for machine in out["machine"]], [1, 2])
        for machine in out["machine"]:
            self.assertGreater(machine["read_gigabytes_per_second"], 0.1)
            self.assertGreater(machine["peak_gigaflops_per_second"], 1)
            self.assertEqual(machine["read_gigabytes_per_second"], max(read["gigabytes_per_second"] for read in machine["reads"]))
        expected = [(test, tokens, depth, 2, workers) for workers in (1, 2) for depth in (0, 64)
                    for test, tokens in (("prompt", 20), ("prompt", 40), ("decode", 10))]
        self.assertEqual([tuple(row[key] for key in ("test", "tokens", "depth", "batch", "workers")) for row in out["rows"]], expected)
        for row in out["rows"]:
            decodes = row["test"] == "decode"
            self.assertEqual(row["repetitions"], 3)
            self.assertLessEqual(row["seconds_min"], row["seconds"])
            self.assertLessEqual(row["seconds"], row["seconds_max"])
            self.assertAlmostEqual(row["tokens_per_second"] * row["seconds"], 2 * row["tokens"], delta=0.01 * row["tokens"])
            self.assertAlmostEqual(sum(op["share"] for op in row["ops"]), 1, places=2)
            # 40 prompt tokens of two sequences do not fit a step of 32: three are needed; decoding takes one a token.
            steps = 10 if decodes else {20: 2, 40: 3}[row["tokens"]]
            ops = {op["op"]: op for op in row["ops"]}
            self.assertEqual(ops["layer.qkv"]["calls"], 2 * steps)
            self.assertAlmostEqual(row["flops"], sum(op["flops"] for op in row["ops"]), delta=1)
            self.assertAlmostEqual(row["bytes"], sum(op["bytes"] for op in row["ops"]), delta=1)
            # Keys and values of all positions up to the step's own, of two sequences.
            if decodes:
                positions = sum(row["depth"] + i + 1 for i in range(10))
                self.assertEqual(ops["layer.attention"]["bytes"], 2 * LAYERS * positions * CACHE_BYTES)
        text, _ = self.run_exe("bench", "-p", 20, "-n", 4, "-r", 1, "--per-op", env=little)
        for part in ("tok/s", "spread", "us waiting", "limit"):
            self.assertIn(part, text)
        with open(plot, encoding="utf-8") as f:
            svg = f.read()
        self.assertEqual(svg.count("<polyline"), 2)
        self.assertGreaterEqual(svg.count("<circle"), 2 * len(expected))
        xml.etree.ElementTree.fromstring(svg)
        self.fails("bench: 20 tokens after 192 cached positions do not fit the context of 200", "bench", "-p", 5, "-n", 20, "-d", 190)
        self.fails("--prompt: expected a whole number from 0 to 200, got ''", "bench", "--prompt", "5,")
        self.fails("bench: expected tokens to process or to generate, got 0 of both", "bench", "-p", 0, "-n", 0)

    def test_info(self):
        info = self.json("info")
        matrices = 2 * VOCAB * 24 + 2 * (48 * 24 + 24 * 24 + 3 * 40 * 24)
        self.assertEqual(info["parameters"]["total"], matrices + 5 * 24)
        self.assertEqual(info["parameters"]["norm"], 5 * 24)
        self.assertEqual((info["variant"], info["weights"], info["end_tokens"]), ("x86-64-v3", "random", [66]))
        self.assertEqual(info["generation"]["repetition_penalty"], 1.10000002)
        text, _ = self.run_exe("info")
        self.assertIn(f"parameters   {info['parameters']['total']}", text)
        self.assertIn("consumed: 24", self.run_exe("info", "--ledger")[0])
        self.assertEqual(self.run_exe("info", "--licenses")[0], "The model's licence.\n")
        memory = self.json("info", "--memory", "-t", 1)
        self.assertEqual(memory["peak"], sum(memory[k] for k in ("mapped_weights", "generated_weights", "arena", "cache",
                                                                  "logits", "tables")))

    def test_variants(self):
        self.assertEqual(self.json("info", "--cpu-variant", "x86-64-v3")["variant"], "x86-64-v3")
        self.fails("CPU variant 'v9' is not in this executable; it has x86-64-v3, never", "info", "--cpu-variant", "v9")
        self.fails("CPU variant never needs", "generate", "--tokens", "1", code=1, env={"INGOT_CPU": "never"})

    def test_memory_limits(self):
        memory = self.json("info", "--memory", "-t", 1)
        block = memory["cache"] // 4
        enough = memory["peak"]
        limit = {"INGOT_MEMORY_LIMIT": str(enough)}
        _, err = self.run_exe("generate", "--tokens", "1", "-n", 1, "-t", 1, env=limit)
        self.assertNotIn("note: context", err)
        limit = {"INGOT_MEMORY_LIMIT": str(enough - 2 * block)}
        _, err = self.run_exe("generate", "--tokens", "1", "-n", 1, "-t", 1, env=limit)
        self.assertIn("note: context reduced from 200 to 128", err)
        self.fails("a context of 200 needs", "generate", "--tokens", "1", "-t", 1, "-c", 200, env=limit, code=1)
        self.fails("a context of 200 needs", "generate", "--tokens", "1", "-t", 1, env={"INGOT_MEMORY_LIMIT": "5000"}, code=1)

    def test_usage(self):
        self.fails("logits: unknown option '--tokns'; did you mean '--tokens'?", "logits", "--tokns", "1")
        self.fails("generate: unknown option '-tokens'; did you mean '--tokens'?", "generate", "-tokens", "1")
        self.fails("unknown verb 'gnerate'; did you mean 'generate'?", "gnerate")
        self.fails("generate: option '-n' needs a value: N", "generate", "-n")
        self.fails("generate: option '--json' takes no value", "generate", "--json=1")
        self.fails("generate: unexpected argument 'word'", "generate", "--tokens", "1", "word")
        self.fails("--max-new-tokens: expected a whole number", "generate", "--tokens", "1", "-n", "-1")
        self.fails("--tokens: expected ids separated by commas", "generate", "--tokens", "1,x")
        self.fails("token 0: id 67 is out of range: expected 0 to 66", "generate", "--tokens", "67", code=1)
        self.fails("the prompt is empty", "generate", "--tokens", "", code=1)
        self.fails("temperature: expected a number of at least 0", "generate", "--tokens", "1", "--temperature", "-0.5")
        self.fails("--temperature: expected a number, got 'nan'", "generate", "--tokens", "1", "--temperature", "nan")
        self.fails("--ctx: expected a whole number from 1 to 200, got '0'", "generate", "--tokens", "1", "-c", "0")
        self.fails("this model was compiled without a tokenizer", "generate", "-p", "text", code=1)
        self.fails("this model was compiled without a tokenizer", "tokenize", code=1)
        self.fails("this model was compiled without a tokenizer", stdin=b"piped", code=1)
        help_text, _ = self.run_exe("--help")
        for verb in ("generate", "chat", "logits", "loss", "perplexity", "bench", "info", "selftest", "tokenize", "detokenize"):
            self.assertIn(f"  {verb}", help_text)
            self.assertIn("example: ", self.run_exe(verb, "--help")[0])

    def test_a_closed_pipe_is_quiet(self):
        command = f"'{self.exe}' logits --tokens {','.join(['1'] * 150)} --json | head -c 10; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=60, check=True)
        self.assertEqual(done.stdout, b'{"tokens":0\n')
        self.assertEqual(done.stderr, b"")

    def test_interrupt_ends_with_130(self):
        with subprocess.Popen([self.exe, "bench", "-r", "1000", "-p", "100", "-n", "100"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as p:
            p.stderr.readline()  # it has begun
            p.send_signal(signal.SIGINT)
            out, _ = p.communicate(timeout=60)
        self.assertEqual((p.returncode, out), (130, b""))

    def test_a_full_disk_is_told(self):
        done = subprocess.run(f"'{self.exe}' info > /dev/full", shell=True, capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"error: cannot write to stdout: No space left on device", done.stderr)


class Files(Case):
    def damaged(self, exe, name, change):
        with open(exe, "rb") as f:
            data = bytearray(f.read())
        data = change(data)
        path = os.path.join(self.work, name)
        with open(path, "wb") as f:
            f.write(data)
        os.chmod(path, 0o755)
        return path

    def payload_offset(self, exe):
        with open(exe, "rb") as f:
            return f.read().rindex(b"INGTYLD1")

    def test_selftest_passes(self):
        for exe in (self.exe, self.stored, self.separate):
            out = self.json("selftest", exe=exe)
            self.assertEqual((out["hashes"]["result"], out["logits"]["result"]), ("passed", "passed"), out)

    def test_a_flipped_weight_is_found(self):
        flip = lambda data: data[:-100] + bytes([data[-100] ^ 1]) + data[-99:]  # noqa: E731
        exe = self.damaged(self.stored, "flipped", flip)
        out, err = self.run_exe("selftest", exe=exe, code=1)
        self.assertIn("hashes: FAILED (weights: expected hash", out)
        self.assertIn("error: selftest failed", err)
        exe = self.damaged(self.separate, "other", lambda data: data)
        self.damaged(self.separate + ".weights", "other.weights", flip)
        self.assertIn("other.weights: expected hash", self.run_exe("selftest", exe=exe, code=1)[0])

    def test_a_changed_weight_fails_the_logits(self):
        def change(data):  # a value in the last matrix, lm_head: its padding rows are at the end of each panel
            at = len(data) - 80 * 24 * 4 + 64
            data[at:at + 4] = struct.pack("<f", 3.0)
            return data
        out, _ = self.run_exe("selftest", exe=self.damaged(self.stored, "changed", change), code=1)
        self.assertIn("logits: FAILED (largest difference", out)

    def test_a_stripped_file_is_named_so(self):
        offset = self.payload_offset(self.stored)
        exe = self.damaged(self.stored, "stripped", lambda data: data[:offset - 10])
        self.fails(exe + ": the model's weights and tables are gone", "info", exe=exe, code=1)
        if shutil.which("strip"):
            exe = self.damaged(self.stored, "stripped2", lambda data: data)
            subprocess.run(["strip", exe], check=True)
            self.fails(exe + ": the model's weights and tables are gone", "info", exe=exe, code=1)

    def test_a_cut_file_is_named_so(self):
        exe = self.damaged(self.stored, "cut", lambda data: data[:-1])
        size = os.path.getsize(self.stored)
        self.fails(f"{exe}: truncated: expected {size} bytes, the file has {size - 1}", "info", exe=exe, code=1)

    def test_a_damaged_table_is_named_so(self):
        offset = self.payload_offset(self.stored)

        def flip(at):
            def change(data):
                data[offset + at] ^= 255
                return data
            return change
        self.fails("", "info", exe=self.damaged(self.stored, "header", flip(0)), code=1)
        exe = self.damaged(self.stored, "sections", flip(80))
        self.fails(f"{exe}: damaged: the payload's header has hash", "info", exe=exe, code=1)
        exe = self.damaged(self.stored, "defaults", flip(320 + 20))
        self.fails(f"{exe}: damaged: section generation defaults has hash", "info", exe=exe, code=1)

    def test_separate_weights_are_bound(self):
        lonely = self.damaged(self.separate, "lonely", lambda data: data)
        self.fails(f"{lonely}.weights: cannot open the model's weights", "generate", "--tokens", "1", exe=lonely, code=1)
        other = self.damaged(self.separate, "strange", lambda data: data)

        def another(data):
            data[16] ^= 1
            return data
        self.damaged(self.separate + ".weights", "strange.weights", another)
        self.fails(f"{other}.weights: the weights of another model: expected hash", "generate", "--tokens", "1", exe=other, code=1)
        self.damaged(self.separate + ".weights", "strange.weights", lambda data: data[:-4])
        self.fails(f"{other}.weights: truncated", "generate", "--tokens", "1", exe=other, code=1)
        self.damaged(self.separate + ".weights", "strange.weights", lambda data: bytearray(b"text"))
        self.fails(f"{other}.weights: not a weights file", "generate", "--tokens", "1", exe=other, code=1)

    def test_through_a_link_and_renamed(self):
        link = os.path.join(self.work, "link")
        os.symlink(self.separate, link)
        self.run_exe("generate", "--tokens", "1", "-n", 1, exe=link)
        moved = self.damaged(self.stored, "moved name", lambda data: data)
        self.run_exe("generate", "--tokens", "1", "-n", 1, exe=moved)

    def test_a_program_without_a_model(self):
        empty = os.path.join(BUILD, "empty-model")
        self.fails(f"{os.path.realpath(empty)}: this program was linked without a model", "info", exe=empty, code=1)

    def test_in_an_empty_root(self):
        if os.geteuid() != 0:
            raise unittest.SkipTest("chroot needs root")
        root = os.path.join(self.work, "root")
        os.makedirs(root)
        shutil.copy(self.stored, os.path.join(root, "model"))
        done = subprocess.run([shutil.which("chroot"), root, "/model", "generate", "--tokens", "1,2", "-n", "3", "--json"],
                              capture_output=True, env={}, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["tokens"], self.json("generate", "--tokens", "1,2", "-n", 3)["tokens"])


if __name__ == "__main__":
    unittest.main(verbosity=1)
