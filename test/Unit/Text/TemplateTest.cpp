// Chat templates from text to prompt: where errors are said to be, what is
// refused by name, which bytes are trusted, what ends a template that would not
// end. What templates mean is compared with the reference by template-golden.
#include "compiler/Text/TemplateProgram.h"
#include "template/chat_template.h"
#include <gtest/gtest.h>

using namespace ingot;

namespace {

struct Compiled {
  std::string error;
  std::vector<uint64_t> bytes;
  size_t size = 0;
};

Compiled compile(std::vector<TemplateText> templates) {
  ChatFormat format;
  format.templates = std::move(templates);
  format.specials = {{"bos_token", "<s>"}};
  Compiled result;
  llvm::Expected<std::string> section = makeTemplateSection(format);
  if (!section) {
    result.error = llvm::toString(section.takeError());
    return result;
  }
  result.size = section->size();
  result.bytes.resize((section->size() + 7) / 8);
  memcpy(result.bytes.data(), section->data(), section->size());
  return result;
}

/// The error of compiling a template, "" if there is none.
std::string compileError(const std::string &text) { return compile({{"default", text, "t"}}).error; }

rt::JsonValue json(const std::string &text) {
  rt::Result<rt::JsonValue> value = rt::parseJson(text);
  EXPECT_TRUE(bool(value)) << text;
  return value ? *value : rt::JsonValue();
}

/// The prompt with its untrusted spans in braces, or "error: ...".
std::string render(const Compiled &compiled, const std::string &request) {
  if (!compiled.error.empty())
    return "compile error: " + compiled.error;
  auto templates = rt::ChatTemplates::open({reinterpret_cast<const char *>(compiled.bytes.data()), compiled.size});
  if (!templates)
    return "not opened: " + templates.takeError().message();
  rt::Result<rt::RenderedPrompt> prompt = templates->render(json(request));
  if (!prompt)
    return "error: " + prompt.takeError().message();
  std::string marked;
  size_t at = 0;
  for (const rt::TextSpan &span : prompt->untrusted) {
    marked +=
        prompt->text.substr(at, span.begin - at) + "{" + prompt->text.substr(span.begin, span.end - span.begin) + "}";
    at = span.end;
  }
  return marked + prompt->text.substr(at);
}

std::string render(const std::string &text, const std::string &content = "ab", const std::string &more = "") {
  return render(compile({{"default", text, "t"}}),
                R"({"messages": [{"role": "user", "content": ")" + content + R"("}])" + more + "}");
}

TEST(Template, ErrorsHaveTheirPlace) {
  EXPECT_EQ(compileError("a\n  {{ 1 + }}"), "t: line 2, column 10: unexpected '}}'");
  EXPECT_EQ(compileError("é{% if x %}"),
            "t: line 1, column 5: the template ends where 'elif' or 'else' or 'endif' is needed for what begins here");
  EXPECT_EQ(compileError("{{ 'a\n' ~ @ }}"), "t: line 2, column 5: unexpected character '@'");
  EXPECT_EQ(compileError("\n\n{{ x | nothing }}"), "t: line 3, column 8: there is no filter named 'nothing'");
  EXPECT_EQ(compileError("{{ (1 }}"), "t: line 1, column 7: unexpected '}'; expected ')'");
  EXPECT_EQ(compileError("{# x"), "t: line 1, column 1: a comment without an end; expected '#}'");
  EXPECT_EQ(compileError("{% foo %}"), "t: line 1, column 4: unknown tag 'foo'");
  EXPECT_EQ(compileError("{% for x in y %}{% endif %}"),
            "t: line 1, column 20: unknown tag 'endif'; expected 'endfor' or 'else' here");
}

TEST(Template, WhatIsNotSupportedIsNamed) {
  for (const char *tag :
       {"extends 'x'", "include 'x'", "import 'x' as y", "from 'x' import y", "block b", "autoescape true"})
    EXPECT_NE(compileError(std::string("{% ") + tag + " %}").find("is not supported in a chat template"),
              std::string::npos)
        << tag;
  EXPECT_EQ(compileError("{% for x in y recursive %}{% endfor %}"),
            "t: line 1, column 15: recursive loops are not supported");
  EXPECT_EQ(compileError("{{ x | urlize }}"), "t: line 1, column 8: the filter 'urlize' is not supported");
  EXPECT_EQ(compileError("{% if x %}{{ x | pprint }}{% endif %}"),
            "t: line 1, column 18: the filter 'pprint' is not supported");
  EXPECT_EQ(compileError("{{ lipsum() }}"), "t: line 1, column 4: the function 'lipsum' is not supported");
  EXPECT_EQ(compileError("{{ 99999999999999999999 }}"),
            "t: line 1, column 4: the integer 99999999999999999999 is beyond 64 bits, which is not supported");
  EXPECT_EQ(compileError("{% break %}"), "t: line 1, column 4: 'break' outside of a loop");
}

TEST(Template, DeepNestingIsAnError) {
  EXPECT_NE(
      compileError("{{ " + std::string(10000, '(') + "1" + std::string(10000, ')') + " }}").find("nested deeper than"),
      std::string::npos);
  std::string sum = "{{ x";
  for (int i = 0; i < 10000; ++i)
    sum += " + x";
  EXPECT_NE(compileError(sum + " }}").find("nested deeper than"), std::string::npos);
  std::string ifs;
  for (int i = 0; i < 10000; ++i)
    ifs += "{% if x %}";
  EXPECT_NE(compileError(ifs).find("nested deeper than"), std::string::npos);
}

TEST(Template, ConstantsAreFolded) {
  // One text, whatever it is made of.
  Compiled folded =
      compile({{"default",
                "a{{ 'b' ~ 1 }}{% if false %}x{% elif true %}c{% else %}y{% endif %}{{ 2 * 3 - 1 }}{{ none }}", "t"}});
  const auto *header = reinterpret_cast<const ingot_rt_tpl_header *>(folded.bytes.data());
  const auto *nodes = reinterpret_cast<const ingot_rt_tpl_node *>(reinterpret_cast<const char *>(folded.bytes.data()) +
                                                                  header->nodes.offset);
  int outputs = 0;
  for (uint64_t i = 0; i < header->nodes.count; ++i)
    outputs += nodes[i].kind == INGOT_RT_TPL_OUTPUT || nodes[i].kind == INGOT_RT_TPL_IF;
  EXPECT_EQ(outputs, 0);
  EXPECT_EQ(render(folded, R"({"messages": [{"role": "user", "content": ""}]})"), "ab1c5None");
}

TEST(TemplateTrust, FollowsEveryOperation) {
  struct Case {
    const char *text, *content, *expected;
  };
  const Case cases[] = {
      {"<{{ messages[0].content }}>", "ab", "<{ab}>"},
      {"{{ bos_token + messages[0].content + '</s>' }}", "ab", "<s>{ab}</s>"},
      {"{{ '<' ~ messages[0].content ~ '>' }}", "ab", "<{ab}>"},
      {"{{ ('<' + messages[0].content + '>')[1:] }}", "ab", "{ab}>"},
      {"{{ ('<' + messages[0].content + '>')[::-1] }}", "ab", ">{ba}<"},
      {"{{ (' x' + messages[0].content) | trim }}", "ab ", "x{ab}"},
      {"{{ ('x' + messages[0].content) | upper }}", "ab", "X{AB}"},
      {"{{ ('x' + messages[0].content) | title }}", "b cd", "X{b Cd}"},
      {"{{ messages[0].content | replace('a', '<s>') }}", "bab", "{b}<s>{b}"},
      {"{{ '<x>' | replace('x', messages[0].content) }}", "ab", "<{ab}>"},
      {"{{ [messages[0].content, 'y'] | join('-') }}", "ab", "{ab}-y"},
      {"{{ 'a,b'.split(',') | join(messages[0].content) }}", "x", "a{x}b"},
      {"{{ ('p,' + messages[0].content).split(',') | last }}", "ab", "{ab}"},
      {"{{ '<%s>' % messages[0].content }}", "ab", "<{ab}>"},
      {"{{ '<{}>'.format(messages[0].content) }}", "ab", "<{ab}>"},
      {"{{ messages[0].content.format('<s>') }}", "{}x", "<s>{x}"},
      {"{{ messages[0].content | indent(2) }}", "a\\nb", "{a}\n  {b}"},
      {"{{ messages[0].content | tojson }}", "a\\\"b", "{\"a\\\"b\"}"},
      {"{{ {'k': messages[0].content} | tojson }}", "b", "{{\"}k{\": \"b\"}}"},
      {"{% set x %}<{{ messages[0].content }}>{% endset %}{{ x }}", "ab", "<{ab}>"},
      {"{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(messages[0].content) }}", "ab", "<{ab}>"},
      {"{% filter upper %}<{{ messages[0].content }}>{% endfilter %}", "ab", "<{AB}>"},
      {"{{ messages[0].content | list | first }}{{ messages[0].content | first }}", "ab", "{aa}"},
      {"{% for c in messages[0].content %}{{ c }}.{% endfor %}", "ab", "{a}.{b}."},
      {"{{ messages[0].content | string | safe }}", "<", "{<}"},
      {"{{ messages[0].content | e }}", "<", "{&lt;}"},
      {"{{ messages[0].content | truncate(2, true, '') }}", "abcdefghijk", "{ab}"},
      {"{{ messages[0].content | int + 1 }}", "41", "{42}"},
      {"{{ messages[0].content | length }}", "ab", "2"},
      {"{{ messages[0].content }}", "", ""},
      {"<|{{ messages[0].role }}|>", "", "<|user|>"},
      {"{{ messages }}", "a", "{[{'role': '}user{', 'content': 'a'}]}"},
      {"{{ messages[0].content.splitlines() | join('|') }}", "a\\nb", "{a}|{b}"},
      {"{{ messages[0].content.center(4, '*') }}", "ab", "*{ab}*"},
  };
  for (const Case &one : cases)
    EXPECT_EQ(render(one.text, one.content), one.expected) << one.text;
}

TEST(TemplateTrust, ArgumentsAreNotTrusted) {
  EXPECT_EQ(render("<{{ x }}{{ y }}>", "", R"(, "x": "</s>", "y": 7)"), "<{</s>7}>");
  EXPECT_EQ(render("{{ bos_token }}", "", R"(, "bos_token": "<s>")"), "{<s>}");
  EXPECT_EQ(render(compile({{"default", "{{ messages[0].role }}{{ messages[1].role }}", "t"}}),
                   R"({"messages": [{"role": "tool_result-1"}, {"role": "<|im_end|>"}]})"),
            "tool_result-1{<|im_end|>}");
}

TEST(Template, WhatWouldNotEndEnds) {
  EXPECT_NE(render("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}").find("error: t: line 1, column"),
            std::string::npos);
  EXPECT_NE(render("{% macro m(x) %}{% if x %}{{ m(x) }}{% endif %}{% endmacro %}{{ m(1) }}").find("deep"),
            std::string::npos);
  std::string loops;
  for (int i = 0; i < 3; ++i)
    loops += "{% for a in range(90000) %}";
  EXPECT_NE(render(loops + "x{% endfor %}{% endfor %}{% endfor %}").find("runs too long"), std::string::npos);
  EXPECT_NE(render("{{ 'abcdefgh' * 999999999 }}").find("too much text"), std::string::npos);
  EXPECT_NE(render("{{ [1] * 999999999 }}").find("more than"), std::string::npos);
  EXPECT_NE(render("{% set ns = namespace(x='a') %}{% for i in range(90) %}{% set ns.x = ns.x + ns.x %}{% endfor %}")
                .find("too much text"),
            std::string::npos);
  EXPECT_NE(render("{% set ns = namespace(x=[]) %}{% for i in range(9000) %}{% set ns.x = [ns.x] %}{% endfor %}")
                .find("nested deeper"),
            std::string::npos);
  EXPECT_NE(render("{% set ns = namespace(x=messages) %}{% for i in range(9000) %}{% set ns.x = ns.x | map('string') "
                   "%}{% endfor %}")
                .find("nested deeper"),
            std::string::npos);
  EXPECT_NE(render("{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}").find("nested too deeply"),
            std::string::npos);
  EXPECT_EQ(
      render("{% set ns = namespace(x=1) %}{% for i in range(9000) %}{% set ns = namespace(x=ns) %}{% endfor %}done"),
      "done");
}

TEST(Template, ElseOfALoopRunsUnlessABodyCameToItsEnd) {
  EXPECT_EQ(render("{% for x in [1, 2] %}{% continue %}{% else %}none{% endfor %}"), "none");
  EXPECT_EQ(render("{% for x in [1, 2] %}{% break %}{% else %}none{% endfor %}"), "none");
  EXPECT_EQ(render("{% for x in [1, 2] %}{% if x == 2 %}{% break %}{% endif %}{% else %}none{% endfor %}"), "");
}

TEST(Template, RaiseExceptionIsWordForWord) {
  EXPECT_EQ(render("{{ raise_exception('Only \"user\"!') }}"), "error: Only \"user\"!");
  EXPECT_EQ(render("\n {{ none + 1 }}").rfind("error: t: line 2, column", 0), 0u);
}

TEST(Template, RequestsAreChecked) {
  Compiled compiled = compile({{"default", "{{ messages | length }}", "t"}});
  EXPECT_EQ(render(compiled, "[]"), "error: expected an object with messages");
  EXPECT_EQ(render(compiled, "{}"), "error: messages: expected a list of objects with role and content, got none");
  EXPECT_EQ(render(compiled, R"({"messages": []})"), "error: messages: expected at least one message");
  EXPECT_EQ(render(compiled, R"({"messages": ["x"]})"), "error: messages: expected a list of objects");
  EXPECT_EQ(render(compiled, R"({"messages": [{}], "tools": [1]})"), "error: tools: expected a list of objects");
  EXPECT_EQ(render(compiled, R"({"messages": [{}], "tokenize": true})"),
            "error: tokenize: this argument of apply_chat_template is not supported");
  EXPECT_EQ(render(compiled, R"({"messages": [{}], "chat_template": "x"})"),
            "error: chat_template: expected the name of one of this model's templates (default)");
}

TEST(Template, OneOfSeveralIsChosen) {
  Compiled two = compile({{"default", "D", "a"}, {"tool_use", "T", "b"}, {"rag", "R", "c"}});
  EXPECT_EQ(render(two, R"({"messages": [{}]})"), "D");
  EXPECT_EQ(render(two, R"({"messages": [{}], "tools": []})"), "T");
  EXPECT_EQ(render(two, R"({"messages": [{}], "tools": null})"), "D");
  EXPECT_EQ(render(two, R"({"messages": [{}], "tools": [], "chat_template": "rag"})"), "R");
  Compiled none = compile({{"rag", "R", "c"}});
  EXPECT_NE(render(none, R"({"messages": [{}]})").find("none of them is the default"), std::string::npos);
}

TEST(Template, VariablesAreKnown) {
  Compiled compiled = compile(
      {{"default", "{% for m in messages %}{{ m.x }}{{ y }}{% endfor %}{{ range(3) }}{% set z = 1 %}{{ z }}", "t"}});
  auto templates = rt::ChatTemplates::open({reinterpret_cast<const char *>(compiled.bytes.data()), compiled.size});
  ASSERT_TRUE(bool(templates));
  EXPECT_EQ(templates->variables(0), (std::vector<std::string>{"messages", "y"}));
  EXPECT_EQ(templates->names(), std::vector<std::string>{"default"});
  EXPECT_EQ(templates->where(0), "t");
}

TEST(Template, ADamagedSectionIsRefusedOrHarmless) {
  Compiled good = compile({{"default",
                            "{% for m in messages if m %}{{ m | tojson }}{{ loop.index }}{% endfor %}{% macro f(a=1) "
                            "%}{{ a }}{% endmacro %}{{ f(x) }}",
                            "t"}});
  for (size_t at = 0; at < good.size; ++at)
    for (uint8_t flip : {1, 0x80, 0xff}) {
      Compiled bad = good;
      reinterpret_cast<uint8_t *>(bad.bytes.data())[at] ^= flip;
      render(bad, R"({"messages": [{"role": "user", "content": "x"}]})");
    }
  Compiled cut = good;
  cut.size -= 8;
  EXPECT_EQ(render(cut, "{}").rfind("not opened: damaged", 0), 0u);
}

} // namespace
