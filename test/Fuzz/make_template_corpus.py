#!/usr/bin/env python3
"""Writes the seeds of the fuzz target of chat templates: a template, a zero byte, a request.

    make_template_corpus.py     writes corpus/template/
"""
import os

REQUEST = '{"messages": [{"role": "user", "content": "Hi <s>"}, {"role": "assistant", "content": null, "thinking": "hm"}], "tools": [{"a": {"b": [1, "x"]}}], "x": {"k": [1, 2.5, null, true]}}'
SEEDS = {
    "loop": "{% for m in messages if m.content %}{{ loop.index }}{{ m.role | upper }}: {{ m['content'][1:-1] | trim }}{% if loop.last %}{% break %}{% else %}{% continue %}{% endif %}{% else %}none{% endfor %}",
    "macro": "{% macro f(a, b=2) %}{{ a ~ b }}{{ caller(1) if caller }}{{ varargs }}{{ kwargs }}{% endmacro %}{% call(x) f(1, 2, 3, k=4) %}{{ x }}{% endcall %}{{ f(*[1], **{'b': 2}) }}",
    "namespace": "{%- set ns = namespace(a=1) -%}{% for i in range(3) %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns }}{% set x, y = 1, [2] %}{% set z | trim %} {{ x }} {% endset %}{{ z }}",
    "filters": "{{ messages | map(attribute='role') | list | tojson(indent=2) }}{{ x | dictsort }}{{ [3, 1] | sort(reverse=true) | join('-') }}{{ messages | selectattr('role', 'equalto', 'user') | first }}{{ 'a b' | replace('a', 'b') | title | indent(2) | batch(2) | list }}{{ 2.675 | round(2) }}",
    "strings": "{{ 'a,b'.split(',')[0].strip().upper() }}{{ '%5.2f|%s' % (1.5, 'x') }}{{ '{:>5} {0!r}'.format('q') if false else '{} {k}'.format(1, k=2) }}{{ 'é'.center(9, '*') }}{{ \"\\x41\\u00e9\" 'z' }}",
    "operators": "{{ 1 < 2 <= 3 != 4 }}{{ 7 // 2 * -3 % 4 ** 2 }}{{ 'a' in 'abc' and not none or missing is defined }}{{ (1, [2], {'k': 'v'}) }}{{ x.k[::-1] }}{{ 'y' if x else 'n' }}",
    "blocks": "{%- if tools -%}a{% elif x %}b{% else %}c{% endif +%}\n{# c #}{% raw %}{{ x }}{% endraw %}{% with a = 1 %}{{ a }}{% endwith %}{% filter upper %}x{% endfilter %}{% generation %}g{% endgeneration %}{% print 1, 2 %}",
    "raise": "{% if messages[0].role != 'system' %}{{ raise_exception('no: ' + messages[0].role) }}{% endif %}",
}


def main():
    home = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", "template")
    os.makedirs(home, exist_ok=True)
    for name, text in SEEDS.items():
        with open(os.path.join(home, name), "wb") as f:
            f.write(text.encode() + b"\0" + REQUEST.encode())


if __name__ == "__main__":
    main()
