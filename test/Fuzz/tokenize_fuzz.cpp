// Any bytes as the text that an executable gets: the first two choose a tokenizer (of those with random parts, see
// synthetic_tokenizer.py, and of the small goldens) and which of the text is not to be trusted. Encoding ends; no
// special token comes of text that nobody trusts; ids decode to valid UTF-8, at once as id by id, as do the bytes taken
// for ids.
#include "compiler/Text/TokenizerImage.h"
#include "compiler/Text/TokenizerJson.h"
#include "tokenizer/tokenizer.h"
#include "llvm/Support/FileSystem.h"
#include <algorithm>
#include <cstdlib>

using namespace ingot;

namespace {

void require(bool holds) {
  if (!holds)
    std::abort();
}

struct Loaded {
  std::vector<char> image;
  std::optional<rt::Tokenizer> tokenizer;
  std::optional<uint32_t> unknown;
};

/// The files that there are: goldens' with a member "tokenizer", or a tokenizer.json.
const std::vector<std::string> &files() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> all;
    std::error_code code;
    for (llvm::sys::fs::directory_iterator entry(INGOT_SYNTHETIC_DIR, code), end; entry != end && !code;
         entry.increment(code))
      all.push_back(entry->path());
    for (const char *name : {"bbpe-gpt2", "bbpe-llama3", "bbpe-qwen2", "sp-llama2", "sp-metaspace"})
      all.push_back(std::string(INGOT_GOLDEN_DIR "/tokenizer-") + name + "/model/tokenizer.json");
    std::sort(all.begin(), all.end());
    return all;
  }();
  return all;
}

Loaded load(size_t index) {
  Loaded loaded;
  Json json = llvm::cantFail(readJsonFile(files()[index]));
  auto description =
      convertTokenizerJson(json.contains("tokenizer") ? json["tokenizer"] : json, "tokenizer.json", Json(), "");
  require(!!description);
  auto image = makeTokenizerImage(*description, std::nullopt);
  require(!!image);
  loaded.image = std::move(*image);
  std::string error;
  loaded.tokenizer = rt::Tokenizer::open(loaded.image.data(), loaded.image.size(), error);
  require(loaded.tokenizer.has_value());
  loaded.unknown = description->unknownId;
  return loaded;
}

std::vector<Loaded> tokenizers;

void decode(const rt::Tokenizer &tokenizer, const std::vector<int32_t> &ids) {
  for (bool skip : {false, true}) {
    std::string whole = tokenizer.decode(ids, skip), parts;
    rt::StreamDecoder stream(tokenizer, skip);
    for (int32_t id : ids) {
      std::string part = stream.push(id);
      require(rt::isValidUtf8(part));
      parts += part;
    }
    require(rt::isValidUtf8(whole) && parts + stream.finish() == whole);
  }
}

} // namespace

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  for (size_t i = 0; i < files().size(); ++i)
    tokenizers.push_back(load(i));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2)
    return 0;
  const Loaded &loaded = tokenizers[data[0] % tokenizers.size()];
  const std::string_view text(reinterpret_cast<const char *>(data) + 2, size - 2);
  std::vector<int32_t> ids;
  loaded.tokenizer->encode(text, {}, ids);
  decode(*loaded.tokenizer, ids);

  const rt::TextSpan span = {data[1] % 2 ? 0 : text.size() / 3, text.size()};
  rt::EncodeOptions options;
  options.addSpecial = false;
  options.untrusted = {&span, 1};
  ids.clear();
  loaded.tokenizer->encode(text, options, ids);
  for (int32_t id : ids)
    if (span.begin == 0)
      require(!loaded.tokenizer->isSpecial(id) || (loaded.unknown && uint32_t(id) == *loaded.unknown));

  ids.clear();
  for (size_t i = 0; i + 2 <= text.size(); i += 2)
    ids.push_back(static_cast<uint8_t>(text[i]) + 256 * static_cast<int8_t>(text[i + 1]) / 64);
  decode(*loaded.tokenizer, ids);
  return 0;
}
