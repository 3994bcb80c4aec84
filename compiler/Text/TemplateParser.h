// Parses a chat template into a tree. The grammar is Jinja's with the
// extensions that transformers switches on (break, continue, generation);
// inheritance, includes, imports, blocks, autoescape and recursive loops are
// refused by name.
#ifndef INGOT_COMPILER_TEXT_TEMPLATEPARSER_H
#define INGOT_COMPILER_TEXT_TEMPLATEPARSER_H

#include "compiler/Text/TemplateAst.h"
#include "llvm/ADT/StringRef.h"

namespace ingot::tpl {

/// A tree deeper than this is an error: the stages after this one recurse.
inline constexpr uint32_t maxTreeDepth = 400;

/// The tree of `source`. Errors are "FILE: line L, column C: what".
llvm::Expected<NodePtr> parseTemplate(llvm::StringRef source, llvm::StringRef file);

} // namespace ingot::tpl

#endif // INGOT_COMPILER_TEXT_TEMPLATEPARSER_H
