// Any bytes as JSON: they are refused in one line, or what was read, written and read again is the same.
#include "compiler/Import/Json.h"
#include <cstdlib>

using namespace ingot;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::Expected<Json> json = parseJson(llvm::StringRef(reinterpret_cast<const char *>(data), size), "f.json");
  if (!json) {
    if (llvm::toString(json.takeError()).find('\n') != std::string::npos)
      std::abort();
    return 0;
  }
  std::string text = json->dump();
  llvm::Expected<Json> again = parseJson(text, "f.json");
  if (!again || again->dump() != text)
    std::abort();
  return 0;
}
