// Chat templates without a model around them, for template_golden.py and
// fuzz_template.py: the compiler's program and the runtime's interpreter.
//
//     template-driver < REQUESTS
//
// A request is a line of JSON: {"template": text, "specials": {name: text}, "input": what the verb chat-template
// takes}, and "tokenizer": DIRECTORY if ids are wanted. An answer is a line of JSON: {"output": text, "untrusted":
// [begin, end,
// ...], "ids": [...]}, or {"compile": message} or {"error": message}.
#include "compiler/Text/TemplateProgram.h"
#include "compiler/Text/TokenizerImage.h"
#include "compiler/Text/TokenizerJson.h"
#include "support/output.h"
#include "template/chat_template.h"
#include <cstring>
#include <iostream>
#include <map>

using namespace ingot;

/// The ids of a prompt, as the executables make them.
static std::vector<int32_t> encode(const std::string &directory, const rt::RenderedPrompt &prompt) {
  static std::map<std::string, std::vector<char>> images;
  if (!images.count(directory)) {
    TokenizerDescription description = llvm::cantFail(
        readTokenizerJson(directory + "/tokenizer.json", directory + "/tokenizer_config.json"), "the tokenizer");
    images[directory] = llvm::cantFail(makeTokenizerImage(description, std::nullopt), "the tokenizer");
  }
  std::string error;
  auto tokenizer = rt::Tokenizer::open(images[directory].data(), images[directory].size(), error);
  rt::EncodeOptions options;
  options.addSpecial = false;
  options.untrusted = prompt.untrusted;
  std::vector<int32_t> ids;
  tokenizer->encode(prompt.text, options, ids);
  return ids;
}

static void answer(rt::Output &out, const rt::JsonValue &request) {
  rt::JsonWriter json(out);
  json.beginObject();
  auto say = [&](const char *key, std::string_view text) {
    json.key(key);
    json.text(text);
    json.endObject();
  };
  ChatFormat format;
  format.templates.push_back({"default", request.find("template")->text, "template"});
  for (const auto &[name, value] : request.find("specials")->members)
    format.specials.emplace_back(name, value.text);
  llvm::Expected<std::string> section = makeTemplateSection(format);
  if (!section)
    return say("compile", llvm::toString(section.takeError()));
  std::vector<uint64_t> aligned((section->size() + 7) / 8);
  memcpy(aligned.data(), section->data(), section->size());
  rt::Result<rt::ChatTemplates> templates =
      rt::ChatTemplates::open({reinterpret_cast<const char *>(aligned.data()), section->size()});
  if (!templates)
    return say("compile", templates.takeError().message());
  rt::Result<rt::RenderedPrompt> prompt = templates->render(*request.find("input"));
  if (!prompt)
    return say("error", prompt.takeError().message());
  json.key("output");
  json.text(prompt->text);
  json.key("untrusted");
  json.beginArray();
  for (const rt::TextSpan &span : prompt->untrusted) {
    json.number(span.begin);
    json.number(span.end);
  }
  json.endArray();
  if (const rt::JsonValue *directory = request.find("tokenizer")) {
    std::vector<int32_t> ids = encode(directory->text, *prompt);
    json.key("ids");
    json.tokens(ids.data(), ids.size());
  }
  json.endObject();
}

int main() {
  rt::Output out(1);
  for (std::string line; std::getline(std::cin, line);) {
    rt::Result<rt::JsonValue> request = rt::parseJson(line);
    if (!request) {
      fprintf(stderr, "error: %s\n", request.takeError().message().c_str());
      return 1;
    }
    answer(out, *request);
    out.write("\n");
    out.flush();
  }
}
