// Compiles the regular expressions by which tokenizers split text into
// deterministic automata over classes of code points, so that an executable
// neither parses nor compiles a pattern.
//
// The meaning is that of a backtracking engine (Oniguruma, which the reference
// uses): of alternatives the first that leads to a match, of repetitions the
// longest first. A state of the automaton is therefore a list of positions in
// the pattern by priority, cut after the first that matches. A look-ahead of
// one code point, (?!\S), is decided when that code point is read: a transition
// says whether the text *before* its code point matches.
#ifndef INGOT_COMPILER_TEXT_SPLITPATTERN_H
#define INGOT_COMPILER_TEXT_SPLITPATTERN_H

#include "compiler/Text/CodePointSet.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <vector>

namespace ingot {

/// The contents of an ingot_rt_tok_automaton.
struct SplitAutomaton {
  uint32_t states = 0, classes = 0;
  std::vector<uint16_t> transitions; ///< [states * classes]
  std::vector<uint8_t> classOf;      ///< [lastCodePoint + 1]
};

/// What \w is, which engines do not agree on.
enum class PatternDialect { Oniguruma, Rust };

/// Compiles a regular expression in Oniguruma's syntax. Constructs that are not
/// regular or not supported (back-references, anchors, look-behind, possessive
/// quantifiers, ...) are errors that name the construct and where it stands.
llvm::Expected<SplitAutomaton> compilePattern(llvm::StringRef pattern,
                                              PatternDialect dialect = PatternDialect::Oniguruma);

/// Matches `text` itself.
llvm::Expected<SplitAutomaton> compileLiteral(llvm::StringRef text);

/// Whether the automaton matches a text of no code points.
bool matchesEmpty(const SplitAutomaton &automaton);

/// Where the automaton matches in a text of code points: [first, second), in
/// order.
std::vector<std::pair<size_t, size_t>> findMatches(const SplitAutomaton &automaton, llvm::ArrayRef<uint32_t> text);

/// Matches one code point of the set.
SplitAutomaton compileSet(const CodePointSet &set);

} // namespace ingot

#endif // INGOT_COMPILER_TEXT_SPLITPATTERN_H
