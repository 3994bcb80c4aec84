#!/usr/bin/env python3
"""Writes template_cases.json and chat_cases.json: what the reference renders, and the ids it makes of it. Run by hand, see
template_reference.py.

    make_template_cases.py

template_cases.json: small templates for each feature, and a sample of what fuzz_template.py generates. chat_cases.json:
conversations through the tokenizers of cases/tokenizer-*, in which no message holds the text of a special token.
"""
import json
import os
import random

from fuzz_template import Maker, given, kind_of
from template_reference import render

HERE = os.path.dirname(os.path.abspath(__file__))
SPECIALS = {"bos_token": "<s>", "eos_token": "</s>"}
DATA = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi, <you> & 'me'"},
                     {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1, "y": [1.5, None, True]}}}]}],
        "s": " Hello, World \n", "l": [3, 1, 2], "w": ["b", "a", "B", "c"], "d": {"b": 1, "a": {"k": "v"}, "C": None}, "n": 7, "f": 2.5, "yes": True,
        "people": [{"name": "Ann", "age": 3}, {"name": "bob", "age": 1}, {"name": "Cid"}], "u": "é日本🙂ß", "big": 123456789012345678901234567890}

FEATURES = {
    "white space": ["a\n  {% if yes %}\n  b\n  {% endif %}\nc\n", "a\n  {%- if yes -%}\n  b\n  {%- endif -%}\n c", "a {%+ if yes +%}\n b{% endif %}\n", "  {# c #}\nx\n  {#- c -#}  \ny",
                    "x {{- ' y ' -}} z", "{% raw %}\n {{ x }} {% endraw %}\nz", "  {%- raw -%}  {{ x }}  {%- endraw -%}  z", "a\r\nb\r{{ s }}\n", "{{ 1 }}\n\n", "\n\n{% set x = 1 %}\n\n{{ x }}", "{% if yes %}\n\tx\n\t{% endif %}y",
                    "\t {% set a = 1 %}\t\n{{ a }}", "{{ '}}' }}{{ '%}' }}{{ {'a': {'b': 1}} }}"],
    "literals": ["{{ 1_000 }} {{ 0x1F }} {{ 0b11 }} {{ 0o17 }} {{ 1e3 }} {{ 1.5e-3 }} {{ 1_0.5 }}", r"{{ 'a\tb\'c\\d\x41\u00e9\U0001f642\101\q' }}", "{{ \"it's\" 'two' }}", "{{ 'é\\é' }}", "{{ (1,) }} {{ () }} {{ (1, 2) }} {{ [1, 'a', none, true] }}",
                 "{{ {'a': 1, 2: 'b', none: true, 1.5: [1]} }}", "{{ true }} {{ False }} {{ none }} {{ None }}", "{{ 'a\n  b' }}", "{{ 1.0 }} {{ 1e16 }} {{ 1e15 }} {{ 0.0001 }} {{ 0.00001 }} {{ 1/3 }} {{ -0.0 }}", "{{ big }} {{ [big] }}"],
    "operators": ["{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % -3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 2 ** -1 }}", "{{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1 + 2.0 }} {{ true + 1 }}", "{{ 'a' ~ 1 ~ none ~ 2.5 }} {{ 'ab' * 3 }} {{ [1] * 2 + [3] }}",
                  "{{ 1 < 2 < 3 }} {{ 1 < 3 > 2 != 5 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ (1, 'a') <= (1, 'b') }}", "{{ 1 == 1.0 == true }} {{ 'a' == 1 }} {{ none == false }} {{ [1] == [1.0] }} {{ {'a': 1} == {'a': 1} }}",
                  "{{ 'b' in 'abc' }} {{ 'a' in d }} {{ 2 in l }} {{ 9 not in l }} {{ 'x' in missing }}", "{{ 0 or 'x' }} {{ 'a' and '' }}| {{ not [] }} {{ not missing }}", "{{ 'y' if yes }} {{ 'n' if not yes }}| {{ 1 if 0 else 2 if 0 else 3 }}", "{{ '%s-%5.1f-%03d-%x-%r-%%' % ('a', 2.55, 7, 255, 'q') }}",
                  "{{ '%(a)s %(b)d' % {'a': 1, 'b': 2} }} {{ '%-5s|%5s|' % ('a', 'b') }} {{ '%+d % d %e %g' % (1, 2, 12345.678, 0.0001) }}"],
    "slices": ["{{ s[1:4] }}|{{ s[::-1] }}|{{ s[-3:] }}|{{ s[:100] }}|{{ u[1:3] }}|{{ u[-1] }}|{{ u[::2] }}", "{{ l[1:] }} {{ l[::-1] }} {{ l[-1] }} {{ l[5:] }} {{ l[2:0:-1] }} {{ (1, 2, 3)[1:] }}", "{{ l[9] is defined }} {{ s.0 }} {{ d['a'].k }} {{ d.a['k'] }} {{ d.get('zz', 'no') }} {{ d['zz'] is defined }}",
               "{{ messages[2].tool_calls[0].function.arguments.y[1] is none }}"],
    "loops": ["{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('o', 'e') }}{{ loop.changed(x > 1) }};{% endfor %}",
              "{% for x in [] %}x{% else %}none{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}", "{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% endfor %}", "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% if loop.last %}{% break %}{% endif %}{% endfor %}",
              "{% for x in 'añ' %}{{ x }}.{% endfor %}{% for x in range(3) %}{{ x }}{% endfor %}{% for x in range(5, 0, -2) %}{{ x }}{% endfor %}", "{% for x in l %}{% for y in w %}{{ loop.index }}{{ loop.last }}{% endfor %}{{ loop.index }}{% endfor %}", "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
              "{% set ns = namespace(go=true) %}{% for x in l if ns.go %}{{ x }}{% set ns.go = false %}{% endfor %}", "{% for m in messages %}{% if loop.previtem and loop.previtem.role == 'system' %}{{ m.role }}{% endif %}{% endfor %}", "{% set g = l | map('string') %}{% for x in g %}{{ x }}{% endfor %}|{% for x in g %}{{ x }}{% endfor %}"],
    "scopes": ["{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }},{% endfor %}{{ x }}", "{% set x = 1 %}{% if yes %}{% set x = 2 %}{% endif %}{{ x }}", "{% for i in l %}{% if loop.first %}{% set y = i %}{% endif %}{{ y }},{% endfor %}{{ y is defined }}", "{% if n > 100 %}{% set z = 1 %}{% endif %}{{ z is defined }}{{ n }}",
               "{% set n = n + 1 %}{{ n }}{% macro m() %}{{ n }}{% endmacro %}{% set n = 50 %}{{ m() }}", "{% macro m(x) %}{% set y = x %}{{ y }}{% endmacro %}{{ m(1) }}{{ y is defined }}", "{% with a = 1, b = n %}{{ a }}{{ b }}{% set a = 5 %}{{ a }}{% endwith %}{{ a is defined }}", "{% set ns = namespace(a=1) %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b is defined }}{{ ns }}",
               "{% set x %}a{{ n }}{% endset %}{{ x | upper }}{% set y | trim | upper %} b {% endset %}[{{ y }}]", "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set a, b = b, a %}{{ a }}{{ b }}", "{% for n in l %}{{ n }}{% endfor %}{{ n }}", "{% set ns = namespace() %}{% set ns.x, y = 1, 2 %}{{ ns.x }}{{ y }}", "{% for x in l %}{% set loop_x = x %}{% macro q() %}{{ x }}{{ loop_x }}{% endmacro %}{{ q() }}{% endfor %}"],
    "macros": ["{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, c=3) }} {{ m(b=5, a=4) }} {{ m() }}", "{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, k=4) }}", "{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}body{{ n }}{% endcall %}", "{% macro m(l) %}{% for x in l %}{{ caller(x, loop.index) }}{% endfor %}{% endmacro %}{% call(x, i) m(l) %}[{{ i }}:{{ x }}]{% endcall %}",
               "{% macro r(x) %}{{ x }}{% if x > 0 %}{{ r(x - 1) }}{% endif %}{% endmacro %}{{ r(3) }}", "{% macro m(a, b) %}{{ b is defined }}{{ a }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 5}) }}", "{% macro m() %}x{% endmacro %}{{ m.name }}{{ m() | upper }}{{ m() ~ m() }}", "{% macro outer() %}{% macro inner() %}i{{ n }}{% endmacro %}{{ inner() }}{% endmacro %}{{ outer() }}"],
    "filters": ["{{ s | trim }}|{{ s | upper }}|{{ s | lower }}|{{ 'hello wORLD-foo (bar)' | title }}|{{ 'hELLO' | capitalize }}|{{ 5 | string ~ 1 }}", "{{ s | replace('l', 'L') }}{{ 'aaa' | replace('a', 'b', 2) }}{{ 'ab' | replace('', '-') }}", "{{ l | join(', ') }}{{ l | join }}{{ people | join('-', attribute='name') }}", "{{ l | first }}{{ l | last }}{{ [] | first is defined }}{{ l | length }}{{ d | count }}",
                "{{ missing | default('d') }}{{ '' | default('e') }}{{ '' | default('f', true) }}{{ none | d('g') }}", "{{ people | map(attribute='age', default=0) | list }}{{ w | map('upper') | list }}{{ [[1, 2]] | map('sum') | list }}", "{{ l | select('odd') | list }}{{ l | reject('equalto', 1) | list }}{{ people | selectattr('age', 'defined') | map(attribute='name') | list }}{{ people | rejectattr('name', 'in', ['Ann']) | list | length }}{{ [0, 1] | select | list }}",
                "{{ w | sort }}{{ w | sort(case_sensitive=true) }}{{ l | sort(reverse=true) }}{{ people | sort(attribute='name') | map(attribute='name') | list }}", "{{ ['a', 'A', 'b', 'a'] | unique | list }}{{ [1, 1.0, true, 2] | unique | list }}", "{{ d | items | list }}{{ d | dictsort }}{{ d | dictsort(true) }}{{ {'a': 2, 'b': 1} | dictsort(by='value', reverse=true) }}", "{{ '42' | int }}{{ '4x' | int(9) }}{{ '3.9' | int }}{{ '0x1a' | int(0, 16) }}{{ ' 7 ' | int }}{{ 3.99 | int }}{{ none | int(5) }}{{ '1_0' | int }}",
                "{{ '1.5' | float }}{{ 'x' | float(2.5) }}{{ 3 | float }}{{ '-1e3' | float }}", "{{ -5 | abs }}{{ 2.5 | round }}{{ 3.5 | round }}{{ 2.675 | round(2) }}{{ 1234.5 | round(-2) }}{{ 2.1 | round(0, 'ceil') }}{{ 2.19 | round(1, 'floor') }}{{ 7 | round }}", "{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a\n\nb' | indent('> ', blank=true) }}", "{{ 'abc' | reverse }}{{ l | reverse | list }}",
                "{{ l | batch(2) | list }}{{ l | batch(2, 'x') | list }}{{ l | slice(2) | list }}{{ l | slice(2, 0) | list }}", "{{ l | sum }}{{ people | selectattr('age', 'defined') | sum(attribute='age') }}{{ l | min }}{{ w | max }}{{ w | max(case_sensitive=true) }}", "{{ people | selectattr('age', 'defined') | groupby('age') }}{% for g in w | groupby(0) %}{{ g.grouper }}{{ g.list }}{% endfor %}", "{{ '<a>' | safe + '<b>' }}{{ '<a href=\"x\">' | e }}{{ ('<' | safe) ~ '<' }}",
                "{{ 'foo bar baz qux' | truncate(9) }}|{{ 'foo bar baz' | truncate(7, true, '', 0) }}|{{ 'abc' | center(9) }}|{{ '%s %s' | format(1, 'a') }}|{{ '%(x)s' | format(x=3) }}", "{% filter upper | trim %} a{{ n }} {% endfilter %}", "{{ 'abc' | list }}{{ d | list }}{{ (1, 2) | list }}{{ l | attr('count') is callable }}"],
    "json": ["{{ d | tojson }}", "{{ messages | tojson(indent=2) }}", "{{ d | tojson(indent=4, sort_keys=true) }}", "{{ u | tojson }}{{ u | tojson(ensure_ascii=true) }}", "{{ [1.0, 1e20, 1e-7, none, true, 'a\"\\\\\n\x01\x7f</'] | tojson }}", "{{ {1: 2, none: 3, true: 4, 1.5: 5} | tojson }}{{ (1, 2) | tojson }}{{ {} | tojson(indent=2) }}{{ [[], {}] | tojson(indent=1) }}", "{{ l | tojson(separators=(',', ':')) }}{{ d | tojson(indent='--') }}{{ big | tojson }}", "{{ '<b>' | tojson }}{{ l | tojson(indent=0) }}"],
    "tests": ["{{ n is odd }}{{ n is even }}{{ n is divisibleby 7 }}{{ n is divisibleby(2) }}{{ n is number }}{{ n is integer }}{{ f is float }}{{ yes is number }}{{ yes is integer }}{{ yes is boolean }}", "{{ s is string }}{{ d is mapping }}{{ l is iterable }}{{ s is iterable }}{{ n is iterable }}{{ l is sequence }}{{ d is sequence }}{{ d.items() is sequence }}{{ missing is sequence }}",
              "{{ missing is defined }}{{ missing is undefined }}{{ none is none }}{{ none is defined }}{{ true is true }}{{ 1 is true }}{{ false is false }}", "{{ n is eq 7 }}{{ n is ne(7) }}{{ n is lt 9 }}{{ n is gt(9) }}{{ n is le 7 }}{{ n is ge 8 }}{{ n is equalto 7 }}{{ 'a' is in ['a'] }}{{ n is sameas n }}", "{{ 'abc' is lower }}{{ 'ABC' is upper }}{{ '1' is upper }}{{ range is callable }}{{ s.upper is callable }}{{ 'upper' is filter }}{{ 'odd' is test }}", "{{ n is not none }}{{ not n is none }}{{ n is defined and n > 3 }}{{ 'x' if n is defined else 'y' }}"],
    "methods": ["{{ s.strip() }}|{{ s.lstrip() }}|{{ s.rstrip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'a,b,c'.split(',') }}{{ 'a b  c'.split() }}{{ 'a,b,c'.split(',', 1) }}{{ 'a,b,c'.rsplit(',', 1) }}{{ ''.split(',') }}{{ ''.split() }}", "{{ s.startswith(' H') }}{{ s.endswith(('x', '\n')) }}{{ s.find('o') }}{{ s.rfind('o') }}{{ s.find('zz') }}{{ s.count('l') }}{{ s.index('H') }}{{ u.find('🙂') }}",
                "{{ 'a-b'.partition('-') }}{{ 'a-b-c'.rpartition('-') }}{{ 'ab'.partition('-') }}{{ 'abc'.removeprefix('a') }}{{ 'abc'.removesuffix('c') }}{{ 'a\nb\r\nc'.splitlines() }}{{ 'a\nb'.splitlines(true) }}", "{{ 'ß'.upper() }}{{ 'ΑΣ'.lower() }}{{ 'ǆ'.title() }}{{ \"they're\".title() }}{{ 'aB'.swapcase() }}{{ 'éA'.capitalize() }}{{ 'İ'.lower() }}", "{{ '12'.isdigit() }}{{ 'a1'.isalnum() }}{{ 'é'.isalpha() }}{{ ' '.isspace() }}{{ ''.isdigit() }}{{ '²'.isdigit() }}{{ '²'.isdecimal() }}{{ 'Ab'.istitle() }}",
                "{{ '{} {1}'.format(1, 2) if false else '{} {}'.format(1, 'a') }}{{ '{0}{1}{0}'.format('a', 'b') }}{{ '{x.k} {y[0]}'.format(x=d.a, y=l) }}{{ '{:>5}|{:<5}|{:^5}|{:*^7}'.format(1, 'a', 'b', 'c') }}{{ '{:.2f} {:05d} {:,} {:x} {:%} {!r}'.format(1.005, 42, 1234567, 255, 0.5, 'q') }}", "{{ '-'.join(['a', 'b']) }}{{ 'a'.center(5, '*') }}{{ 'a'.ljust(3) }}|{{ 'a'.rjust(3) }}{{ '-5'.zfill(4) }}{{ 'a\tb'.expandtabs(4) }}{{ 'aXbX'.replace('X', '', 1) }}",
                "{{ d.keys() | list }}{{ d.values() | list }}{{ d.items() }}{{ d.get('b') }}{{ d.get('q') }}{{ d.copy() }}{{ l.count(1) }}{{ l.index(2) }}{{ (1, 2).index(2) }}{{ 2.0.is_integer() }}", "{{ {'items': 1}.items is callable }}{{ {'items': 1}['items'] }}{{ {'x': 1}.x }}"],
    "functions": ["{{ range(3) | list }}{{ range(1, 10, 4) | list }}{{ range(3) }}{{ dict(a=1, b=2) }}{{ dict([('x', 1)]) }}{{ dict({'a': 1}, b=2) }}", "{% if strftime_now is defined %}{{ strftime_now('%%') }}{{ strftime_now('%Y') | length }}{% endif %}", "{{ raise_exception('no ' ~ n) if n == 7 }}", "{{ raise_exception('never') if n == 8 }}fine", "{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}{{ tools is none }}{{ documents }}{{ add_generation_prompt }}"],
    "constants": ["{{ -1 ** n }} {{ -1 ** 2 }} {{ (2 - 5) ** n }} {{ -0.5 ** n }} {{ 2 ** n }} {{ (-1) ** f }} {{ (-1 ** -1) ** n }} {{ ('-2' | int) ** n }}", "{{ 5[:0] }}|{{ 5[:0] is defined }}|{{ {'a': 1}[:1] }}|{{ 'abc'['a':] | default('x') }}|{{ -1 ** (2 | abs) }}"],
    "rounding": ["{{ (1.0e16 // 1e-7) | round(-1) }} {{ 25.0 | round(-1) }} {{ 35.0 | round(-1) }} {{ 5.0 | round(-1) }} {{ 5.000001 | round(-1) }} {{ -15.5 | round(-1) }} {{ -4.9 | round(-1) }} {{ 99.5 | round(-2) }} {{ 50.0 | round(-2) }} {{ 50.5 | round(-2) }} {{ 49.0 | round(-3) }}",
                 "{{ 1.7e308 | round(-300) }} {{ 1.7e308 | round(-307) }} {{ 9.9e307 | round(-308) }} {{ 4e307 | round(-308) }} {{ 1.7e308 | round(-309) }} {{ 123456789.0 | round(-3) }} {{ 0.0 | round(-2) }} {{ -0.0 | round(-2) }} {{ 8.123456789e22 | round(-5) }}", "{{ 1.7e308 | round(-308) }}"],
    "division": ["{{ 2 / 123456789012345678 }} {{ n / 123456789012345678 }} {{ -n / 9007199254740993 }} {{ 9223372036854775807 / 3 }} {{ 9007199254740993 / 1 }} {{ 0 / -5 }} {{ 0 / -5.0 }}"],
    "markup": ["{{ '<' + (('<a>' | e) | list)[0] }} {{ '<' + ('<a>' | e | first) }} {{ '<' + ('<a>' | e | last) }} {{ '<' + ('<a>' | e)[0] }}{% for c in 'a>' | e %}{{ c + '<' }}{% endfor %}", "{{ '&' | e | sort }}{{ '&' | e | batch(2) | list }}{{ '<' + ('&' | e | reverse) }}"],
    "hashes": ["{{ [(1, 2), (1, 2)] | unique | list }}{{ {(1, 'a'): 2} }}{{ (1, 'a') in {(1, 'a'): 2} }}{{ d.values() in {1: 2} }}", "{{ [(1, [2])] | unique | list }}", "{{ {(1, [2]): 3} }}", "{{ d.items() in d }}", "{{ [d.keys()] | unique | list }}", "{{ d.get((1, {})) }}", "{{ dict([((1, []), 2)]) }}", "{{ d[(1, [])] is defined }}", "{{ [1] in d.keys() }}", "{{ ([1], 2) in d.items() }}", "{{ [1] in d.items() }}{{ [1] in d.values() }}", "{{ (1, []) is filter }}"],
    "undefined": ["{{ missing.__class__ }}|{{ [missing.__class__] }}{{ missing._undefined_name is defined }}{{ (none.x).__init__ }}", "{{ missing._x }}", "{{ missing.__foo__ }}", "{{ missing['__class__'] }}", "{{ missing.__class__.y }}"],
    "ends": ["{{ '  padded \n'.split(none, 0) }}{{ 'a  b  '.split(none, 1) }}{{ 'a  b  '.split(none, 2) }}{{ '  a  b '.rsplit(none, 1) }}{{ '  a  b '.rsplit(none, 0) }}{{ '  a '.split(maxsplit=1) }}", "{{ (0 / -0.5) | round(1, 'floor') }} {{ -0.2 | round(0, 'ceil') }} {{ -0.2 | round }}", "{{ [1, 1].count(1) }}{{ [1, 2, 1].index(1, 1) }}{{ (1, 1).count(1) }}", "{{ [1].count(1, 0, 2) }}", "{{ [1].count(value=1) }}", "{{ [1].index(value=1) }}", "{{ [1].count() }}"],
    "generation": ["{% for m in messages %}{% generation %}{{ m.role }}{% set q = 1 %}{{ q }}{% endgeneration %}{{ q is defined }}{% endfor %}"],
    "errors": ["{{ missing.x }}", "{{ missing() }}", "{{ none + 1 }}", "{{ 'a' + 1 }}", "{{ 1 // 0 }}", "{{ d | length + 'a' }}", "{{ 1 | length }}", "{{ [1] | first.x }}", "{{ l.append(4) }}", "{{ ''.__class__ }}", "{% for x in 5 %}{% endfor %}", "{% set a, b = [1] %}", "{{ 'x' | int | upper | foo }}", "{% if false %}{{ 1 | foo }}{% endif %}ok", "{% set d.x = 1 %}",
               "{{ {}[[]] }}", "{{ 'a' < 1 }}", "{{ range(1000000) }}", "{{ missing | tojson }}", "{{ '%d' % 'a' }}", "{{ 'a'.index('b') }}", "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "{{ loop }}", "{% for x in l %}{{ loop(x) }}{% endfor %}", "{{ namespace(_x=1) }}"],
    "syntax": ["{{ 1 + }}", "{% if %}{% endif %}", "{% for x in l %}", "{{ 'abc }}", "{% endif %}", "{{ (1 }}", "{{ a b }}", "{% foo %}", "{% if x %}{% else %}{% elif y %}{% endif %}", "{{ 1 is odd is even }}", "{# x", "{% raw %}x", "{% set 1 = 2 %}", "{% macro m(a, a2=1, b) %}{% endmacro %}", "{% break %}", "{% for loop in l %}{{ loop }}{% endfor %}", "{{ x | nofilter }}", "{{ x is notest }}", "{{ f(a=1, a=2) }}", "{{ f(a=1, 2) }}", "{{ 'a' 'b' }}{{ 3 3 }}"],
}

THINKING = """{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""
INSTRUCT = """{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{{ '[INST] ' + m.content + ' [/INST]' }}{% else %}{{ ' ' + m.content | trim + eos_token }}{% endif %}{% endfor %}"""
ROLES = """{% for m in messages %}{{ '<|im_' + ('start' if m.role != 'end' else 'end') + '|>' + m.role }}
{{ m.content }}{{ '<|im_end|>' }}
{% endfor %}"""
TALKS = {
    "question": {"messages": [{"role": "user", "content": "你好，请介绍一下你自己。"}], "add_generation_prompt": True, "enable_thinking": False},
    "turns": {"messages": [{"role": "system", "content": "Sei kurz."}, {"role": "user", "content": "Wie heißt du? 🙂"}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nIngot."},
                           {"role": "user", "content": "  2 + 2 = ?\n\n"}], "add_generation_prompt": True, "enable_thinking": True},
    "borders": {"messages": [{"role": "user", "content": "\n\nend"}, {"role": "assistant", "content": "start"}, {"role": "user", "content": " x"}], "add_generation_prompt": False},
}


def feature_cases():
    cases = []
    for name, templates in FEATURES.items():
        for template in templates:
            cases.append({"name": name, "template": template, "input": DATA, **render(template, SPECIALS, DATA)})
    return cases


def generated_cases(count):
    cases, seed = [], 0
    while len(cases) < count:
        r = random.Random(f"cases/{seed}")
        seed += 1
        template, request = Maker(r).template(), given(r)
        answer = render(template, SPECIALS, request)
        if "**" in template:  # integers beyond 64 bits are refused
            continue
        if len(template) < 600 and kind_of(answer) == "output" and len(answer["output"]) < 400 and " at 0x" not in answer["output"]:
            cases.append({"name": f"generated {seed}", "template": template, "input": request, **answer})
    return cases


def chat_cases():
    import transformers
    cases = []
    for tokenizer in ("smollm2", "bbpe-qwen2", "sp-llama2", "bbpe-llama3", "sp-metaspace"):
        where = f"{HERE}/cases/tokenizer-{tokenizer}/model"
        reference = transformers.AutoTokenizer.from_pretrained(where)
        for name, template in (("thinking", THINKING), ("instruct", INSTRUCT), ("roles", ROLES)):
            if name == "instruct" and reference.bos_token is None:
                continue
            for talk, request in TALKS.items():
                request = json.loads(json.dumps(request))
                ids = reference.apply_chat_template(request["messages"], chat_template=template, tokenize=True, return_dict=False,
                                                    **{k: v for k, v in request.items() if k != "messages"})
                cases.append({"name": f"{tokenizer}, {name}, {talk}", "tokenizer": f"tokenizer-{tokenizer}", "template": template,
                              "specials": reference.special_tokens_map, "input": TALKS[talk], "ids": ids})
    return cases


def write(name, cases):
    # One line for each case; inputs that are equal are stored once.
    inputs, lines = [], []
    for case in cases:
        if case["input"] not in inputs:
            inputs.append(case["input"])
        lines.append({**case, "input": inputs.index(case["input"])})
    with open(f"{HERE}/{name}", "w", encoding="utf-8") as f:
        f.write('{"inputs": [\n' + ",\n".join(json.dumps(i, ensure_ascii=False) for i in inputs) + '\n],\n"cases": [\n')
        f.write(",\n".join(json.dumps(c, ensure_ascii=False) for c in lines) + "\n]}\n")
    print(name, len(cases), "cases")


if __name__ == "__main__":
    write("template_cases.json", feature_cases() + generated_cases(300))
    write("chat_cases.json", chat_cases())
