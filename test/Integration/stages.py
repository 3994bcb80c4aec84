#!/usr/bin/env python3
"""Every stage can be printed; ingot-opt makes each IR stage from the one before, byte for byte; every fusion that an
architecture allows is there; and the number of layers changes nothing but the number."""
import os
import re
import unittest

from edges import QWEN3_06B
from support import INGOT_OPT, INGOTC, case_model, ok, scratch, write_json

STAGES = ("ingot", "fused", "packed", "loops", "llvm")
UNFUSED = ("ingot.rope ", "ingot.kv_append ", "ingot.silu ", "ingot.mul ", "ingot.add ", "ingot.gated_act ")


def emit(model, stage, *args):
    """The IR of a stage as ingotc prints it."""
    return ok(INGOTC, model, f"--emit={stage}", *args).out


def shape(layers):
    """A directory with Qwen3-0.6B's configuration and another number of layers."""
    config = dict(QWEN3_06B, num_hidden_layers=layers, max_window_layers=layers)
    return write_json(scratch(f"layers-{layers}/config.json"), config)[:-len("/config.json")]


class Stages(unittest.TestCase):
    def test_each_from_the_one_before(self):
        for case in ("llama-gqa-tied", "qwen2", "qwen3", "tinylm-interleaved", "gguf-q8_0"):
            texts = {stage: emit(case_model(case), stage) for stage in STAGES}
            for before, after in zip(STAGES, STAGES[1:]):
                with self.subTest(case=case, stage=after):
                    self.assertTrue(texts[after].strip())
                    made = ok(INGOT_OPT, f"--{before}-to-{after}", "-", stdin=texts[before]).out
                    self.assertTrue(made == texts[after], f"ingot-opt --{before}-to-{after} prints something else than ingotc --emit={after}")

    def test_options_that_change_stages(self):
        model = case_model("qwen3")
        for option, pipeline in (("--no-fuse", "--ingot-to-fused=fuse=false"), ("--dtype=bf16", "--fused-to-packed=dtype=bf16")):
            before, after = pipeline.split("=")[0].strip("-").split("-to-")
            made = ok(INGOT_OPT, pipeline, "-", stdin=emit(model, before, option)).out
            self.assertTrue(made == emit(model, after, option), option)

    def test_text_of_later_stages(self):
        model = case_model("llama-gqa-tied")
        self.assertRegex(emit(model, "llvm-ir").decode(), r"(?m)^define ")
        self.assertRegex(emit(model, "asm").decode(), r"(?m)^\s+vfmadd")
        self.assertTrue(emit(model, "obj").startswith(b"\x7fELF"))

    def test_fusions(self):
        for case in ("llama-gqa-tied", "qwen2", "qwen3"):
            with self.subTest(case):
                text = emit(case_model(case), "fused").decode()
                layer = text[text.index("func.func private"):]
                layer = layer[:layer.index("return")]
                for op in UNFUSED:
                    self.assertNotIn(op, layer)
                linears = [l for l in layer.splitlines() if "ingot.linear " in l]
                self.assertEqual(len(linears), 4, layer)
                self.assertRegex(linears[0], r"weights\(%\w+, %\w+, %\w+ :")
                self.assertIn("row_parallel", linears[1])
                self.assertRegex(linears[2], r"weights\(%\w+, %\w+ :.*gated *silu")
                self.assertRegex(linears[3], r"residual\(.*row_parallel")
                self.assertEqual(layer.count("ingot.add_rms_norm "), 1)
                self.assertEqual(layer.count("ingot.rms_norm "), 1)
                (append,) = [l for l in layer.splitlines() if "ingot.qk_norm_rope_append " in l]
                self.assertEqual("norms(" in append, case == "qwen3", append)
                if case == "qwen2":
                    self.assertIn("bias", linears[0])

    def test_the_number_of_layers_is_a_number(self):
        few, many = (emit(shape(n), "ingot", "--weights=random:1").decode() for n in (2, 28))
        self.assertNotEqual(few, many)
        changed = [(a, b) for a, b in zip(few.splitlines(), many.splitlines()) if a != b]
        self.assertEqual(len(few.splitlines()), len(many.splitlines()))
        for a, b in changed:
            self.assertEqual(a, re.sub(r"\b28\b", "2", b), "more than the layer count differs")

    def test_the_number_of_layers_costs_nothing(self):
        """Neither code nor tables grow with the layers, nor does the time to make them."""
        objects, seconds = {}, {}
        for _ in range(5):
            for layers in (2, 28):
                model, before = shape(layers), os.times()
                objects[layers] = emit(model, "obj", "--weights=random:1")
                after = os.times()
                spent = after.children_user + after.children_system - before.children_user - before.children_system
                seconds[layers] = min(spent, seconds.get(layers, spent))
            # Other programs on the machine make a measurement longer, never shorter: the least counts, and more of them
            # are taken only while it is not clear.
            if abs(seconds[2] - seconds[28]) < 0.1 * min(seconds.values()):
                break
        self.assertLess(abs(len(objects[2]) - len(objects[28])), 0.01 * len(objects[2]))
        self.assertLess(abs(seconds[2] - seconds[28]), 0.1 * min(seconds.values()), f"seconds of CPU by number of layers: {seconds}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
