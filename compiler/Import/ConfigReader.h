// Reads a model's configuration so that nothing in it goes unnoticed: a key is
// consumed by a typed getter, known to have no influence, ignored because the
// user said so, or an error.
#ifndef INGOT_COMPILER_IMPORT_CONFIGREADER_H
#define INGOT_COMPILER_IMPORT_CONFIGREADER_H

#include "compiler/Import/Json.h"
#include "compiler/Import/Ledger.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ingot {

/// A key that does not influence logits or tokens: one row of a reviewed list.
struct InertKey {
  llvm::StringLiteral key;
  /// The JSON values at which that is so, separated by '|' ("false|null");
  /// empty: at any value. At another value the key is an error with `reason`.
  llvm::StringLiteral onlyAt;
  llvm::StringLiteral reason;
};

/// A view of one JSON object of a file. Getters never fail: the first fault is
/// kept, and finish() returns it, so that an architecture reads like a list of
/// keys. Values after a fault are placeholders; ok() says whether they count.
class ConfigReader {
public:
  /// `file` is what errors call the file. Keys in `ignoredKeys` are treated as
  /// absent and recorded. `prefix` stands before keys in messages and in
  /// `ignoredKeys` ("rope_scaling.").
  ConfigReader(const Json &object, llvm::StringRef file, Ledger &ledger, llvm::ArrayRef<std::string> ignoredKeys,
               llvm::StringRef prefix = "");

  /// A reader of an object inside this one, with the same ledger and ignored
  /// keys; its faults are taken over by adopt().
  ConfigReader nested(const Json &inner, llvm::StringRef key) const {
    return ConfigReader(inner, fileName, ledger, ignoredKeys, prefix + key.str() + ".");
  }

  bool ok() const { return fault.empty(); }

  /// The value of a key that is there, not null and not ignored, or null.
  /// Consumes nothing.
  const Json *find(llvm::StringRef key) const;
  /// The same, null values included.
  const Json *findOrNull(llvm::StringRef key) const;

  /// An integer between `min` and `max`. Without `absent` the key must be
  /// there; null is an error.
  int64_t integer(llvm::StringRef key, int64_t min, int64_t max, std::optional<int64_t> absent = std::nullopt);
  /// Nothing where the key is absent or null.
  std::optional<int64_t> optionalInteger(llvm::StringRef key, int64_t min, int64_t max);
  /// A finite number, integers included.
  double number(llvm::StringRef key, double min, double max, std::optional<double> absent = std::nullopt);
  std::optional<double> optionalNumber(llvm::StringRef key, double min, double max);
  /// Null counts as absent where `absent` is false.
  bool boolean(llvm::StringRef key, std::optional<bool> absent);
  /// Nothing where the key is absent or null.
  std::optional<std::string> optionalString(llvm::StringRef key);
  /// A list of finite numbers; nothing where the key is absent or null.
  std::optional<std::vector<double>> optionalNumbers(llvm::StringRef key);
  std::optional<std::vector<std::string>> optionalStrings(llvm::StringRef key);
  /// Ids given as an integer or a list of integers, each between 0 and `max`;
  /// nothing where the key is absent.
  std::optional<std::vector<int64_t>> ids(llvm::StringRef key, int64_t max);

  /// Whether an id that `key` gives is in a vocabulary. One that is not never
  /// occurs; it is warned of and remarked in the ledger.
  bool occurs(llvm::StringRef key, int64_t id, int64_t vocab, std::vector<std::string> &warnings);

  /// Records a key as consumed: its value, or `became`.
  void consume(llvm::StringRef key, const llvm::Twine &became = "");
  /// Records a key as inert. No effect where the key is absent.
  void inert(llvm::StringRef key, const llvm::Twine &reason);

  /// Keeps a fault: "FILE: WHAT", or "FILE: KEY: WHAT" with the key's prefix.
  void fail(const llvm::Twine &what);
  void failKey(llvm::StringRef key, const llvm::Twine &what);
  /// The first of several faults is kept; a nested reader hands its on.
  void adopt(ConfigReader &nested);

  /// Every key must be recorded by now, or be in one of `lists` (the first that
  /// has it counts), else it is an error that names it and the remedy.
  void checkRest(llvm::ArrayRef<llvm::ArrayRef<InertKey>> lists, const llvm::Twine &reader);

  /// The fault as an error, or success.
  llvm::Error finish();

private:
  const Json &object;
  std::string fileName, prefix;
  Ledger &ledger;
  llvm::ArrayRef<std::string> ignoredKeys;
  llvm::StringSet<> ignored, recorded;
  std::string fault;

  /// find() for a getter: a fault where the key is null and may not be, or
  /// absent and must not be.
  const Json *expect(llvm::StringRef key, bool required, bool nullable, llvm::StringRef type);
  std::optional<double> checkedNumber(llvm::StringRef key, const Json &value, double min, double max);
  std::optional<int64_t> checkedInteger(llvm::StringRef key, const Json &value, int64_t min, int64_t max);
};

/// A JSON value for messages and the ledger: on one line, cut when long.
std::string jsonText(const Json &value);

} // namespace ingot

#endif // INGOT_COMPILER_IMPORT_CONFIGREADER_H
