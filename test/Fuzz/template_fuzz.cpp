// Any bytes as a chat template, a zero byte and a JSON request: the template is refused in one line with its place, or
// it becomes a section that the runtime opens; the request is refused in words, or it becomes a prompt that is valid
// UTF-8 with untrusted spans inside of it, twice the same. Then the request's bytes damage the section: it is refused,
// or used without reading outside of it.
#include "compiler/Text/TemplateProgram.h"
#include "template/chat_template.h"
#include "tokenizer/utf8.h"
#include <cstdlib>
#include <cstring>
#include <vector>

using namespace ingot;

static void require(bool holds) {
  if (!holds)
    std::abort();
}

static void use(const std::vector<uint64_t> &bytes, size_t size, const rt::JsonValue &request, bool damaged) {
  auto templates = rt::ChatTemplates::open({reinterpret_cast<const char *>(bytes.data()), size});
  require(templates || damaged);
  if (!templates)
    return;
  for (size_t i = 0; i < templates->names().size(); ++i)
    templates->variables(i);
  rt::Result<rt::RenderedPrompt> prompt = templates->render(request);
  if (!prompt || damaged)
    return;
  require(rt::isValidUtf8(prompt->text));
  uint64_t end = 0;
  for (const rt::TextSpan &span : prompt->untrusted) {
    require(span.begin >= end && span.begin < span.end && span.end <= prompt->text.size());
    end = span.end;
  }
  rt::Result<rt::RenderedPrompt> again = templates->render(request);
  require(bool(again) && again->text == prompt->text);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto [text, json] = llvm::StringRef(reinterpret_cast<const char *>(data), size).split('\0');
  if (text.contains("strftime_now"))
    return 0; // the time goes on
  ChatFormat format;
  format.templates.push_back({"default", text.str(), "f.jinja"});
  format.specials = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  llvm::Expected<std::string> section = makeTemplateSection(format);
  if (!section) {
    std::string message = llvm::toString(section.takeError());
    require(message.find('\n') == std::string::npos && llvm::StringRef(message).starts_with("f.jinja: "));
    return 0;
  }
  rt::Result<rt::JsonValue> request = rt::parseJson(json);
  if (!request)
    request =
        rt::parseJson(R"({"messages": [{"role": "user", "content": "a <s> b"}], "x": [1, 2.5, null, {"k": "v"}]})");
  std::vector<uint64_t> bytes((section->size() + 7) / 8);
  memcpy(bytes.data(), section->data(), section->size());
  use(bytes, section->size(), *request, false);
  auto *damaged = reinterpret_cast<uint8_t *>(bytes.data());
  for (size_t i = 0; i + 1 < json.size(); i += 2)
    damaged[(uint8_t(json[i]) * 131 + i * 7) % section->size()] ^= uint8_t(json[i + 1]);
  use(bytes, section->size(), *request, true);
  return 0;
}
