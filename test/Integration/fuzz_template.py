#!/usr/bin/env python3
"""Compares Ingot's chat templates with transformers on generated templates; run by hand, see template_reference.py for what it
needs, and

    ninja -C build/release template-driver

    fuzz_template.py [--count N] [--seed S] [--driver PROGRAM]

Each template is made of statements, expressions, filters, tests and methods at random, and rendered over a few conversations.
An error must be one on both sides (its words may differ, but for raise_exception's). Prints each difference, at most 20, and
exits 1, or prints what was compared. What Ingot refuses by name counts as neither.
"""
import argparse
import json
import os
import random
import re
import subprocess
import sys

from template_reference import render

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
REFUSED = re.compile(r"not supported|cannot be printed|beyond 64 bits|too much text|runs too long|nested too deeply|"
                     r"nested deeper|letters, digits and underscores of ASCII")

TEXTS = ["", "a", "Hello World", "  padded \n", "<think>\nhm\n</think>\n\nyes", "don't \"quote\"", "é日本🙂", "ﬁne ǅ ß İ ΑΣ ΑΣΑ", "a,b,,c", "12",
         " 3.50 ", "-7", "1e3", "0x1f", "tab\there", "line1\nline2\r\nline3\n", "%s and %d", "{0} {name}", "{{ x }}", "UPPER lower", "a-b (c) [d]",
         "\u2028sep\u0085x", "\x00\x1f\x7f", "1_000", "inf", "nan", "True", "\\n", "</s>", "ŉ ῼ ŀ ʰ", "Ⅷ ² ٣"]
MESSAGES = [
    [{"role": "user", "content": "Hello"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": None, "tool_calls": [
        {"type": "function", "id": "c1", "function": {"name": "get", "arguments": {"city": "Zürich", "n": 3, "f": 1.5, "ok": True, "no": None}}}]},
     {"role": "tool", "content": "{\"t\": 1}", "name": "get"}, {"role": "user", "content": "thanks"}],
    [{"role": "user", "content": [{"type": "text", "text": "part"}, {"type": "image"}]}, {"role": "assistant", "content": " x ", "thinking": "hm"}],
]
TOOLS = [{"type": "function", "function": {"name": "get", "description": "Gets <it> & \"that\".", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "n": {"type": ["integer", "null"]}, "Abc": {"enum": ["x", "y"]}}, "required": ["city"]}}}]
NUMBERS = ["0", "1", "2", "3", "-1", "7", "10", "100", "1.5", "-0.5", "2.0", "1e20", "0.1", "1e-7", "123456789012345678", "2.675", "0.5", "1.0e16"]


class Maker:
    def __init__(self, r):
        self.r = r
        self.names = ["x", "y", "s", "n", "l", "d", "missing", "messages", "tools", "nest", "mixed", "flag", "nothing"]

    def pick(self, *choices):
        return self.r.choice(choices)

    def literal(self):
        t = self.r.choice(TEXTS)
        out = "".join({"\\": "\\\\", "'": "\\'", "\n": self.pick("\\n", "\n"), "\t": "\\t", "\r": "\\r", "\0": "\\0"}.get(c, c) for c in t)
        return f"'{out}'" if self.r.random() < 0.7 else '"' + out.replace('"', '\\"') + '"'

    def text(self, d):
        """An expression that is likely a string."""
        k = self.r.randint(0, 9)
        if d <= 0 or k < 3:
            return self.pick("s", "x", "messages[0].role", "m.content", "messages[-1]['content']", self.literal(), self.literal(), "tools[0].function.name")
        if k < 6:
            return self.method(self.text(d - 1), d)
        if k < 8:
            return f"{self.operand(self.text(d - 1))} | {self.text_filter(d - 1)}"
        if k == 8:
            return f"({self.text(d - 1)} {self.pick('+', '~')} {self.text(d - 1)})"
        return f"{self.operand(self.text(d - 1))}[{self.slice(d)}]"

    def operand(self, e):
        return e if re.fullmatch(r"[\w.]+|'[^'\\]*'", e) else f"({e})"

    def slice(self, d):
        n = lambda: self.pick("", "", "0", "1", "2", "-1", "-2", "5", "100", "-100", "n")
        return f"{n()}:{n()}" if self.r.random() < 0.6 else f"{n()}:{n()}:{self.pick('', '1', '-1', '2', '-2', '3', '0')}"

    def method(self, e, d):
        a = lambda: self.pick("'a'", "' '", "'l'", "'\\n'", "''", "','", "'<think>'", "'</think>'", "'.'", "s", "'é'")
        n = lambda: self.pick("0", "1", "2", "-1", "10", "20")
        m = self.pick("strip()", "lstrip()", "rstrip()", f"strip({a()})", f"lstrip({a()})", f"rstrip({a()})", "upper()", "lower()", "title()",
                      "capitalize()", "swapcase()", f"split({a()})[0]", f"split({a()})[-1]", "split()", f"split({a()}, {n()})", f"rsplit({a()}, {n()})",
                      f"split(none, {n()})", f"rsplit(None, {n()})", "splitlines()", "splitlines(true)", f"replace({a()}, {a()})", f"replace({a()}, {a()}, {n()})",
                      f"startswith({a()})", f"endswith({a()})", f"startswith(('a', {a()}))", f"find({a()})", f"rfind({a()})", f"count({a()})", f"index({a()})",
                      f"find({a()}, {n()})", f"count({a()}, {n()}, {n()})", f"partition({a()})", f"rpartition({a()})", f"removeprefix({a()})",
                      f"removesuffix({a()})", f"center({n()})", f"ljust({n()}, '*')", f"rjust({n()})", f"zfill({n()})", "isdigit()", "isalpha()", "isalnum()",
                      "isspace()", "isupper()", "islower()", "istitle()", "isnumeric()", "isdecimal()", "isascii()", "isprintable()", f"join({self.seq(0)})",
                      "expandtabs()", "expandtabs(4)", f"format({self.any(0)}, name={self.any(0)})", "format()", f"splitlines(keepends={self.boolean(0)})")
        return f"{self.operand(e)}.{m}"

    def text_filter(self, d):
        return self.pick("trim", "upper", "lower", "title", "capitalize", "string", "length", "safe", "escape", "e", "indent", "indent(2)", "indent(2, true)",
                         "indent('> ', first=true, blank=true)", "replace('l', 'L')", "replace('', '-')", "replace('a', 'b', 1)", "trim('a ')", "reverse", "list", "first",
                         "last", "tojson", "int", "float", "int(default=-1)", "int(base=16)", "int(5, 0)", "default('dflt')", "default('dflt', true)", "d(1)", "truncate(5)", "truncate(8, true)", "truncate(5, false, '', 0)",
                         "center(20)", "center", "format(1, 2)", "format(name=1)", "abs", "count", "unique | list", "sort", "join('-')", "batch(2) | list", "map('upper') | list", "select | list",
                         "upper | lower", "items | list", "max", "min", "string | length", "attr('upper')", "round")

    def number(self, d):
        k = self.r.randint(0, 8)
        if d <= 0 or k < 4:
            return self.pick("n", "loop.index", "loop.index0", "messages | length", *NUMBERS)
        if k < 7:
            operator = self.pick('+', '-', '*', '/', '//', '%', '**')
            # Jinja computes powers of constants when it compiles, and may need for ever.
            right = self.pick("0", "1", "2", "-1", "0.5", "n") if operator == "**" else self.number(d - 1)
            return f"({self.number(d - 1)} {operator} {right})"
        f = self.pick("int", "float", "abs", "round", "round(1)", "round(2)", "round(0)", "round(-1)", "round(1, 'floor')", "round(1, 'ceil')", "string", "tojson", "default(0)")
        return f"{self.operand(self.number(d - 1))} | {f}"

    def seq(self, d):
        k = self.r.randint(0, 10)
        if d <= 0 or k < 4:
            return self.pick("l", "messages", "mixed", "[1, 2, 3]", "['b', 'a', 'C']", "d", "range(4)", "range(5, 0, -2)", "tools", "'abc'", "()", "[]", "(1,)", "nest", "d.items()", "d.keys()",
                             "d.values()", "messages[1:]", "messages[::-1]", "none", "missing", "{'b': 1, 'a': 2}", "[3, 1, 2]", "[[2, 'x'], [1, 'y']]", "[true, 1, 1.0, 'a', 'A']")
        if k < 9:
            return f"{self.operand(self.seq(d - 1))} | {self.seq_filter(d - 1)}"
        if k == 9:
            return f"({self.seq(d - 1)} + {self.seq(d - 1)})"
        return f"[{self.any(d - 1)}, {self.any(d - 1)}]"

    def seq_filter(self, d):
        t = self.pick("'string'", "'defined'", "'none'", "'odd'", "'equalto', 1", "'in', ['user', 1]", "'mapping'", "'number'", "'lessthan', 3", "'eq', 'user'", "'sameas', true")
        return self.pick("list", "length", "first", "last", "sort", "sort(reverse=true)", "sort(attribute='role')", "sort(case_sensitive=true)", "sort(attribute='role,content')", "unique | list",
                         "unique(case_sensitive=true) | list", "reverse | list", "join(', ')", "join", "join('-', attribute='role')", "map(attribute='role') | list", "map(attribute='x.y', default='?') | list",
                         "map('string') | list", "map('upper') | join", "map('default', 'z') | list", f"select({t}) | list", f"reject({t}) | list", "select | list", f"selectattr('role', {t}) | list",
                         "selectattr('content') | list", f"rejectattr('role', {t}) | list | length", "batch(2) | list", "batch(2, 'f') | list", "slice(2) | list", "slice(3, 'f') | list", "sum", "sum(start=5)",
                         "min", "max", "items | list", "dictsort", "dictsort(reverse=true)", "dictsort(by='value')", "groupby('role')", "groupby(0)", "tojson", "tojson(indent=2)", "tojson(indent=4, sort_keys=true)",
                         "tojson(ensure_ascii=true)", "tojson(separators=(',', ':'))", "string", "default([])", "count", "map('length') | list", "select('defined') | first", "map(attribute=0) | list", "selectattr(0) | list", "tojson(sort_keys=true)")

    def boolean(self, d):
        k = self.r.randint(0, 9)
        if d <= 0 or k < 2:
            return self.pick("true", "false", "flag", "loop.first", "loop.last", "tools", "missing", "none", "s", "n", "l")
        if k < 4:
            return f"({self.any(d - 1)} {self.pick('==', '!=', '<', '>', '<=', '>=')} {self.any(d - 1)})"
        if k == 4:
            return f"({self.number(d - 1)} {self.pick('<', '<=', '==')} {self.number(d - 1)} {self.pick('<', '>', '!=')} {self.number(d - 1)})"
        if k == 5:
            return f"({self.any(d - 1)} {self.pick('in', 'not in')} {self.seq(d - 1)})"
        if k == 6:
            return f"({self.boolean(d - 1)} {self.pick('and', 'or')} {self.boolean(d - 1)})"
        if k == 7:
            return f"not {self.boolean(d - 1)}"
        t = self.pick("defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "float", "boolean", "true", "false", "odd", "even", "divisibleby 2",
                      "divisibleby(3)", "eq 1", "ne 'a'", "lt 3", "gt(2)", "le 1", "ge 1", "in ['a', 1]", "sameas none", "sameas true", "callable", "lower", "upper", "escaped", "filter", "test")
        return f"({self.operand(self.any(d - 1))} is {self.pick('', 'not ')}{t})"

    def any(self, d):
        k = self.r.randint(0, 13)
        if k < 4:
            return self.text(d)
        if k < 6:
            return self.number(d)
        if k < 8:
            return self.seq(d)
        if k < 10:
            return self.boolean(d)
        if k == 10 and d > 0:
            return f"({self.any(d - 1)} if {self.boolean(d - 1)}{self.pick(' else ' + self.any(d - 1), ' else ' + self.any(d - 1), '')})"
        if k == 11 and d > 0:
            return "{" + f"'k': {self.any(d - 1)}, {self.literal()}: {self.any(d - 1)}, 1: {self.any(d - 1)}" + "}"
        if k == 12 and d > 0:
            return f"{self.operand(self.any(d - 1))}{self.pick('.k', '.role', '[0]', '[-1]', '.items()', '.get(1)', chr(91) + repr('k') + chr(93), '.get(' + repr('role') + ', 5)', '.keys() | list', '.foo', '[n]', '.x.y', '.count(1)', '.index(1)', '.upper', '.append', '.__class__')}"
        if k == 13 and d > 0:
            return f"({self.pick(repr('%s|%5s|%-5s|%r'), repr('%d %5d %-4d| %05d %+d %x %X %o'), repr('%.2f %8.3f %e %g %5.1f%%'), repr('%s'), repr('%(k)s'), repr('%5.2s|'), repr('%i'))} % {self.any(d - 1)})"
        return self.pick("ns.a", "ns.b", "f(1)", "f(x, b=2)", "f('a', 2, 3)", "f()", "bos_token", "g(l)", "loop.cycle('o', 'e')", "loop.revindex", "loop.length", "loop.previtem", "loop.nextitem", "loop.changed(n)", "loop.depth", "m", "r(3)", "dict(a=1)", "dict(d, z=2)", "namespace(q=1).q")

    def ws(self, kind="%"):
        return self.pick("", "", "", "-"), self.pick("", "", "", "-") if kind == "{" else self.pick("", "", "", "-", "+")

    def tag(self, inside):
        a, b = self.ws()
        a = self.pick(a, a, a, "+") if not a else a
        return "{%" + a + " " + inside + " " + b + "%}"

    def gap(self):
        return self.pick("", "", "\n", " ", "\n  ", "text", " a b \n", "\n\n", "\t", "{# c #}", "{#- c -#}\n", "{# c\n #}\n", "  {%- raw %} {{ x }} {% endraw -%} \n")

    def body(self, d, loop=False):
        return "".join(self.gap() + self.statement(d, loop) for _ in range(self.r.randint(1, 3))) + self.gap()

    def statement(self, d, loop):
        k = self.r.randint(0, 16)
        if d <= 0 or k < 5:
            a, b = self.ws("{")
            return "{{" + a + " " + self.any(2) + " " + b + "}}"
        if k < 7:
            e = "".join(self.tag(f"elif {self.boolean(1)}") + self.body(d - 1, loop) for _ in range(self.r.randint(0, 1)))
            o = self.tag("else") + self.body(d - 1, loop) if self.r.random() < 0.5 else ""
            return self.tag(f"if {self.boolean(2)}") + self.body(d - 1, loop) + e + o + self.tag("endif")
        if k < 10:
            target = self.pick("m", "x", "i", "k, v", "(a, b)")
            over = "d.items()" if "," in target and self.r.random() < 0.7 else self.seq(1)
            test = f" if {self.boolean(1)}" if self.r.random() < 0.25 else ""
            o = self.tag("else") + self.body(d - 1, loop) if self.r.random() < 0.3 else ""
            return self.tag(f"for {target} in {over}{test}") + self.body(d - 1, True) + o + self.tag("endfor")
        if k < 12:
            target = self.pick("x", "y", "n", "s", "z", "ns.a", "ns.b", "ns.c", "a, b")
            return self.tag(f"set {target} = {self.any(2)}")
        if k == 12:
            f = self.pick("", " | upper", " | trim", " | replace('a', 'b') | trim")
            return self.tag(f"set {self.pick('x', 'z', 's', 'ns.a')}{f}") + self.body(d - 1, loop) + self.tag("endset")
        if k == 13:
            name = self.pick("f", "g", "h")
            return self.tag(f"macro {name}({self.pick('', 'a', 'a, b=1', 'a, b=a', 'x=5')})") + self.body(d - 1) + self.pick("", "{{ varargs }}", "{{ kwargs }}", "{{ caller() }}", "{{ caller(1) }}") + self.tag("endmacro")
        if k == 14:
            return self.tag(f"call{self.pick('', '', '(q)')} {self.pick('f(1)', 'g()', 'h(x)')}") + self.body(d - 1) + self.tag("endcall")
        if k == 15:
            return self.pick(lambda: self.tag("generation") + self.body(d - 1) + self.tag("endgeneration"),
                             lambda: self.tag(f"filter {self.pick('upper', 'trim', 'indent(2)', 'replace(x, s)')}") + self.body(d - 1, loop) + self.tag("endfilter"),
                             lambda: self.tag(f"with x = {self.any(1)}, q = x") + self.body(d - 1, loop) + self.tag("endwith"))()
        if loop and self.r.random() < 0.7:
            return self.tag(f"if {self.boolean(1)}") + self.tag(self.pick("break", "continue")) + self.tag("endif")
        return "{{ raise_exception(" + self.text(1) + ") }}" if self.r.random() < 0.1 else self.tag("print x, n")

    def template(self):
        head = "{%- set ns = namespace(a=1, b='t') -%}" if self.r.random() < 0.9 else ""
        if self.r.random() < 0.6:
            head += "{%- macro f(a, b=2) -%}[{{ a }}{{ b }}{{ x }}]{%- endmacro -%}{% macro r(i) %}{{ i }}{% if i > 0 %}{{ r(i - 1) }}{% endif %}{% endmacro %}"
        if self.r.random() < 0.4:
            head += "{%- macro g(a) %}<{{ a | list | length if a is iterable }}{{ caller(7) if caller }}>{% endmacro -%}"
        k = self.r.random()
        if k < 0.55:  # one or two expressions: most run to their end
            return (head if self.r.random() < 0.5 else "") + "".join("{{ " + self.any(self.pick(1, 1, 2)) + " }}|" for _ in range(self.pick(1, 1, 2)))
        return head + self.body(1 if k < 0.85 else 3)


def given(r):
    out = {"messages": r.choice(MESSAGES), "add_generation_prompt": r.random() < 0.5, "x": r.choice(TEXTS), "s": r.choice(TEXTS), "n": r.choice([0, 1, 3, -2, 2.5, 10]),
           "l": r.choice([[1, 2, 3], ["b", "a", "B"], [], [[1, 2], [3, 4]], [None, True, "x", 1.5]]), "d": r.choice([{"a": 1, "b": "x"}, {}, {"Z": [1], "y": None, "items": 3}]),
           "nest": {"a": {"b": [1, {"c": "é\n"}]}}, "mixed": [1, "a", None, True, 2.0, [1], {"k": "v"}], "flag": r.random() < 0.5, "nothing": None}
    if r.random() < 0.5:
        out["tools"] = TOOLS
    return out


def kind_of(answer):
    return "output" if "output" in answer else "compile" if "compile" in answer else "error"


def differs(mine, theirs):
    """None: the same; "": not comparable."""
    words = mine.get("compile", "") + mine.get("error", "")
    if REFUSED.search(words) and "output" not in mine:
        return ""
    if " at 0x" in theirs.get("output", ""):
        return ""
    if kind_of(mine) != kind_of(theirs):
        # Jinja finds some errors when it compiles that are found here when the template runs, and the other way round.
        return None if {kind_of(mine), kind_of(theirs)} == {"compile", "error"} else "kinds"
    if "output" in mine:
        return None if mine["output"] == theirs["output"] else "texts"
    if "raised" in theirs:
        return None if mine.get("error") == theirs["raised"] else "messages"
    return None


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--count", type=int, default=20000, help="templates; each is rendered twice")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--driver", default=f"{ROOT}/build/release/test/template-driver")
    o = ap.parse_args()
    driver = subprocess.Popen([o.driver], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
    found, counts = 0, {"output": 0, "error": 0, "compile": 0, "refused": 0}
    for i in range(o.count):
        r = random.Random(f"{o.seed}/{i}")
        template = Maker(r).template()
        for request in [given(r) for _ in range(2)]:
            specials = {"bos_token": "<s>", "eos_token": "</s>"}
            theirs = render(template, specials, request)
            driver.stdin.write(json.dumps({"template": template, "specials": specials, "input": request}, ensure_ascii=False) + "\n")
            driver.stdin.flush()
            line = driver.stdout.readline()
            if not line:
                sys.exit(f"the driver died of template {i}:\n{template!r}\n{json.dumps(request)}")
            mine = json.loads(line)
            difference = differs(mine, theirs)
            counts["refused" if difference == "" else kind_of(mine)] += 1
            if difference:
                found += 1
                print(f"--- {i}: {difference}\n{template!r}\n{json.dumps(request, ensure_ascii=False)}\n  reference {theirs}\n  ingot     {mine}\n")
                if found == 20:
                    sys.exit(1)
                break
    print(f"{sum(counts.values())} renderings: " + ", ".join(f"{n} {k}" for k, n in counts.items()) + f"; {found} differences")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
