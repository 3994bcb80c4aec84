// Any bytes as a config.json, a GGUF's configuration and a generation_config.json: they are refused in one line, or
// what is read holds together.
#include "models/Architecture.h"
#include <cmath>
#include <cstdlib>

using namespace ingot;
using namespace llvm;

static void require(bool condition) {
  if (!condition)
    std::abort();
}

static void checkError(Error error) {
  std::string text = toString(std::move(error));
  require(StringRef(text).starts_with("f.json: ") && text.find('\n') == std::string::npos);
}

static void checkConfig(const Json &json, bool isGguf) {
  Ledger ledger;
  Expected<DecoderConfig> config = readDecoderConfig(json, "f.json", {}, ledger, isGguf);
  if (!config)
    return checkError(config.takeError());
  require(config->headDim * 2 == int64_t(config->rope.frequencies.size()) * 4);
  require(config->heads % config->kvHeads == 0 && int64_t(config->windows.size()) == config->layers);
  require(std::isfinite(config->rope.scaling) && config->eps > 0);
  for (int64_t id : config->tokens.eos)
    require(id >= 0 && id < config->vocab);
  // Every key of the object is in the ledger.
  require(ledger.keys().size() >= json.size());
  int64_t total = 0;
  if (config->layers <= 8)
    for (const ExpectedTensor &tensor : expectedTensors(*config)) {
      int64_t elements = 1;
      for (int64_t size : tensor.shape)
        require(size > 0 && !__builtin_mul_overflow(elements, size, &elements));
      require(!__builtin_add_overflow(total, elements, &total));
    }
  require(!ledger.summary().empty() && !ledger.toJsonLines().empty());
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Expected<Json> json = parseJson(StringRef(reinterpret_cast<const char *>(data), size), "f.json");
  if (!json) {
    consumeError(json.takeError());
    return 0;
  }
  checkConfig(*json, false);
  checkConfig(*json, true);
  Ledger ledger;
  std::vector<std::string> warnings;
  Expected<GenerationDefaults> generation = readGenerationConfig(*json, "f.json", {}, 1000, {}, ledger, warnings);
  if (!generation)
    checkError(generation.takeError());
  return 0;
}
