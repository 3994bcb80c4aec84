//===- TextSections.cpp - Sections of the payload that hold text and the
// tokenizer --------------------------------===//

#include "tools/ingotc/TextSections.h"
#include "compiler/Text/TokenizerGguf.h"
#include "compiler/Text/TokenizerImage.h"
#include "compiler/Text/TokenizerJson.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace ingot {

Expected<std::string> makeTokenizerSection(const TokenizerSource &source, StringRef modelPath, int64_t vocab) {
  if (source.kind == TokenizerSource::Kind::HuggingFace && source.tokenizerJson.empty())
    return createStringError(source.sentencePiece +
                             ": a tokenizer.model without tokenizer.json is not supported; save the "
                             "tokenizer with the reference implementation's fast tokenizer");
  Expected<TokenizerDescription> description =
      source.kind == TokenizerSource::Kind::Gguf ? convertGgufTokenizer(*source.gguf, modelPath)
                                                 : readTokenizerJson(source.tokenizerJson, source.tokenizerConfigJson);
  if (!description)
    return description.takeError();
  Expected<std::vector<char>> image = makeTokenizerImage(*description, vocab);
  if (!image)
    return image.takeError();
  return std::string(image->begin(), image->end());
}

Expected<std::string> makeChatSection(const ChatFormat &format) {
  Expected<std::string> section = makeTemplateSection(format);
  if (section)
    return section;
  // Of GGUF metadata the key itself is given, of a directory the one name of all.
  std::string message = toString(section.takeError());
  StringRef ignored = "chat_template";
  for (const TemplateText &text : format.templates)
    if (size_t key = text.where.find(": tokenizer.chat_template");
        key != std::string::npos && StringRef(message).starts_with(text.where + ": "))
      ignored = StringRef(text.where).substr(key + 2);
  return createStringError(message + " (--ignore-key=" + ignored + " compiles the model without this chat template)");
}

Expected<std::string> makeLicensesSection(StringRef modelLicense, StringRef runtimeFolder) {
  SmallString<256> path(runtimeFolder);
  sys::path::append(path, "NOTICES.txt");
  ErrorOr<std::unique_ptr<MemoryBuffer>> notices = MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!notices)
    return createStringError(notices.getError(), Twine(path) + ": " + notices.getError().message());
  std::string text = modelLicense.empty() ? "The model came without a licence text.\n"
                                          : "The model's licence:\n\n" + modelLicense.rtrim().str() + "\n";
  text += "\nThird-party notices:\n\n";
  text += (*notices)->getBuffer();
  return text;
}

} // namespace ingot
