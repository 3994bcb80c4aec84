// What the tests of the import share: configurations from text, and a checkpoint in memory.
#ifndef INGOT_TEST_UNIT_MODELS_SUPPORT_H
#define INGOT_TEST_UNIT_MODELS_SUPPORT_H

#include "compiler/Import/Checkpoint.h"
#include "compiler/Import/Json.h"
#include "models/Architecture.h"
#include "gtest/gtest.h"
#include <cstring>
#include <map>

namespace ingot::test {

/// Parses JSON that a test wrote.
inline Json json(llvm::StringRef text) {
  llvm::Expected<Json> value = parseJson(text, "test");
  if (!value) {
    ADD_FAILURE() << llvm::toString(value.takeError()) << " in " << text.str();
    return Json::object();
  }
  return *value;
}

/// `base` with the keys of `patch`: a value replaces, the string "<gone>" removes.
inline Json patched(Json base, const Json &patch) {
  for (const auto &[key, value] : patch.items())
    if (value == "<gone>")
      base.erase(key);
    else
      base[key] = value;
  return base;
}

/// A small Llama, which tests patch.
inline Json llamaConfig() {
  return json(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32,
      "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
      "hidden_act": "silu", "vocab_size": 20, "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
      "tie_word_embeddings": false, "torch_dtype": "float32"})");
}

/// The error's text, empty without one.
template <typename T>
std::string errorText(llvm::Expected<T> value) {
  return value ? std::string() : llvm::toString(value.takeError());
}

/// Tensors in memory. Elements of F32 are as given; those of other kinds are zeros.
class MemoryCheckpoint final : public Checkpoint {
public:
  /// Everything that a configuration expects, element i of tensor t being t + i / 1000.
  explicit MemoryCheckpoint(const DecoderConfig &config, ElementKind kind = ElementKind::F32) {
    for (const ExpectedTensor &tensor : expectedTensors(config))
      add(tensor.name, tensor.shape, kind);
  }
  MemoryCheckpoint() = default;

  void add(llvm::StringRef name, llvm::ArrayRef<int64_t> shape, ElementKind kind = ElementKind::F32) {
    TensorInfo info;
    info.name = info.storedName = name.str();
    info.dtype = kind;
    info.shape.assign(shape.begin(), shape.end());
    info.file = "memory.safetensors";
    std::vector<float> data(info.elements());
    for (size_t i = 0; i < data.size(); ++i)
      data[i] = static_cast<float>(values.size()) + static_cast<float>(i) / 1000;
    ASSERT_TRUE(addTensor(std::move(info))) << name.str();
    values.push_back(std::move(data));
  }
  /// The elements of a tensor, to be changed.
  std::vector<float> &data(llvm::StringRef name) { return values[find(name)->index]; }

protected:
  llvm::Error convertRows(const TensorInfo &tensor, int64_t firstRow, int64_t rows,
                          llvm::MutableArrayRef<float> dst) const override {
    std::memcpy(dst.data(), values[tensor.index].data() + firstRow * tensor.rowSize(), dst.size() * sizeof(float));
    return llvm::Error::success();
  }
  llvm::Error copyRows(const TensorInfo &, int64_t, int64_t, llvm::MutableArrayRef<char>) const override {
    return llvm::createStringError("not needed here");
  }
  std::optional<llvm::ArrayRef<char>> mappedBytes(const TensorInfo &) const override { return std::nullopt; }

private:
  std::vector<std::vector<float>> values;
};

} // namespace ingot::test

#endif // INGOT_TEST_UNIT_MODELS_SUPPORT_H
