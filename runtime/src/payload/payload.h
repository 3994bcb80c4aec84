// The payload that the compiler appended to this executable: found through the file itself, checked, mapped read-only.
#ifndef INGOT_RUNTIME_PAYLOAD_PAYLOAD_H
#define INGOT_RUNTIME_PAYLOAD_PAYLOAD_H

#include "device/device.h"
#include "ingot_rt/abi.h"
#include "ingot_rt/image.h"
#include "platform/mapping.h"
#include "support/error.h"
#include "support/hash.h"

#include <functional>
#include <string>
#include <string_view>

namespace ingot::rt {

class Pool;

/// An open file and its name for messages.
struct OpenFile {
  int descriptor = -1;
  std::string path;

  OpenFile() = default;
  OpenFile(OpenFile &&other) noexcept { *this = static_cast<OpenFile &&>(other); }
  OpenFile &operator=(OpenFile &&other) noexcept;
  ~OpenFile();
};

/// The file this program was started from: /proc/self/exe, else what the kernel was given (AT_EXECFN), else `argv0`.
Result<OpenFile> openOwnFile(const char *argv0);

/// The mapped payload. Section contents are in the file's own bytes; nothing is copied.
class Payload {
public:
  /// Checks `note` against the file, then the payload's header against the note. Errors tell a payload that is missing
  /// (stripped or cut before it), one that is cut, and one that is damaged from each other.
  static Result<Payload> open(OpenFile file, const ingot_rt_payload_note &note);

  const ingot_rt_payload_header &header() const {
    return *reinterpret_cast<const ingot_rt_payload_header *>(map.data());
  }
  const std::string &path() const { return file.path; }

  /// The table's entry, or null.
  const ingot_rt_section *find(uint32_t kind) const;
  /// A section's bytes.
  std::string_view bytes(const ingot_rt_section &section) const {
    return {reinterpret_cast<const char *>(map.data()) + section.offset, section.size};
  }
  /// The bytes of a section that is trusted to hold offsets, after comparing its hash; empty when there is none.
  Result<std::string_view> checkedBytes(uint32_t kind) const;

private:
  OpenFile file;
  Mapping map;
};

/// "weights", "tokenizer", ... for messages.
const char *sectionName(uint32_t kind);

/// The packed parameters, wherever they come from.
struct Weights {
  const uint8_t *data = nullptr;
  uint64_t bytes = 0;
  Mapping own; ///< FILE.weights or generated memory; empty when they lie in the payload
  enum class Source { Payload, Separate, Random } source = Source::Payload;
  std::string path;
};

/// Maps the weights of `model`, or generates them. With `touch`, maps pages in parallel where there is more than a
/// little to map: not for weights that are read once, to be copied to a device.
Result<Weights> loadWeights(const Payload &payload, const ingot_rt_model &model, Pool &pool, bool touch = true);

/// Fills `weights` (zeroed, model.weights_bytes) from model.random_sources on all workers of `pool`.
void fillRandomWeights(const ingot_rt_model &model, uint8_t *weights, Pool &pool);

/// Launches the kernels that do the same, on memory of the device that is zeroed. `launched` is told, behind each
/// launch, how many bytes of weights there will be.
void launchRandomWeights(const ingot_rt_model &model, const ingot_rt_kernel *const *kernels, uint8_t *weights,
                         Device &device, const std::function<void(uint64_t)> &launched);

/// Compares one in `stride` elements of every random source with ingot_rt_random_element at its place by
/// ingot_rt_panel_index: the definition, not the filling code. Returns the number compared, or an error naming the
/// place.
Result<uint64_t> sampleRandomWeights(const ingot_rt_model &model, const uint8_t *weights, uint64_t stride);

} // namespace ingot::rt
#endif // INGOT_RUNTIME_PAYLOAD_PAYLOAD_H
