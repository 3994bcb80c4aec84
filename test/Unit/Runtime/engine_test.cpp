// The engine on a device with memory of its own: recorded steps, and steps that are refused.
#include "engine/engine.h"

#include "reference_model.h"
#include "gtest/gtest.h"
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>

namespace ingot::rt {
namespace {

/// A device in the host's memory, which records what it is asked for between record and endRecording.
class RecordingDevice final : public Device, public DeviceMemory {
public:
  void launch(const ingot_rt_launch &) override {}
  const char *fault() const override { return nullptr; }
  DeviceMemory *memory() override { return this; }
  std::string description() const override { return "recording"; }

  Result<uint64_t> available() override { return uint64_t(1) << 30; }
  Result<uint8_t *> allocate(uint64_t bytes, const char *) override { return static_cast<uint8_t *>(calloc(1, bytes)); }
  void release(uint8_t *memory) override { free(memory); }
  Result<uint8_t *> allocateHost(uint64_t bytes, const char *purpose) override { return allocate(bytes, purpose); }
  void releaseHost(uint8_t *memory) override { free(memory); }
  void upload(uint8_t *to, const void *from, uint64_t bytes) override {
    copy(to, static_cast<const uint8_t *>(from), bytes);
  }
  void download(void *to, const uint8_t *from, uint64_t bytes) override {
    copy(static_cast<uint8_t *>(to), from, bytes);
  }
  void copy(uint8_t *to, const uint8_t *from, uint64_t bytes) override {
    auto operation = [=] { memcpy(to, from, bytes); };
    if (recording)
      recorded.push_back(operation);
    else
      operation();
  }
  void clear(uint8_t *to, uint64_t bytes) override { memset(to, 0, bytes); }
  void mark(uint32_t) override {}
  void waitFor(uint32_t) override {}
  Error finish() override { return {}; }
  bool replay(uint64_t key) override {
    auto known = steps.find(key);
    if (known == steps.end())
      return false;
    for (const std::function<void()> &operation : known->second)
      operation();
    ++replays;
    return true;
  }
  void record() override { recording = true; }
  void endRecording(uint64_t key, bool keep) override {
    recording = false;
    if (keep) {
      steps.emplace(key, recorded);
      replay(key);
    }
    recorded.clear();
  }

  uint32_t replays = 0;

private:
  bool recording = false;
  std::vector<std::function<void()>> recorded;
  std::map<uint64_t, std::vector<std::function<void()>>> steps;
};

/// What the model's step returns, and how often it was called.
uint32_t answer = INGOT_RT_OK;
uint32_t calls = 0;

uint32_t step(const ingot_rt_step_args *, uint32_t, uint32_t) {
  ++calls;
  return answer;
}

/// A decode step of a batch of one.
Error decode(Engine &engine) {
  engine.args.token_count = engine.args.sequence_count = engine.args.row_count = 1;
  return engine.step();
}

TEST(Engine, RefusedStepIsNotRecorded) {
  ingot_rt_model model = reference::model();
  ingot_rt_device kind = {"recording", true, nullptr};
  ingot_rt_variant variant = model.variants[0];
  variant.device = &kind;
  variant.step = step;
  model.variants = &variant;
  RecordingDevice device;
  Pool pool(1, 1);
  std::vector<uint8_t> weights = reference::packedWeights();
  SessionLimits limits = {reference::maxContext, 1, 1, 1, 1, 1};
  Result<std::unique_ptr<Engine>> engine = Engine::create(model, variant, weights.data(), limits, pool, &device);
  ASSERT_TRUE(engine) << engine.takeError().message();

  calls = 0;
  answer = INGOT_RT_BAD_CACHE;
  for (uint32_t i = 1; i <= 2; ++i) {
    EXPECT_TRUE(decode(**engine)) << "a step was refused, and then one like it was not";
    EXPECT_EQ(calls, i);
  }
  EXPECT_EQ(device.replays, 0u);
  answer = INGOT_RT_OK;
  for (uint32_t i = 1; i <= 3; ++i) {
    Error error = decode(**engine);
    EXPECT_FALSE(error) << error.message();
    EXPECT_EQ(device.replays, i);
  }
  EXPECT_EQ(calls, 3u) << "a recorded step runs no code of the host";
}

} // namespace
} // namespace ingot::rt
