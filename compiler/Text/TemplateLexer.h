// Splits a chat template into tokens as Jinja does with the settings of
// transformers: trim_blocks, lstrip_blocks, no trailing newline kept, no line
// statements.
#ifndef INGOT_COMPILER_TEXT_TEMPLATELEXER_H
#define INGOT_COMPILER_TEXT_TEMPLATELEXER_H

#include "compiler/Text/TemplateAst.h"
#include "llvm/ADT/StringRef.h"

namespace ingot::tpl {

struct Token {
  enum class Kind {
    Data,
    BlockBegin,
    BlockEnd,
    VariableBegin,
    VariableEnd,
    Name,
    String,
    Integer,
    Float,
    Operator,
    End
  };
  Kind kind;
  Place place;
  std::string text; ///< data, a name, a string's value, or an operator
  int64_t integer = 0;
  double real = 0;

  bool isName(llvm::StringRef name) const { return kind == Kind::Name && text == name; }
  bool isOperator(llvm::StringRef op) const { return kind == Kind::Operator && text == op; }
  /// For messages: "'endfor'", "end of template".
  std::string describe() const;
};

/// All tokens of `source`, the last one End. `file` is what errors call it.
llvm::Expected<std::vector<Token>> lexTemplate(llvm::StringRef source, llvm::StringRef file);

} // namespace ingot::tpl

#endif // INGOT_COMPILER_TEXT_TEMPLATELEXER_H
