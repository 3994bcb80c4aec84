// A tokenizer as a server on standard input and output, for fuzz_tokenizer.py:
// the compiler's tables and the runtime's code, without a model around them.
//
//     tokenizer-driver DIRECTORY|FILE.gguf
//
// A request is three little-endian uint32 (kind, flag, length) and `length`
// bytes; an answer is a uint32 length and as many bytes.
//   kind 0: encode the bytes, flag 1 with special tokens -> int32 ids
//   kind 1: decode the bytes as int32 ids, flag 1 without special tokens -> text
//   kind 2: the same id by id
//   kind 3: encode and answer the processor's nanoseconds it took as a uint64
#include "compiler/Import/Gguf.h"
#include "compiler/Text/TokenizerGguf.h"
#include "compiler/Text/TokenizerImage.h"
#include "compiler/Text/TokenizerJson.h"
#include "tokenizer/tokenizer.h"
#include "llvm/Support/FileSystem.h"
#include <cstdio>
#include <ctime>

using namespace ingot;

static llvm::Expected<std::vector<char>> makeImage(llvm::StringRef path) {
  llvm::Expected<TokenizerDescription> description = [&] {
    if (!path.ends_with(".gguf")) {
      std::string config = (path + "/tokenizer_config.json").str();
      return readTokenizerJson((path + "/tokenizer.json").str(), llvm::sys::fs::exists(config) ? config : "");
    }
    auto file = GgufCheckpoint::open(path);
    if (!file)
      return llvm::Expected<TokenizerDescription>(file.takeError());
    return convertGgufTokenizer(*(*file)->tokenizer(), path);
  }();
  if (!description)
    return description.takeError();
  return makeTokenizerImage(*description, std::nullopt);
}

static uint64_t processorTime() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time.tv_sec * 1'000'000'000ull + time.tv_nsec;
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: tokenizer-driver DIRECTORY|FILE.gguf\n");
    return 2;
  }
  llvm::Expected<std::vector<char>> image = makeImage(argv[1]);
  if (!image) {
    fprintf(stderr, "error: %s\n", toString(image.takeError()).c_str());
    return 1;
  }
  std::string error;
  auto tokenizer = rt::Tokenizer::open(image->data(), image->size(), error);
  if (!tokenizer) {
    fprintf(stderr, "error: %s\n", error.c_str());
    return 1;
  }
  uint32_t request[3];
  std::string bytes;
  while (fread(request, sizeof(request), 1, stdin) == 1) {
    auto [kind, flag, length] = request;
    bytes.resize(length);
    if (length && fread(bytes.data(), length, 1, stdin) != 1)
      return 1;
    std::string answer;
    if (kind == 0 || kind == 3) {
      std::vector<int32_t> ids;
      uint64_t start = processorTime();
      tokenizer->encode(bytes, {flag == 1}, ids);
      uint64_t time = processorTime() - start;
      answer = kind == 0 ? std::string(reinterpret_cast<char *>(ids.data()), ids.size() * sizeof(int32_t))
                         : std::string(reinterpret_cast<char *>(&time), 8);
    } else {
      std::vector<int32_t> ids(length / sizeof(int32_t));
      std::copy_n(bytes.data(), ids.size() * sizeof(int32_t), reinterpret_cast<char *>(ids.data()));
      if (kind == 1) {
        answer = tokenizer->decode(ids, flag == 1);
      } else {
        rt::StreamDecoder stream(*tokenizer, flag == 1);
        for (int32_t id : ids)
          answer += stream.push(id);
        answer += stream.finish();
      }
    }
    uint32_t size = answer.size();
    fwrite(&size, sizeof(size), 1, stdout);
    fwrite(answer.data(), 1, answer.size(), stdout);
    fflush(stdout);
  }
  return 0;
}
