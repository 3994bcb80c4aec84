// The byte-level alphabet of GPT-2.
#include "compiler/Text/TokenizerDescription.h"
#include "llvm/Support/ConvertUTF.h"

using namespace llvm;
using namespace ingot;

std::array<uint16_t, 256> ingot::byteLevelAlphabet() {
  std::array<uint16_t, 256> alphabet;
  uint16_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
    alphabet[byte] = printable ? byte : next++;
  }
  return alphabet;
}

std::optional<std::string> ingot::bytesOfByteLevel(const std::string &text) {
  static const std::array<int16_t, 0x144> byteOf = [] {
    std::array<int16_t, 0x144> table;
    table.fill(-1);
    std::array<uint16_t, 256> alphabet = byteLevelAlphabet();
    for (unsigned byte = 0; byte < 256; ++byte)
      table[alphabet[byte]] = static_cast<int16_t>(byte);
    return table;
  }();
  std::string bytes;
  const auto *at = reinterpret_cast<const UTF8 *>(text.data());
  const auto *end = at + text.size();
  while (at != end) {
    UTF32 c;
    if (convertUTF8Sequence(&at, end, &c, strictConversion) != conversionOK || c >= byteOf.size() || byteOf[c] < 0)
      return std::nullopt;
    bytes.push_back(static_cast<char>(byteOf[c]));
  }
  return bytes;
}
