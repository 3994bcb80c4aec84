// What the tests of the readers share: the text of an error, a directory that goes away, files built byte by byte.
#ifndef INGOT_TEST_UNIT_IMPORT_TESTSUPPORT_H
#define INGOT_TEST_UNIT_IMPORT_TESTSUPPORT_H

#include "compiler/Import/Checkpoint.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace ingot::test {

/// The error's text, or "no error".
template <typename T>
std::string errorOf(llvm::Expected<T> result) {
  return result ? "no error" : llvm::toString(result.takeError());
}
inline std::string errorOf(llvm::Error error) { return error ? llvm::toString(std::move(error)) : "no error"; }

/// EXPECTs an error that contains all of `parts`, in one line.
inline void expectText(const std::string &text, std::initializer_list<llvm::StringRef> parts) {
  for (llvm::StringRef part : parts)
    EXPECT_NE(text.find(part.str()), std::string::npos) << "'" << part.str() << "' is not in: " << text;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
}

/// A fresh directory, removed with everything in it at the end of the test.
class TemporaryDirectory {
public:
  TemporaryDirectory() {
    llvm::SmallString<128> path;
    if (llvm::sys::fs::createUniqueDirectory("ingot-test", path))
      std::abort();
    root = std::string(path);
  }
  ~TemporaryDirectory() { llvm::sys::fs::remove_directories(root); }

  std::string path(llvm::StringRef name = "") const { return name.empty() ? root : root + "/" + name.str(); }

  /// Writes a file, its folders included, and returns its path.
  std::string write(llvm::StringRef name, llvm::StringRef content) const {
    std::string file = path(name);
    (void)llvm::sys::fs::create_directories(file.substr(0, file.rfind('/')));
    std::ofstream(file, std::ios::binary).write(content.data(), std::streamsize(content.size()));
    return file;
  }

private:
  std::string root;
};

inline std::string readFile(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// `value` in little-endian bytes.
template <typename T>
std::string le(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

/// A safetensors file of a header text and `dataBytes` bytes 0, 1, 2, ...
inline std::string safetensors(const std::string &header, size_t dataBytes) {
  std::string file = le<uint64_t>(header.size()) + header;
  for (size_t i = 0; i < dataBytes; ++i)
    file.push_back(char(i));
  return file;
}

/// Builds GGUF files, right or wrong.
class GgufBuilder {
public:
  uint32_t version = 3;
  uint64_t alignment = 32;

  static std::string string(llvm::StringRef text) { return le<uint64_t>(text.size()) + text.str(); }

  GgufBuilder &raw(llvm::StringRef key, uint32_t type, llvm::StringRef value) {
    keys += string(key) + le(type) + value.str();
    ++keyCount;
    return *this;
  }
  GgufBuilder &u32(llvm::StringRef key, uint32_t value) { return raw(key, 4, le(value)); }
  GgufBuilder &f32(llvm::StringRef key, float value) { return raw(key, 6, le(value)); }
  GgufBuilder &boolean(llvm::StringRef key, bool value) { return raw(key, 7, value ? "\1" : llvm::StringRef("\0", 1)); }
  GgufBuilder &text(llvm::StringRef key, llvm::StringRef value) { return raw(key, 8, string(value)); }
  GgufBuilder &texts(llvm::StringRef key, const std::vector<std::string> &values) {
    std::string bytes = le<uint32_t>(8) + le<uint64_t>(values.size());
    for (const std::string &value : values)
      bytes += string(value);
    return raw(key, 9, bytes);
  }
  GgufBuilder &u32s(llvm::StringRef key, const std::vector<uint32_t> &values) {
    std::string bytes = le<uint32_t>(4) + le<uint64_t>(values.size());
    for (uint32_t value : values)
      bytes += le(value);
    return raw(key, 9, bytes);
  }

  /// A tensor with dimensions in the file's order (innermost first), whose data are placed next, padded.
  GgufBuilder &tensor(llvm::StringRef name, std::vector<uint64_t> dimensions, uint32_t type, llvm::StringRef bytes) {
    data.resize((data.size() + alignment - 1) / alignment * alignment);
    tensorAt(name, dimensions, type, data.size());
    data += bytes.str();
    return *this;
  }
  /// A tensor's entry alone.
  GgufBuilder &tensorAt(llvm::StringRef name, std::vector<uint64_t> dimensions, uint32_t type, uint64_t offset) {
    tensors += string(name) + le<uint32_t>(uint32_t(dimensions.size()));
    for (uint64_t dimension : dimensions)
      tensors += le(dimension);
    tensors += le(type) + le(offset);
    ++tensorCount;
    return *this;
  }
  GgufBuilder &floats(llvm::StringRef name, std::vector<uint64_t> dimensions, float value = 1) {
    uint64_t count = 1;
    for (uint64_t dimension : dimensions)
      count *= dimension;
    std::string bytes;
    for (uint64_t i = 0; i < count; ++i)
      bytes += le(value);
    return tensor(name, dimensions, 0, bytes);
  }

  std::string build() const {
    std::string file = "GGUF" + le(version) + le(tensorCount) + le(keyCount) + keys + tensors;
    file.resize((file.size() + alignment - 1) / alignment * alignment);
    return file + data;
  }

  uint64_t tensorCount = 0, keyCount = 0;
  std::string keys, tensors, data;
};

} // namespace ingot::test

#endif // INGOT_TEST_UNIT_IMPORT_TESTSUPPORT_H
