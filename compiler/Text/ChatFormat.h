// Finds a model's chat templates: in chat_template.jinja and
// additional_chat_templates/, in tokenizer_config.json, or in GGUF metadata,
// with the special tokens that they may name.
#ifndef INGOT_COMPILER_TEXT_CHATFORMAT_H
#define INGOT_COMPILER_TEXT_CHATFORMAT_H

#include "compiler/Import/Ledger.h"
#include "compiler/Import/OpenModel.h"
#include "compiler/Text/TemplateProgram.h"

namespace ingot {

/// Files in a model's directory come before tokenizer_config.json, as in
/// transformers. A template whose key is in `ignoredKeys` ("chat_template"; of
/// GGUF "tokenizer.chat_template") is left out. Every template is recorded in
/// `ledger`. `modelPath` is what errors call a GGUF file.
llvm::Expected<ChatFormat> readChatFormat(const TokenizerSource &source, llvm::StringRef modelPath,
                                          llvm::ArrayRef<std::string> ignoredKeys, Ledger &ledger);

} // namespace ingot

#endif // INGOT_COMPILER_TEXT_CHATFORMAT_H
