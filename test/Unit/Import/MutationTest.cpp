// Good files with a few bytes changed, inserted or cut, by a fixed generator: a reader refuses them in one line or
// reads them, and never crashes. A short form of the fuzz targets, which runs in every build (with sanitizers in
// `dev`).
#include "TestSupport.h"
#include "compiler/Import/Gguf.h"
#include "compiler/Import/Json.h"
#include "compiler/Import/Safetensors.h"
#include <random>

using namespace ingot;
using namespace ingot::test;

namespace {

/// Deterministic mutations of one file.
class Mutator {
public:
  explicit Mutator(std::string seed) : seed(std::move(seed)) {}

  /// The next mutation, with 1 to 4 changes. Headers matter most, so half of the changes are in the first 256 bytes.
  std::string next() {
    std::string text = seed;
    for (uint64_t changes = 1 + random() % 4; changes > 0 && !text.empty(); --changes) {
      size_t at = random() % (random() % 2 ? text.size() : std::min<size_t>(text.size(), 256));
      switch (random() % 5) {
      case 0:
        text[at] = char(random());
        break;
      case 1:
        text[at] = char(text[at] ^ (1 << random() % 8));
        break;
      case 2:
        text[at] = char(random() % 4 ? 0 : 0xff);
        break;
      case 3:
        text.insert(at, 1, char(random()));
        break;
      default:
        text.erase(at, 1 + random() % 8);
      }
    }
    return text;
  }

private:
  std::string seed;
  std::mt19937_64 random{20};
};

/// One line, or nothing at all.
void expectOneLine(llvm::Error error) {
  std::string text = llvm::toString(std::move(error));
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
}

} // namespace

TEST(Mutations, Gguf) {
  size_t accepted = 0, refused = 0;
  for (const char *name : {"/llama.gguf", "/quants.gguf"}) {
    Mutator mutator(readFile(INGOT_FIXTURES + std::string(name)));
    for (int i = 0; i < 10'000; ++i) {
      std::string bytes = mutator.next();
      llvm::Expected<GgufFile> file = parseGguf("m.gguf", bytes);
      if (!file) {
        expectOneLine(file.takeError());
        ++refused;
        continue;
      }
      std::vector<std::string> keys;
      for (const auto &[key, value] : file->metadata)
        keys.push_back(key.str());
      // Once as a user would open it, once with every unknown key ignored, which gets further.
      for (bool ignore : {false, true}) {
        auto checkpoint = GgufCheckpoint::fromMemory("m.gguf", bytes, ignore ? keys : std::vector<std::string>());
        if (!checkpoint) {
          expectOneLine(checkpoint.takeError());
          continue;
        }
        ++accepted;
        for (const TensorInfo &tensor : (*checkpoint)->tensors()) {
          std::vector<float> values(tensor.elements());
          llvm::consumeError((*checkpoint)->readF32(tensor, 0, tensor.rows(), values));
        }
      }
    }
  }
  // Both must happen, or the mutations are too weak or too strong to test anything.
  EXPECT_GT(accepted, 100u);
  EXPECT_GT(refused, 100u);
}

TEST(Mutations, Safetensors) {
  std::string header = R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
                       R"("s":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})";
  Mutator mutator(safetensors(header, 16));
  size_t accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = mutator.next();
    auto entries = parseSafetensors("model.safetensors", llvm::ArrayRef<char>(bytes.data(), bytes.size()));
    if (!entries) {
      expectOneLine(entries.takeError());
      continue;
    }
    ++accepted;
    for (const SafetensorsEntry &entry : *entries)
      EXPECT_LE(entry.bytes.end(), bytes.data() + bytes.size());
  }
  EXPECT_GT(accepted, 100u);
}

TEST(Mutations, Json) {
  Mutator mutator(
      R"({"model_type": "llama", "eps": 1e-5, "list": [1, -2, null, true], "s": "\u00e9\n", "o": {"a": {}}})");
  size_t accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    llvm::Expected<Json> json = parseJson(mutator.next(), "x.json");
    if (!json) {
      expectOneLine(json.takeError());
      continue;
    }
    ++accepted;
    llvm::Expected<Json> again = parseJson(json->dump(), "x.json");
    ASSERT_TRUE(bool(again)) << errorOf(std::move(again));
    EXPECT_EQ(again->dump(), json->dump());
  }
  EXPECT_GT(accepted, 100u);
}
