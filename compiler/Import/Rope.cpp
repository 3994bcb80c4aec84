// Frequencies of rotary position embeddings. Formulas and their order follow
// transformers' modeling_rope_utils.py: scalars in float64 as in Python,
// tensors in float32, where a scalar divided by a tensor is the scalar times
// the tensor's reciprocal (torch's __rdiv__). Powers are rounded correctly,
// which torch's vector code misses by one unit in a few of a thousand.
#include "compiler/Import/Rope.h"
#include "compiler/Import/InputError.h"
#include <algorithm>
#include <cmath>
#include <numbers>

using namespace llvm;

namespace ingot {
namespace {

// Every step below rounds to float32 once, as torch's elementwise kernels do.
static_assert(__FLT_EVAL_METHOD__ == 0);

/// theta^(2i / d) in float32.
std::vector<float> powers(double theta, int64_t headDim) {
  std::vector<float> result(headDim / 2);
  for (size_t i = 0; i < result.size(); ++i) {
    float exponent = static_cast<float>(2 * i) / static_cast<float>(headDim);
    result[i] = static_cast<float>(std::pow(static_cast<double>(static_cast<float>(theta)), exponent));
  }
  return result;
}

std::vector<float> defaultFrequencies(double theta, int64_t headDim) {
  std::vector<float> result = powers(theta, headDim);
  for (float &value : result)
    value = 1.0f / value;
  return result;
}

void checkEven(ConfigReader &reader, int64_t headDim) {
  if (reader.ok() && headDim % 2 != 0)
    reader.fail("RoPE rotates pairs of a head's elements; expected an even "
                "head_dim, got " +
                Twine(headDim));
}

/// The object that rope_scaling or rope_parameters holds, with its reader.
class RopeReader {
public:
  RopeReader(ConfigReader &root, const RopeShape &shape) : root(root), shape(shape) {}

  RopeSpec read();

private:
  bool chooseObject(const Json *&object, StringRef &key);
  void readTheta(ConfigReader *scaling);
  void refusePartial(ConfigReader &reader);
  std::string readType(ConfigReader &scaling, const Json &object);
  int64_t readOriginal(ConfigReader &scaling);
  void linear(ConfigReader &scaling);
  void llama3(ConfigReader &scaling);
  void yarn(ConfigReader &scaling);
  void longrope(ConfigReader &scaling);

  ConfigReader &root;
  const RopeShape &shape;
  double theta = 0;
  RopeSpec spec;
};

constexpr StringLiteral originalKey = "original_max_position_embeddings";
/// Bounds of factors: beyond them a configuration is damaged.
constexpr double tiny = 1e-6, huge = 1e9;

/// rope_scaling is what configurations had before version 5, rope_parameters
/// since; an empty object counts as none.
bool RopeReader::chooseObject(const Json *&object, StringRef &key) {
  const Json *chosen[2] = {root.find("rope_scaling"), root.find("rope_parameters")};
  StringRef names[2] = {"rope_scaling", "rope_parameters"};
  for (int i : {0, 1}) {
    root.consume(names[i], "absent");
    if (chosen[i] && chosen[i]->is_object() && chosen[i]->empty())
      chosen[i] = nullptr;
  }
  if (chosen[0] && chosen[1] && *chosen[0] != *chosen[1]) {
    root.fail("keys 'rope_scaling' and 'rope_parameters' differ: " + jsonText(*chosen[0]) + " and " +
              jsonText(*chosen[1]) + "; expected one of them");
    return false;
  }
  key = names[chosen[0] ? 0 : 1];
  object = chosen[0] ? chosen[0] : chosen[1];
  return object != nullptr;
}

void RopeReader::readTheta(ConfigReader *scaling) {
  // Below 1 frequencies would grow along the head; no model does that.
  std::optional<double> outer = root.optionalNumber("rope_theta", 1, 1e30);
  std::optional<double> inner = scaling ? scaling->optionalNumber("rope_theta", 1, 1e30) : std::nullopt;
  if (outer && inner && *outer != *inner)
    root.fail("key 'rope_theta' is given twice, as " + jsonText(*outer) + " and inside the rope parameters as " +
              jsonText(*inner));
  theta = inner ? *inner : outer.value_or(shape.defaultTheta);
}

void RopeReader::refusePartial(ConfigReader &reader) {
  std::optional<double> part = reader.optionalNumber("partial_rotary_factor", 0, 1);
  if (part && *part != 1)
    reader.failKey("partial_rotary_factor", "rotating a part of each head is not supported; expected "
                                            "1, got " +
                                                jsonText(*part));
}

std::string RopeReader::readType(ConfigReader &scaling, const Json &object) {
  std::optional<std::string> newer = scaling.optionalString("rope_type");
  std::optional<std::string> older = scaling.optionalString("type");
  if (newer && older && *newer != *older) {
    scaling.fail("keys 'rope_type' and 'type' are in conflict: " + quote(*newer) + " and " + quote(*older));
    return "default";
  }
  if (newer || older)
    return newer ? *newer : *older;
  for (const auto &[name, value] : object.items())
    if (name != "rope_theta" && name != "partial_rotary_factor" && name != "rope_type" && name != "type" &&
        !value.is_null()) {
      scaling.failKey(name, "given without a 'rope_type'; expected one of "
                            "linear, llama3, yarn, longrope");
      break;
    }
  return "default";
}

/// Inside the scaling or beside it; absent, the model's own maximum.
int64_t RopeReader::readOriginal(ConfigReader &scaling) {
  constexpr int64_t most = int64_t(1) << 40;
  std::optional<int64_t> outer = root.optionalInteger(originalKey, 1, most);
  std::optional<int64_t> inner = scaling.optionalInteger(originalKey, 1, most);
  if (outer && inner && *outer != *inner)
    scaling.failKey(originalKey, "given twice, as " + Twine(*outer) + " beside it and as " + Twine(*inner) + " inside");
  return outer ? *outer : inner.value_or(shape.maxPosition);
}

void RopeReader::linear(ConfigReader &scaling) {
  float factor = static_cast<float>(scaling.number("factor", tiny, huge));
  for (float &frequency : spec.frequencies)
    frequency /= factor;
}

/// Llama 3.1: wavelengths beyond `low` are stretched, those below `high` kept,
/// those between interpolated.
void RopeReader::llama3(ConfigReader &scaling) {
  float factor = static_cast<float>(scaling.number("factor", tiny, huge));
  double lowFactor = scaling.number("low_freq_factor", tiny, huge);
  double highFactor = scaling.number("high_freq_factor", tiny, huge);
  double original = static_cast<double>(readOriginal(scaling));
  if (scaling.ok() && highFactor <= lowFactor)
    scaling.failKey("high_freq_factor",
                    "expected more than low_freq_factor (" + jsonText(lowFactor) + "), got " + jsonText(highFactor));
  float lowWavelength = static_cast<float>(original / lowFactor);
  float highWavelength = static_cast<float>(original / highFactor);
  float twoPi = static_cast<float>(2 * std::numbers::pi);
  float low = static_cast<float>(lowFactor);
  float range = static_cast<float>(highFactor - lowFactor);
  for (float &frequency : spec.frequencies) {
    float wavelength = (1.0f / frequency) * twoPi;
    float scaled = wavelength > lowWavelength ? frequency / factor : frequency;
    float smooth = ((1.0f / wavelength) * static_cast<float>(original) - low) / range;
    float kept = (1.0f - smooth) * scaled;
    float stretched = kept / factor;
    float rest = smooth * scaled;
    bool medium = !(wavelength < highWavelength) && !(wavelength > lowWavelength);
    frequency = medium ? stretched + rest : scaled;
  }
}

/// YaRN (Peng et al., 2023).
void RopeReader::yarn(ConfigReader &scaling) {
  if (!scaling.findOrNull("factor"))
    scaling.number("factor", tiny, huge); // names the missing key
  std::optional<double> given = scaling.optionalNumber("factor", tiny, huge);
  std::optional<double> attention = scaling.optionalNumber("attention_factor", 0, huge);
  double mscale = scaling.optionalNumber("mscale", 0, huge).value_or(0);
  double mscaleAll = scaling.optionalNumber("mscale_all_dim", 0, huge).value_or(0);
  double fast = scaling.optionalNumber("beta_fast", 0, huge).value_or(0);
  double slow = scaling.optionalNumber("beta_slow", 0, huge).value_or(0);
  bool truncate = scaling.boolean("truncate", true);
  double original = static_cast<double>(readOriginal(scaling));
  if (scaling.ok() && theta <= 1)
    scaling.fail("key 'rope_theta' must be more than 1 for yarn");
  if (!scaling.ok())
    return;
  fast = fast == 0 ? 32 : fast;
  slow = slow == 0 ? 1 : slow;
  double factor = given.value_or(static_cast<double>(shape.maxPosition) / original);
  auto getScale = [&](double m) { return factor <= 1 ? 1.0 : 0.1 * m * std::log(factor) + 1.0; };
  if (attention)
    spec.scaling = static_cast<float>(*attention);
  else if (mscale != 0 && mscaleAll != 0)
    spec.scaling = static_cast<float>(getScale(mscale) / getScale(mscaleAll));
  else
    spec.scaling = static_cast<float>(getScale(1));

  double dim = static_cast<double>(shape.headDim);
  auto correction = [&](double rotations) {
    return dim * std::log(original / (rotations * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  double low = correction(fast), high = correction(slow);
  if (truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1);
  if (low == high)
    high += 0.001;
  std::vector<float> pos = powers(theta, shape.headDim);
  float from = static_cast<float>(low), range = static_cast<float>(high - low);
  for (size_t i = 0; i < pos.size(); ++i) {
    float extrapolated = 1.0f / pos[i];
    float interpolated = 1.0f / (static_cast<float>(factor) * pos[i]);
    float ramp = std::clamp((static_cast<float>(i) - from) / range, 0.0f, 1.0f);
    float keep = 1.0f - ramp;
    float left = interpolated * (1.0f - keep), right = extrapolated * keep;
    spec.frequencies[i] = left + right;
  }
}

/// LongRoPE (Ding et al., 2024).
void RopeReader::longrope(ConfigReader &scaling) {
  std::optional<double> given = scaling.optionalNumber("factor", tiny, huge);
  std::optional<double> attention = scaling.optionalNumber("attention_factor", 0, huge);
  int64_t original = readOriginal(scaling);
  std::vector<float> pos = powers(theta, shape.headDim);
  auto scaled = [&](StringRef key) {
    std::vector<float> result;
    std::optional<std::vector<double>> factors = scaling.optionalNumbers(key);
    if (!factors || factors->size() != pos.size()) {
      scaling.failKey(key, "expected " + Twine(pos.size()) + " numbers (half of the head), got " +
                               Twine(factors ? factors->size() : 0));
      return result;
    }
    for (size_t i = 0; i < pos.size(); ++i) {
      double factor = (*factors)[i];
      if (!(factor >= tiny && factor <= huge))
        scaling.failKey(key, "expected positive factors, got " + jsonText(factor));
      float product = static_cast<float>(factor) * pos[i];
      result.push_back(1.0f / product);
    }
    return result;
  };
  spec.frequencies = scaled("short_factor");
  spec.longFrequencies = scaled("long_factor");
  spec.longFrom = original;
  double length = static_cast<double>(original);
  double factor = given.value_or(static_cast<double>(shape.maxPosition) / length);
  if (scaling.ok() && !attention && factor > 1 && original == 1)
    scaling.failKey(originalKey, "expected more than 1, got 1");
  double scale = factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(length));
  spec.scaling = static_cast<float>(attention.value_or(scale));
}

RopeSpec RopeReader::read() {
  refusePartial(root);
  checkEven(root, shape.headDim);
  const Json *object = nullptr;
  StringRef key;
  std::optional<ConfigReader> scaling;
  std::string type = "default";
  if (chooseObject(object, key)) {
    scaling.emplace(root.nested(*object, key));
    type = scaling->ok() ? readType(*scaling, *object) : type;
    refusePartial(*scaling);
  }
  readTheta(scaling ? &*scaling : nullptr);
  if (scaling)
    root.adopt(*scaling);
  if (!root.ok())
    return spec;
  spec.frequencies = defaultFrequencies(theta, shape.headDim);
  if (scaling) {
    spec.source = type == "default" ? "rope_theta" : key.str();
    if (type == "linear")
      linear(*scaling);
    else if (type == "llama3")
      llama3(*scaling);
    else if (type == "yarn")
      yarn(*scaling);
    else if (type == "longrope")
      longrope(*scaling);
    else if (type == "dynamic")
      scaling->failKey("rope_type", "'dynamic' is not supported: its base depends on the "
                                    "current length while cached keys keep their rotation, "
                                    "so results would depend on how a prompt is chunked");
    else if (type != "default")
      scaling->failKey("rope_type", "unknown type " + quote(type) +
                                        "; expected default, linear, llama3, yarn or "
                                        "longrope");
    scaling->checkRest({}, "rope type '" + type + "'");
    root.adopt(*scaling);
    root.consume(key, type);
  }
  root.inert(originalKey, "read by llama3, yarn and longrope only");
  return spec;
}

} // namespace

RopeSpec readRope(ConfigReader &reader, const RopeShape &shape) { return RopeReader(reader, shape).read(); }

RopeSpec plainRope(ConfigReader &reader, double theta, int64_t headDim) {
  RopeSpec spec;
  checkEven(reader, headDim);
  if (reader.ok())
    spec.frequencies = defaultFrequencies(theta, headDim);
  return spec;
}

void applyRopeFactors(ConfigReader &reader, RopeSpec &rope) {
  std::optional<std::vector<double>> factors = reader.optionalNumbers("rope_freqs");
  if (!factors || !reader.ok())
    return;
  if (factors->size() != rope.frequencies.size()) {
    reader.failKey("rope_freqs", "expected " + Twine(rope.frequencies.size()) + " factors (half of the head), got " +
                                     Twine(factors->size()));
    return;
  }
  if (!rope.longFrequencies.empty()) {
    reader.failKey("rope_freqs", "not supported together with longrope");
    return;
  }
  for (size_t i = 0; i < factors->size(); ++i) {
    if (!((*factors)[i] >= tiny && (*factors)[i] <= huge))
      reader.failKey("rope_freqs", "expected positive factors, got " + jsonText((*factors)[i]));
    rope.frequencies[i] /= static_cast<float>((*factors)[i]);
  }
  rope.source = "rope_freqs";
}

} // namespace ingot
