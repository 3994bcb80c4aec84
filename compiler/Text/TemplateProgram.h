// The template section of an executable: parses every template of a model,
// resolves names to slots as Jinja's compiler does, evaluates what is constant,
// and lays out the result as ingot_rt/image_template.h describes.
#ifndef INGOT_COMPILER_TEXT_TEMPLATEPROGRAM_H
#define INGOT_COMPILER_TEXT_TEMPLATEPROGRAM_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <utility>
#include <vector>

namespace ingot {

/// A chat template as text.
struct TemplateText {
  std::string name;  ///< "default", "tool_use", ...
  std::string text;  ///< Jinja
  std::string where; ///< what errors call it: the file and the key
};

/// What a model says about its chat format. Empty without templates.
struct ChatFormat {
  std::vector<TemplateText> templates;
  /// bos_token, eos_token, ... with their texts, which a template may use as variables.
  std::vector<std::pair<std::string, std::string>> specials;
};

/// The bytes of the section. Whatever a template uses that is not supported is
/// an error "FILE: line L, column C: what".
llvm::Expected<std::string> makeTemplateSection(const ChatFormat &format);

} // namespace ingot

#endif // INGOT_COMPILER_TEXT_TEMPLATEPROGRAM_H
