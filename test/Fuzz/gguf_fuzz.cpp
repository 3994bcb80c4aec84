// Any bytes as a GGUF file: they are refused, or every metadata value and every row of every tensor can be read.
#include "compiler/Import/Gguf.h"
#include <cstdlib>

using namespace ingot;

static void readAll(const Checkpoint &checkpoint) {
  for (const TensorInfo &tensor : checkpoint.tensors()) {
    if (!isConvertible(tensor.dtype))
      continue;
    std::vector<float> values(tensor.elements());
    llvm::consumeError(checkpoint.readF32(tensor, 0, tensor.rows(), values));
    if (isPlainFloat(tensor.dtype)) {
      std::vector<char> row(tensor.rowSize() * elementKindInfo(tensor.dtype).blockBytes);
      llvm::cantFail(checkpoint.readStored(tensor, tensor.rows() - 1, 1, row));
    }
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef bytes(reinterpret_cast<const char *>(data), size);
  llvm::Expected<GgufFile> file = parseGguf("f.gguf", bytes);
  if (!file) {
    llvm::consumeError(file.takeError());
    return 0;
  }
  std::vector<std::string> keys;
  for (const auto &[key, value] : file->metadata) {
    keys.push_back(key.str());
    (void)value.describe();
    (void)value.integers();
    (void)value.numbers();
    (void)value.strings();
  }
  // Once as a user would open it, once with every key ignored, which gets further.
  for (bool ignore : {false, true}) {
    auto checkpoint = GgufCheckpoint::fromMemory("f.gguf", bytes, ignore ? keys : std::vector<std::string>());
    if (checkpoint) {
      readAll(**checkpoint);
      (void)(*checkpoint)->config().dump(-1, ' ', true, Json::error_handler_t::replace);
    } else if (llvm::toString(checkpoint.takeError()).find('\n') != std::string::npos) {
      std::abort();
    }
  }
  return 0;
}
