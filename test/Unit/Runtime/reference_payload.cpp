// Appends a payload to an executable made of the reference decoder, as the compiler does after the link.
// usage: reference-payload PROGRAM OUT random|embed|separate
#include "ingot_rt/image.h"
#include "reference_model.h"
#include "support/checked.h"
#include "support/hash.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/stat.h>
#include <vector>

using namespace ingot::rt;

namespace {

using Bytes = std::string;

template <typename T>
void append(Bytes &bytes, const T &value) {
  bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
}

Bytes generationDefaults() {
  ingot_rt_generation_defaults defaults = {};
  defaults.size = sizeof defaults;
  defaults.present = 1u << 5;
  defaults.do_sample = 0;
  defaults.temperature = 1;
  defaults.top_p = 1;
  defaults.repetition_penalty = 1.1f;
  defaults.top_k = 50;
  defaults.max_new_tokens = defaults.max_length = defaults.bos = defaults.pad = -1;
  defaults.eos_count = 1;
  Bytes bytes(reinterpret_cast<const char *>(&defaults), sizeof defaults);
  append(bytes, int32_t(66));
  return bytes;
}

Bytes ledger() {
  const std::string summary = "1 key consumed, 1 waived",
                    texts[] = {"config.json: hidden_size",    "consumed", "24",
                               "tensor: rotary_emb.inv_freq", "waived",   "computed"};
  uint64_t at = sizeof(ingot_rt_ledger) + 2 * sizeof(ingot_rt_ledger_entry);
  Bytes strings, bytes;
  auto place = [&](const std::string &text) {
    uint64_t offset = at + strings.size();
    strings += text;
    strings += '\0';
    return offset;
  };
  append(bytes, place(summary));
  append(bytes, uint64_t(2));
  for (const std::string &text : texts)
    append(bytes, place(text));
  return bytes + strings;
}

/// Logits of the dense decoder, which shares no packed layout, cache or batch with the step.
Bytes selftest() {
  std::vector<int32_t> tokens = {1, 20, 3, 41, 5, 60, 7, 8};
  std::vector<float> logits = reference::denseLogits(tokens, 0);
  float largest = 0;
  for (float value : logits)
    largest = std::max(largest, std::fabs(value));
  ingot_rt_selftest head = {8, 2, reference::vocab, 0, 1e-6f, largest};
  Bytes bytes(reinterpret_cast<const char *>(&head), sizeof head);
  for (int32_t token : tokens)
    append(bytes, token);
  const int32_t rows[] = {2, 7};
  append(bytes, rows);
  for (int repeat = 0; repeat < 2; ++repeat)
    for (int32_t id = 0; id < static_cast<int32_t>(reference::vocab); ++id)
      append(bytes, id);
  for (int32_t row : rows)
    bytes.append(reinterpret_cast<const char *>(&logits[static_cast<size_t>(row) * reference::vocab]),
                 4 * reference::vocab);
  return bytes;
}

bool writeFile(const std::string &path, const Bytes &bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return file.good() && chmod(path.c_str(), 0755) == 0;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 4) {
    fputs("usage: reference-payload PROGRAM OUT random|embed|separate\n", stderr);
    return 2;
  }
  std::string mode = argv[3];
  std::ifstream in(argv[1], std::ios::binary);
  Bytes program((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::vector<uint8_t> packed = reference::packedWeights();
  Bytes weights(packed.begin(), packed.end());

  std::vector<std::pair<uint32_t, Bytes>> sections = {
      {INGOT_RT_SECTION_GENERATION, generationDefaults()},        {INGOT_RT_SECTION_LEDGER, ledger()},
      {INGOT_RT_SECTION_LICENSES, "The model's licence.\n"},      {INGOT_RT_SECTION_SELFTEST, selftest()},
      {INGOT_RT_SECTION_BUILD, "reference 0.1.0\n--dtype=f32\n"},
  };
  if (mode == "embed")
    sections.push_back({INGOT_RT_SECTION_WEIGHTS, weights});
  uint64_t tableBytes = sizeof(ingot_rt_payload_header) + sections.size() * sizeof(ingot_rt_section);
  Bytes payload(tableBytes, '\0'), table;
  for (auto &[kind, content] : sections) {
    payload.resize(roundUp(payload.size(), kind == INGOT_RT_SECTION_WEIGHTS ? INGOT_RT_PAYLOAD_ALIGNMENT : 64));
    Hash hash = hashBytes(content.data(), content.size());
    append(table, ingot_rt_section{kind, 0, payload.size(), content.size(), {hash.low, hash.high}});
    payload += content;
  }
  ingot_rt_payload_header header = {};
  header.magic = INGOT_RT_PAYLOAD_MAGIC;
  header.version = INGOT_RT_IMAGE_VERSION;
  header.section_count = static_cast<uint32_t>(sections.size());
  header.size = payload.size();
  if (mode == "separate") {
    Hash hash = hashBytes(weights.data(), weights.size());
    ingot_rt_separate_header separate = {INGOT_RT_PAYLOAD_MAGIC, weights.size(), {hash.low, hash.high}};
    header.separate_size = separate.size;
    memcpy(header.separate_hash, separate.hash, sizeof separate.hash);
    Bytes file(reinterpret_cast<const char *>(&separate), sizeof separate);
    file.resize(INGOT_RT_PAYLOAD_ALIGNMENT);
    if (!writeFile(std::string(argv[2]) + ".weights", file + weights))
      return 1;
  }
  memcpy(payload.data(), &header, sizeof header);
  memcpy(payload.data() + sizeof header, table.data(), table.size());

  // The note: its magic at a multiple of 64 with the rest still zero.
  uint64_t magic = INGOT_RT_NOTE_MAGIC;
  Bytes unpatched(reinterpret_cast<const char *>(&magic), sizeof magic);
  unpatched.resize(sizeof(ingot_rt_payload_note));
  size_t at = program.find(unpatched);
  while (at != Bytes::npos && at % 64 != 0)
    at = program.find(unpatched, at + 1);
  if (at == Bytes::npos) {
    fprintf(stderr, "error: %s has no payload note\n", argv[1]);
    return 1;
  }
  Hash hash = hashBytes(payload.data(), tableBytes);
  ingot_rt_payload_note note = {
      magic, roundUp(program.size(), INGOT_RT_PAYLOAD_ALIGNMENT), payload.size(), {hash.low, hash.high}};
  memcpy(program.data() + at, &note, sizeof note);
  program.resize(note.offset);
  return writeFile(argv[2], program + payload) ? 0 : 1;
}
