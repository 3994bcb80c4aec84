//===- TextSections.h - Sections of the payload that hold text and the tokenizer
//----------------------------------===//

#ifndef INGOT_TOOLS_INGOTC_TEXTSECTIONS_H
#define INGOT_TOOLS_INGOTC_TEXTSECTIONS_H

#include "compiler/Import/OpenModel.h"
#include "compiler/Text/TemplateProgram.h"
#include "llvm/Support/Error.h"
#include <string>

namespace ingot {

/// The tokenizer's tables (ingot_rt/image_tokenizer.h). `vocab` is the number
/// of rows of the embedding table: an id beyond it is an error.
llvm::Expected<std::string> makeTokenizerSection(const TokenizerSource &source, llvm::StringRef modelPath,
                                                 int64_t vocab);

/// The compiled chat templates (ingot_rt/image_template.h). What a template uses
/// and Ingot does not support is an error that says how to leave it out.
llvm::Expected<std::string> makeChatSection(const ChatFormat &format);

/// The model's licence, if it has one, and the notices of what the runtime
/// contains, from NOTICES.txt in its folder.
llvm::Expected<std::string> makeLicensesSection(llvm::StringRef modelLicense, llvm::StringRef runtimeFolder);

} // namespace ingot

#endif // INGOT_TOOLS_INGOTC_TEXTSECTIONS_H
