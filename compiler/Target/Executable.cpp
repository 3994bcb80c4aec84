//===- Executable.cpp - Puts an executable together: code, tables, weights
//----------------------------------------===//

#include "compiler/Target/Executable.h"
#include "compiler/Target/Link.h"
#include "compiler/Target/OutputFile.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include <cstring>
#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace llvm;

namespace ingot {

static void hashInto(uint64_t out[2], const void *data, size_t size) {
  XXH128_hash_t hash = XXH3_128bits(data, size);
  out[0] = hash.low64;
  out[1] = hash.high64;
}

/// Offset in the file of the section `.ingot.payload` of a linked executable.
static Expected<uint64_t> findNote(StringRef path) {
  Expected<object::OwningBinary<object::ObjectFile>> file = object::ObjectFile::createObjectFile(path);
  if (!file)
    return file.takeError();
  auto *elf = dyn_cast<object::ELF64LEObjectFile>(file->getBinary());
  if (!elf)
    return createStringError("internal: the linked file is not a 64-bit ELF");
  for (const object::ELFSectionRef section : elf->sections()) {
    Expected<StringRef> name = section.getName();
    if (!name)
      return name.takeError();
    if (*name == ".ingot.payload" && section.getSize() >= sizeof(ingot_rt_payload_note))
      return section.getOffset();
  }
  return createStringError("internal: the runtime has no section .ingot.payload");
}

static Error linkObjects(const ExecutableInput &input, StringRef output) {
  ObjectFiles files;
  for (const SmallVector<char, 0> &object : input.objects)
    if (Error error = files.add("ingot-step", object))
      return error;
  Expected<SmallVector<char, 0>> tables = emitModelTables(input.record, input.target);
  if (!tables)
    return tables.takeError();
  if (Error error = files.add("ingot-model", *tables))
    return error;
  return linkExecutable(files.get(), input.runtimeFolder, input.link, output);
}

namespace {
/// Offsets in the payload, known before anything is written.
struct PayloadPlan {
  std::vector<ingot_rt_section> sections;
  uint64_t headerSize = 0, weightsOffset = 0, size = 0;
};
} // namespace

static PayloadPlan planPayload(const ExecutableInput &input) {
  PayloadPlan plan;
  bool embedded = input.place == WeightsPlace::Embedded;
  size_t count = input.sections.size() + (embedded ? 1 : 0);
  plan.headerSize = sizeof(ingot_rt_payload_header) + count * sizeof(ingot_rt_section);
  plan.size = plan.headerSize;
  for (const PayloadSection &section : input.sections) {
    uint64_t offset = alignTo(plan.size, 64);
    plan.sections.push_back({static_cast<uint32_t>(section.kind), 0, offset, section.bytes.size(), {0, 0}});
    plan.size = offset + section.bytes.size();
  }
  if (embedded) {
    plan.weightsOffset = alignTo(plan.size, INGOT_RT_PAYLOAD_ALIGNMENT);
    uint64_t size = input.record.fields.weights_bytes;
    plan.sections.push_back({INGOT_RT_SECTION_WEIGHTS, 0, plan.weightsOffset, size, {0, 0}});
    plan.size = plan.weightsOffset + size;
  }
  return plan;
}

/// Packs the weights into FILE.weights and returns what binds them to the
/// executable.
static Expected<ingot_rt_separate_header> writeSeparateWeights(const ExecutableInput &input, OutputFile &file,
                                                               function_ref<void(uint64_t)> progress) {
  uint64_t size = input.record.fields.weights_bytes;
  Expected<MutableArrayRef<char>> bytes = file.map(INGOT_RT_PAYLOAD_ALIGNMENT + size);
  if (!bytes)
    return bytes.takeError();
  MutableArrayRef<char> weights = bytes->drop_front(INGOT_RT_PAYLOAD_ALIGNMENT);
  if (Error error = packParameters(input.parameters, *input.checkpoint, weights, progress))
    return error;
  ingot_rt_separate_header header = {INGOT_RT_PAYLOAD_MAGIC, size, {0, 0}};
  hashInto(header.hash, weights.data(), weights.size());
  std::memcpy(bytes->data(), &header, sizeof(header));
  return header;
}

/// Fills the mapped executable from `payloadOffset` on and patches its note.
static Error writePayload(const ExecutableInput &input, PayloadPlan &plan, MutableArrayRef<char> file,
                          uint64_t payloadOffset, uint64_t noteOffset, const ingot_rt_separate_header &separate,
                          function_ref<void(uint64_t)> progress) {
  MutableArrayRef<char> payload = file.drop_front(payloadOffset);
  for (auto [section, source] : zip(plan.sections, input.sections))
    std::memcpy(payload.data() + section.offset, source.bytes.data(), source.bytes.size());
  if (input.place == WeightsPlace::Embedded)
    if (Error error =
            packParameters(input.parameters, *input.checkpoint, payload.drop_front(plan.weightsOffset), progress))
      return error;
  for (ingot_rt_section &section : plan.sections)
    hashInto(section.hash, payload.data() + section.offset, section.size);

  ingot_rt_payload_header header = {};
  header.magic = INGOT_RT_PAYLOAD_MAGIC;
  header.version = INGOT_RT_IMAGE_VERSION;
  header.section_count = plan.sections.size();
  header.size = plan.size;
  header.separate_size = separate.size;
  std::memcpy(header.separate_hash, separate.hash, sizeof(header.separate_hash));
  std::memcpy(payload.data(), &header, sizeof(header));
  std::memcpy(payload.data() + sizeof(header), plan.sections.data(), plan.sections.size() * sizeof(ingot_rt_section));

  ingot_rt_payload_note note = {INGOT_RT_NOTE_MAGIC, payloadOffset, plan.size, {0, 0}};
  hashInto(note.header_hash, payload.data(), plan.headerSize);
  std::memcpy(file.data() + noteOffset, &note, sizeof(note));
  return Error::success();
}

Expected<ExecutableSizes> writeExecutable(const ExecutableInput &input, function_ref<void(uint64_t)> progress) {
  Expected<OutputFile> executable = OutputFile::create(input.output);
  if (!executable)
    return executable.takeError();
  if (Error error = linkObjects(input, executable->temporaryPath()))
    return error;
  if (Error error = executable->reopen())
    return error;
  Expected<uint64_t> note = findNote(executable->temporaryPath());
  if (!note)
    return note.takeError();
  uint64_t codeSize = 0;
  if (std::error_code error = sys::fs::file_size(executable->temporaryPath(), codeSize))
    return createStringError(error, input.output + ": " + error.message());

  ingot_rt_separate_header separate = {};
  std::optional<OutputFile> weightsFile;
  if (input.place == WeightsPlace::Separate) {
    Expected<OutputFile> file = OutputFile::create(input.output + ".weights");
    if (!file)
      return file.takeError();
    weightsFile.emplace(std::move(*file));
    Expected<ingot_rt_separate_header> header = writeSeparateWeights(input, *weightsFile, progress);
    if (!header)
      return header.takeError();
    separate = *header;
  }

  PayloadPlan plan = planPayload(input);
  uint64_t payloadOffset = alignTo(codeSize, INGOT_RT_PAYLOAD_ALIGNMENT);
  Expected<MutableArrayRef<char>> file = executable->map(payloadOffset + plan.size);
  if (!file)
    return file.takeError();
  if (Error error = writePayload(input, plan, *file, payloadOffset, *note, separate, progress))
    return error;
  if (weightsFile)
    if (Error error = weightsFile->keep(/*executable=*/false))
      return error;
  if (Error error = executable->keep(/*executable=*/true))
    return error;
  uint64_t tables = plan.weightsOffset ? plan.weightsOffset : plan.size;
  return ExecutableSizes{codeSize, tables, input.place == WeightsPlace::Random ? 0 : input.record.fields.weights_bytes};
}

} // namespace ingot
