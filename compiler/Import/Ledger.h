// The record behind promise P2: every key of a model's configuration and every
// tensor of its checkpoint, each with what became of it. ingotc stores it in
// the executable, where `info --ledger` prints it.
#ifndef INGOT_COMPILER_IMPORT_LEDGER_H
#define INGOT_COMPILER_IMPORT_LEDGER_H

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/Twine.h"
#include <string>
#include <vector>

namespace ingot {

/// What became of a key or a tensor. The texts of ledgerOutcomeText follow the
/// order.
enum class LedgerOutcome {
  /// It decided something; `detail` is the value, or the parameter it went to.
  Consumed,
  /// A key that has no influence on results; `detail` is the reason.
  Inert,
  /// A tensor that is not needed; `detail` is the reason.
  Waived,
  /// The user took the risk with --ignore-key or --ignore-tensor.
  IgnoredKey,
  IgnoredTensor,
};

/// "consumed", "inert", "waived", "ignored by --ignore-key", ...
llvm::StringRef ledgerOutcomeText(LedgerOutcome outcome);

/// One line of the ledger.
struct LedgerEntry {
  enum class Source { Key, Tensor };
  Source source;
  /// "config.json: hidden_size", "tensor: model.norm.weight".
  std::string what;
  LedgerOutcome outcome;
  std::string detail;
};

/// Keys first, then tensors, each in the order in which they were met.
class Ledger {
public:
  /// Records a key of `file` (its name without directories is used). A key that
  /// is recorded already keeps its first entry.
  void addKey(llvm::StringRef file, llvm::StringRef key, LedgerOutcome outcome, const llvm::Twine &detail);
  /// Appends a remark to the entry of a key that is recorded.
  void amendKey(llvm::StringRef file, llvm::StringRef key, const llvm::Twine &remark);
  void addTensor(llvm::StringRef name, LedgerOutcome outcome, const llvm::Twine &detail);

  const std::vector<LedgerEntry> &keys() const { return keyEntries; }
  const std::vector<LedgerEntry> &tensors() const { return tensorEntries; }

  /// A few lines: how many keys and tensors there are by outcome, and every
  /// entry that a user chose to ignore.
  std::string summary() const;
  /// A JSON object a line: {"what":...,"outcome":...,"detail":...}, keys first.
  std::string toJsonLines() const;

private:
  std::vector<LedgerEntry> keyEntries, tensorEntries;
  llvm::StringSet<> seenKeys;
};

} // namespace ingot

#endif // INGOT_COMPILER_IMPORT_LEDGER_H
