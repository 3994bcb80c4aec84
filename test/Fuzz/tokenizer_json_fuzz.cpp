// Any bytes as a tokenizer.json, a zero byte and a text: the tokenizer is refused in one line, or it becomes a section
// that the runtime opens; the text's ids decode to valid UTF-8, at once as id by id. Then the text's bytes damage the
// section: it is refused or used without reading outside of it.
#include "compiler/Text/Normalization.h"
#include "compiler/Text/TokenizerImage.h"
#include "compiler/Text/TokenizerJson.h"
#include "tokenizer/tokenizer.h"
#include <cstdlib>
#include <cstring>

using namespace ingot;

static void require(bool holds) {
  if (!holds)
    std::abort();
}

static bool isOneLine(llvm::Error error) { return llvm::toString(std::move(error)).find('\n') == std::string::npos; }

static void use(const rt::Tokenizer &tokenizer, std::string_view text) {
  for (bool special : {true, false}) {
    std::vector<int32_t> ids;
    tokenizer.encode(text, {special, special}, ids);
    std::string whole = tokenizer.decode(ids, special), parts;
    rt::StreamDecoder stream(tokenizer, special);
    for (int32_t id : ids)
      parts += stream.push(id);
    require(rt::isValidUtf8(whole) && parts + stream.finish() == whole);
  }
}

// Tables over all code points are made once, which no input's time limit should pay for.
extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  for (bool compatible : {false, true})
    for (bool composes : {false, true})
      NormalForm::get(compatible, composes);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto [json, text] = llvm::StringRef(reinterpret_cast<const char *>(data), size).split('\0');
  llvm::Expected<Json> tokenizer = parseJson(json, "f.json");
  if (!tokenizer) {
    require(isOneLine(tokenizer.takeError()));
    return 0;
  }
  auto description = convertTokenizerJson(*tokenizer, "f.json", Json(), "");
  if (!description) {
    require(isOneLine(description.takeError()));
    return 0;
  }
  auto image = makeTokenizerImage(*description, 1 << 20);
  if (!image) {
    require(isOneLine(image.takeError()));
    return 0;
  }
  std::string error;
  auto opened = rt::Tokenizer::open(image->data(), image->size(), error);
  require(opened.has_value());
  use(*opened, text);

  for (size_t i = 0; i + 5 <= text.size(); i += 5) {
    uint32_t offset;
    std::memcpy(&offset, text.data() + i, sizeof(offset));
    // Most of it goes into the header.
    size_t end = offset & 1 ? image->size() : sizeof(ingot_rt_tok_header);
    (*image)[(offset >> 1) % end] = text[i + 4];
  }
  if (auto damaged = rt::Tokenizer::open(image->data(), image->size(), error))
    use(*damaged, text);
  return 0;
}
