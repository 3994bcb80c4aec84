// What all verbs share: the payload with its tables, the tokenizer, defaults, and sessions sized to the machine.
#ifndef INGOT_RUNTIME_CLI_PROGRAM_H
#define INGOT_RUNTIME_CLI_PROGRAM_H

#include "cli/arguments.h"
#include "engine/engine.h"
#include "payload/payload.h"
#include "platform/machine.h"
#include "pool/pool.h"
#include "sampler/sampler.h"
#include "support/output.h"
#include "template/chat_template.h"
#include "tokenizer/tokenizer.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ingot::rt {

/// The executable: its model and what the compiler stored for it.
class Program {
public:
  Program(const ingot_rt_model &model, Payload payload, std::string name)
      : model(model), payload(std::move(payload)), name(std::move(name)) {}

  /// Reads the tables that every verb may need.
  Error open();

  /// The tokenizer, or an error that says the model was compiled without one.
  Result<Tokenizer> needTokenizer() const;
  /// The chat templates, or an error that says the model was compiled without.
  Result<ChatTemplates> needTemplates() const;

  const ingot_rt_model &model;
  Payload payload;
  std::string name;                                       ///< as it was called, for usage lines
  Output out{1};                                          ///< stdout
  const ingot_rt_generation_defaults *defaults = nullptr; ///< null when the executable holds none
  std::vector<int32_t> endTokens;
  std::optional<Tokenizer> tokenizer;
  std::optional<ChatTemplates> templates;
};

/// Workers that --threads may ask for, at most.
constexpr uint64_t maxWorkers = 1024;

/// What a verb needs of a session.
struct SessionNeeds {
  uint64_t sequences = 1;  ///< in one step
  uint64_t rows = 0;       ///< of logits in one step; 0: one for each sequence
  uint64_t stepTokens = 0; ///< 0: as compiled
  uint64_t context = 0;    ///< positions of a sequence; 0: --ctx, or as many as fit
  uint64_t workers = 0;    ///< 0: --threads, or the cores this process may use
};

/// A loaded model, ready to step. Members are in the order of their dependence.
struct Session {
  const ingot_rt_variant *variant = nullptr;
  std::unique_ptr<Pool> pool;
  std::unique_ptr<Device> device; ///< what the variant runs on; null: the CPU
  Weights weights;                ///< of the host; what a device has generated is not there
  DeviceBuffer deviceWeights;
  SessionLimits limits;
  MemoryPlan plan;
  std::unique_ptr<Engine> engine;

  /// Makes the engine, anew if there was one, with the session's members as they are.
  Error makeEngine(const ingot_rt_model &model);
};

/// Options of every verb that loads the model.
#define INGOT_SESSION_OPTIONS                                                                                          \
  {"threads t", "N", "workers (default: the physical cores this process may use)"},                                    \
      {"ctx c", "N", "positions of a sequence (default: what fits in memory, up to the compiled maximum)"},            \
      {"cpu-variant", "NAME", "force a CPU variant of this executable (also INGOT_CPU); see info"},                    \
      {"device", "N", "which GPU, of an executable for GPUs (default: 0)"}, {"help h", nullptr, "this text"}

/// Rows of logits that a step may leave where every row is wanted: as many as fit in 64 MiB, so that a large vocabulary
/// costs steps, not memory.
uint64_t rowsAtOnce(const ingot_rt_model &model);
/// Chooses limits: context and cache as given, or as much as fits. With `enforce` a reduction is told on stderr, and
/// what cannot fit is an error that names both numbers; without, limits that do not fit are returned as they were asked
/// for. Of a model that runs in a device's memory, that of `device`, if it is given, is what counts.
Result<SessionLimits> chooseLimits(const ingot_rt_model &model, const Arguments &arguments, const SessionNeeds &needs,
                                   Device *device, bool enforce);
/// The CPU variant by --cpu-variant, INGOT_CPU or the machine.
Result<const ingot_rt_variant *> chooseVariant(const ingot_rt_model &model, const Arguments &arguments);
Result<std::unique_ptr<Session>> openSession(Program &program, const Arguments &arguments, const SessionNeeds &needs);

/// The contents of a file, or of stdin for "-".
Result<std::string> readText(const std::string &path);
/// The value of `--tokens`-like options: ids, "@FILE" or "-"; given several times, one sequence after the other.
Result<std::vector<std::vector<int32_t>>> readTokenLists(const Arguments &arguments, const char *name);

/// A note on stderr.
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/// "1.5 GiB".
std::string bytesText(uint64_t bytes);

} // namespace ingot::rt
#endif // INGOT_RUNTIME_CLI_PROGRAM_H
