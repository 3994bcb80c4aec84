// The command line: verbs with tables of options, from which parsing, help and suggestions are made.
#ifndef INGOT_RUNTIME_CLI_ARGUMENTS_H
#define INGOT_RUNTIME_CLI_ARGUMENTS_H

#include "support/error.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::rt {

/// One option. `names` are its spellings without dashes, separated by spaces, the one used in messages first; a single
/// letter is written with one dash, anything longer with two. `value` names what it takes; null: a switch.
struct OptionSpec {
  const char *names;
  const char *value;
  const char *help;
};

class Arguments;
class Program;

struct VerbSpec {
  const char *name;
  const char *summary;
  const char *usage;   ///< after the program's and the verb's names
  const char *example; ///< the same
  std::span<const OptionSpec> options;
  const char *positionals; ///< the only words accepted without a dash ("-"), or null
  Error (*run)(Program &program, const Arguments &arguments);
};

/// The options of one verb as they were given.
class Arguments {
public:
  static Result<Arguments> parse(const VerbSpec &verb, std::span<const char *const> words);

  bool has(std::string_view name) const;
  /// The last value given, or `absent`.
  std::string text(std::string_view name, std::string_view absent = "") const;
  std::vector<std::string> texts(std::string_view name) const;
  /// Whole numbers from `least` to `most`; errors name the option and both.
  Result<uint64_t> number(std::string_view name, uint64_t absent, uint64_t least, uint64_t most) const;
  /// The same for a list: whole numbers separated by commas.
  Result<std::vector<uint64_t>> numbers(std::string_view name, std::vector<uint64_t> absent, uint64_t least,
                                        uint64_t most) const;
  Result<float> real(std::string_view name, float absent) const;
  /// A word without a dash was given ("-").
  bool dash() const { return sawDash; }
  /// Adds an option as if it had been given.
  Error add(const VerbSpec &verb, std::string_view name, std::string_view value);

  /// Takes an option back, as if it had not been given.
  void remove(std::string_view name);

private:
  struct Given {
    const OptionSpec *option;
    std::string value;
  };
  std::vector<Given> given;
  bool sawDash = false;
};

/// The option that has `name` among its spellings, or null.
const OptionSpec *findOption(const VerbSpec &verb, std::string_view name);
/// The first name of the option that has `spelling` among its names, '_' counting as '-'; empty if there is none.
std::string optionName(const VerbSpec &verb, std::string_view spelling);
/// "--threads", "-n".
std::string spelled(std::string_view name);
/// The candidate with the least edit distance to `word`, if it is near enough to be meant; else empty.
std::string nearest(std::string_view word, const std::vector<std::string> &candidates);
/// What `--help` prints.
std::string verbHelp(const VerbSpec &verb, std::string_view program);

/// Comma- or space-separated ids; `;` begins the next sequence. `what` names the option in errors.
Result<std::vector<std::vector<int32_t>>> parseTokenLists(std::string_view text, const char *what);
Result<uint64_t> parseWhole(std::string_view text, const char *what, uint64_t least, uint64_t most);
Result<float> parseReal(std::string_view text, const char *what);

} // namespace ingot::rt
#endif // INGOT_RUNTIME_CLI_ARGUMENTS_H
