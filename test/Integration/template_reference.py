"""The reference of chat templates: what transformers' apply_chat_template renders. For scripts that are run by hand, with

    python3 -m pip install transformers==5.25.0 jinja2==3.1.6
"""
import json

import jinja2
from transformers.utils import chat_template_utils as reference


def render(template, specials, given):
    """{"output": text}, {"raised": message of raise_exception}, {"error": any other} or {"compile": syntax error}."""
    given = json.loads(json.dumps(given))
    try:
        compiled = reference._cached_compile_jinja_template(template)
    except (jinja2.exceptions.TemplateError, SyntaxError, AssertionError, RecursionError) as e:
        return {"compile": f"{type(e).__name__}: {e}"}
    try:
        messages = reference._normalize_chat_messages(given.pop("messages"))
        tools, documents = given.pop("tools", None), given.pop("documents", None)
        prompt = given.pop("add_generation_prompt", False)
        chat = reference._alias_reasoning_fields(reference._plain_template_data(messages))
        return {"output": compiled.render(messages=chat, tools=tools, documents=documents, add_generation_prompt=prompt,
                                          **{**specials, **given})}
    except jinja2.exceptions.TemplateError as e:
        plain = type(e) is jinja2.exceptions.TemplateError
        return {"raised": str(e)} if plain else {"error": f"{type(e).__name__}: {e}"}
    except Exception as e:  # whatever Python raises is an error of the template
        return {"error": f"{type(e).__name__}: {e}"}
