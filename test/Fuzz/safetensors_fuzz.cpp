// Any bytes as a safetensors file: they are refused, or every tensor lies inside them and can be converted.
#include "compiler/Import/Safetensors.h"
#include <cstdlib>

using namespace ingot;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::ArrayRef<char> bytes(reinterpret_cast<const char *>(data), size);
  llvm::Expected<std::vector<SafetensorsEntry>> entries = parseSafetensors("f.safetensors", bytes);
  if (!entries) {
    // A message is one line, whatever the bytes.
    if (llvm::toString(entries.takeError()).find('\n') != std::string::npos)
      std::abort();
    return 0;
  }
  size_t covered = 0;
  for (const SafetensorsEntry &entry : *entries) {
    covered += entry.bytes.size();
    if (!isConvertible(entry.dtype))
      continue;
    std::vector<float> values(entry.bytes.size() / elementKindInfo(entry.dtype).blockBytes);
    (void)convertToF32(entry.dtype, entry.bytes, values);
  }
  if (covered > size)
    std::abort();
  return 0;
}
