#!/usr/bin/env python3
"""Every example in the ODS of the ingot dialect is parsed and verified by ingot-opt: each op has one (or names the op
whose example shows it), each type and attribute with an example too.

An example shows the op alone; what it uses is declared around it: values by the table below, symbols by PRELUDE.
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from project import BUILD, ROOT  # noqa: E402

# The types of the values that examples use, by op where a name means different things.
VALUES = {
    "batch": "!ingot.batch", "index": "index", "layer": "index",
    "x": "tensor<?x32xf32>", "y": "tensor<?x32xf32>", "h": "tensor<?x32xf32>", "q": "tensor<?x32xf32>",
    "residual": "tensor<?x32xf32>", "w": "tensor<32xf32>",
    "k": "tensor<?x16xf32>", "v": "tensor<?x16xf32>", "qn": "tensor<16xf32>", "kn": "tensor<16xf32>",
    "gate": "tensor<?x64xf32>", "up": "tensor<?x64xf32>", "table": "tensor<128x32xbf16>",
}
VALUES_OF = {
    "linear": {"x": "tensor<?x16xf32>", "wq": "tensor<32x16xf32>", "wk": "tensor<8x16xf32>", "bq": "tensor<32xf32>",
               "bk": "tensor<8xf32>", "wg": "tensor<64x16xf32>", "wu": "tensor<64x16xf32>", "wd": "tensor<16x64xf32>"},
    "split": {"x": "tensor<?x40xf32>"},
}
RECIPE_VALUES = {"concat": ["tensor<32x16xf32>", "tensor<8x16xf32>"], "stack": ["tensor<32x16xf32>"] * 2,
                 "quantize": ["tensor<32x48xbf16>"]}
FREQUENCIES = ", ".join(["1.0"] * 8)
PRELUDE = f"""
ingot.rotary @rotary half inv_freq = [{FREQUENCIES}] scaling = 1.0
func.func private @layer(tensor<?x32xf32>, !ingot.batch, !ingot.kv_cache<30 x 1 x 16 x f16>, index, index) -> tensor<?x32xf32>
ingot.parameter @layer.q_proj "model.layers.{{layer}}.self_attn.q_proj.weight" kind @layer part "attention" : tensor<32x32xbf16>
"""


def records(text, base):
    """Yields (record's name, mnemonic, body) of the definitions that derive from a class whose name matches `base`."""
    for m in re.finditer(rf"^def (Ingot_\w+) : (?:{base})<(.*?)$(.*?)^}}", text, re.S | re.M):
        names = re.findall(r'"(\w+)"', m.group(2))
        yield m.group(1), names, m.group(2) + m.group(3)


def example(body):
    """The code of a description's example, or None."""
    m = re.search(r"Example:\s*```mlir\n(.*?)```", body, re.S) or re.search(r"Example: `([^`]+)`", body)
    return m.group(1) if m else None


def wrap_recipe(mnemonic, code):
    types = RECIPE_VALUES[mnemonic]
    result, kind = re.search(r"(%\w+) = .*-> (\S+)\s*$", code.strip()).groups()
    lines = [f'  %{i} = ingot.source "a" : {t}' for i, t in enumerate(types)]
    return "\n".join([f'ingot.parameter @p part "mlp" : {kind} {{', *lines, code, f"  ingot.yield {result} : {kind}", "}"])


def wrap(mnemonic, code):
    """A module around an example."""
    if mnemonic in RECIPE_VALUES:
        return wrap_recipe(mnemonic, code)
    if mnemonic in ("parameter", "rotary"):
        return code
    defined, used = set(), []
    for line in code.splitlines():
        left, right = line.split(" = ingot.", 1) if " = ingot." in line else ("", line)
        used += [v for v in re.findall(r"%(\w+)", right) if v not in defined and v not in used]
        defined |= set(re.findall(r"%(\w+)", left))
    types = {**VALUES, **VALUES_OF.get(mnemonic, {})}
    cache = re.search(r"!ingot\.kv_cache<[^>]*>", code)
    if cache:
        types["cache"] = cache.group(0)
    arguments = ", ".join(f"%{v}: {types[v]}" for v in used)
    return PRELUDE + f"func.func @example({arguments}) {{\n{code}\nreturn\n}}\n"


def parse(source):
    done = subprocess.run([os.path.join(BUILD, "bin", "ingot-opt")], input=source, text=True, capture_output=True, check=False)
    return done.returncode == 0, done.stderr, done.stdout


def read(name):
    with open(os.path.join(ROOT, "dialects", "ingot", name), encoding="utf-8") as f:
        return f.read()


def main():
    failures, count, ops = [], 0, {}
    for name, names, body in records(read("IngotOps.td"), "Ingot_(?:Pure|Elementwise)?Op"):
        if name.startswith("Ingot_") and name.endswith("Op"):
            ops[names[0]] = body
    if len(ops) < 20:
        failures.append(f"found only {len(ops)} ops: the pattern of definitions is out of date")
    for mnemonic, body in ops.items():
        see = re.search(r"Example: see `(\w+)`", body)
        shown = example(ops.get(see.group(1), "")) if see else example(body)
        if mnemonic == "yield":
            shown, see = example(ops["parameter"]), True
        if not shown or f"ingot.{mnemonic}" not in shown:
            failures.append(f"{mnemonic}: no example shows it")
            continue
        if see:
            continue
        good, errors, printed = parse(wrap(mnemonic, shown))
        count += 1
        if not good or f"ingot.{mnemonic}" not in printed:
            failures.append(f"{mnemonic}: {errors.strip() or 'the op is not in what was printed'}")
    for name, _, body in records(read("IngotBase.td"), "Ingot_(?:Type|Attr)"):
        shown = example(body)
        if not shown:
            continue
        count += 1
        text = f"func.func private @f({shown})" if shown.startswith(("!", "tensor")) else f"func.func private @f() attributes {{a = {shown}}}"
        good, errors, _ = parse(text)
        if not good:
            failures.append(f"{name}: {errors.strip()}")
    # The test itself: a wrong example is seen.
    if parse(wrap("rms_norm", "%y = ingot.rms_norm %x, %w eps = -1.0 : tensor<?x32xf32>, tensor<32xf32>"))[0]:
        failures.append("an example that breaks a constraint was taken for right")
    print("\n".join(failures) if failures else f"{count} examples")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
