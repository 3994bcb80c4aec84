// Opening and checking the payload.
#include "payload/payload.h"

#include "platform/machine.h"
#include "pool/pool.h"
#include "support/checked.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ingot::rt {

OpenFile &OpenFile::operator=(OpenFile &&other) noexcept {
  std::swap(descriptor, other.descriptor);
  std::swap(path, other.path);
  return *this;
}

OpenFile::~OpenFile() {
  if (descriptor >= 0)
    close(descriptor);
}

Result<OpenFile> openOwnFile(const char *argv0) {
  OpenFile file;
  file.descriptor = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  if (file.descriptor >= 0) {
    std::string target(4096, '\0');
    ssize_t length = readlink("/proc/self/exe", target.data(), target.size());
    file.path = length > 0 ? target.substr(0, static_cast<size_t>(length)) : argv0;
    return file;
  }
  auto started = reinterpret_cast<const char *>(getauxval(AT_EXECFN));
  for (const char *candidate : {started, argv0}) {
    if (!candidate)
      continue;
    file.path = candidate;
    file.descriptor = ::open(candidate, O_RDONLY | O_CLOEXEC);
    if (file.descriptor >= 0)
      return file;
  }
  return makeError("cannot open this program's own file: neither /proc/self/exe nor %s: %s", started ? started : argv0,
                   strerror(errno));
}

const char *sectionName(uint32_t kind) {
  switch (kind) {
  case INGOT_RT_SECTION_WEIGHTS:
    return "weights";
  case INGOT_RT_SECTION_TOKENIZER:
    return "tokenizer";
  case INGOT_RT_SECTION_GENERATION:
    return "generation defaults";
  case INGOT_RT_SECTION_LEDGER:
    return "ledger";
  case INGOT_RT_SECTION_LICENSES:
    return "licences";
  case INGOT_RT_SECTION_SELFTEST:
    return "selftest";
  case INGOT_RT_SECTION_BUILD:
    return "build";
  case INGOT_RT_SECTION_MEMORY:
    return "memory plan";
  case INGOT_RT_SECTION_TEMPLATE:
    return "chat template";
  default:
    return "unknown section";
  }
}

static Result<uint64_t> fileSize(const OpenFile &file) {
  struct stat status;
  if (fstat(file.descriptor, &status) != 0)
    return makeError("%s: %s", file.path.c_str(), strerror(errno));
  return static_cast<uint64_t>(status.st_size);
}

Result<Payload> Payload::open(OpenFile file, const ingot_rt_payload_note &note) {
  Payload payload;
  payload.file = std::move(file);
  const char *path = payload.file.path.c_str();
  if (note.magic != INGOT_RT_NOTE_MAGIC)
    return makeError("%s: the payload note is damaged: expected magic %016llx, got %016" PRIx64, path,
                     INGOT_RT_NOTE_MAGIC, note.magic);
  if (note.size == 0)
    return makeError("%s: this program was linked without a model", path);
  Checked end = Checked(note.offset) + Checked(note.size);
  if (end.overflowed || note.offset % INGOT_RT_PAYLOAD_ALIGNMENT != 0 || note.size < sizeof(ingot_rt_payload_header))
    return makeError("%s: the payload note is damaged: %" PRIu64 " bytes at %" PRIu64, path, note.size, note.offset);
  Result<uint64_t> size = fileSize(payload.file);
  if (!size)
    return size.takeError();
  if (*size <= note.offset)
    return makeError("%s: the model's weights and tables are gone: expected %" PRIu64 " bytes at offset %" PRIu64
                     ", the file ends at %" PRIu64 "; the program was stripped (strip removes what is appended) or cut",
                     path, note.size, note.offset, *size);
  if (*size < end.value)
    return makeError("%s: truncated: expected %" PRIu64 " bytes, the file has %" PRIu64, path, end.value, *size);
  Result<Mapping> map = Mapping::file(payload.file.descriptor, note.offset, note.size, payload.file.path);
  if (!map)
    return map.takeError();
  payload.map = std::move(*map);

  const ingot_rt_payload_header &header = payload.header();
  if (header.magic != INGOT_RT_PAYLOAD_MAGIC)
    return makeError("%s: damaged: the payload starts with %016" PRIx64 ", expected %016llx", path, header.magic,
                     INGOT_RT_PAYLOAD_MAGIC);
  if (header.version != INGOT_RT_IMAGE_VERSION)
    return makeError("%s: payload version %u, this runtime reads %u", path, header.version, INGOT_RT_IMAGE_VERSION);
  uint64_t tableBytes = sizeof header + header.section_count * uint64_t(sizeof(ingot_rt_section));
  if (header.size != note.size || tableBytes > note.size)
    return makeError("%s: damaged: the payload's header says %" PRIu64 " bytes and %u sections, the note %" PRIu64
                     " bytes",
                     path, header.size, header.section_count, note.size);
  if (Hash hash = hashBytes(&header, tableBytes); !(hash == Hash{note.header_hash[0], note.header_hash[1]}))
    return makeError("%s: damaged: the payload's header has hash %s, expected %s", path, hashText(hash).c_str(),
                     hashText({note.header_hash[0], note.header_hash[1]}).c_str());
  for (uint32_t i = 0; i < header.section_count; ++i) {
    const ingot_rt_section &section = header.sections[i];
    Checked sectionEnd = Checked(section.offset) + Checked(section.size);
    if (sectionEnd.overflowed || sectionEnd.value > note.size || section.offset % 64 != 0)
      return makeError("%s: damaged: section %s of %" PRIu64 " bytes at %" PRIu64
                       " is not inside the payload's %" PRIu64,
                       path, sectionName(section.kind), section.size, section.offset, note.size);
  }
  return payload;
}

const ingot_rt_section *Payload::find(uint32_t kind) const {
  for (uint32_t i = 0; i < header().section_count; ++i)
    if (header().sections[i].kind == kind)
      return &header().sections[i];
  return nullptr;
}

Result<std::string_view> Payload::checkedBytes(uint32_t kind) const {
  const ingot_rt_section *section = find(kind);
  if (!section)
    return std::string_view();
  std::string_view content = bytes(*section);
  if (Hash hash = hashBytes(content.data(), content.size()); !(hash == Hash{section->hash[0], section->hash[1]}))
    return makeError("%s: damaged: section %s has hash %s, expected %s", file.path.c_str(), sectionName(kind),
                     hashText(hash).c_str(), hashText({section->hash[0], section->hash[1]}).c_str());
  return content;
}

/// Asks the kernel to map what is already in the page cache (and to read the rest) before the first step faults on it,
/// page by page, in the middle of its work. Older kernels do not know the request; nothing is lost then.
static void populate(const uint8_t *data, uint64_t bytes, Pool &pool) {
  constexpr uint64_t worthIt = uint64_t(4) << 20, piece = uint64_t(8) << 20;
  if (bytes < worthIt)
    return;
  uint64_t page = pageSize(), start = reinterpret_cast<uint64_t>(data) / page * page;
  uint64_t end = reinterpret_cast<uint64_t>(data) + bytes;
  auto work = [&](uint32_t worker) {
    for (uint64_t at = start + worker * piece; at < end; at += pool.workers() * piece)
      if (madvise(reinterpret_cast<void *>(at), std::min(piece, end - at), MADV_POPULATE_READ) != 0)
        return;
  };
  pool.run(work);
}

/// FILE.weights: found beside the executable, bound to it by size and hash.
static Result<Weights> openSeparate(const Payload &payload, const ingot_rt_model &model) {
  const ingot_rt_payload_header &header = payload.header();
  OpenFile file;
  file.path = payload.path() + ".weights";
  file.descriptor = ::open(file.path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file.descriptor < 0)
    return makeError("%s: cannot open the model's weights: %s; they were compiled with --weights=separate and must lie "
                     "beside the program",
                     file.path.c_str(), strerror(errno));
  ingot_rt_separate_header start;
  Hash expected{header.separate_hash[0], header.separate_hash[1]};
  if (pread(file.descriptor, &start, sizeof start, 0) != static_cast<ssize_t>(sizeof start) ||
      start.magic != INGOT_RT_PAYLOAD_MAGIC)
    return makeError("%s: not a weights file of ingotc", file.path.c_str());
  Hash found{start.hash[0], start.hash[1]};
  if (start.size != header.separate_size || !(found == expected))
    return makeError("%s: the weights of another model: expected hash %s and %" PRIu64 " bytes, got %s and %" PRIu64,
                     file.path.c_str(), hashText(expected).c_str(), header.separate_size, hashText(found).c_str(),
                     start.size);
  Result<uint64_t> size = fileSize(file);
  if (!size)
    return size.takeError();
  Checked needed = Checked(header.separate_size) + Checked(INGOT_RT_PAYLOAD_ALIGNMENT);
  if (needed.overflowed || *size < needed.value)
    return makeError("%s: truncated: expected %" PRIu64 " bytes, the file has %" PRIu64, file.path.c_str(),
                     needed.value, *size);
  if (header.separate_size != model.weights_bytes)
    return makeError("%s: %" PRIu64 " bytes of weights, the model's code expects %" PRIu64, file.path.c_str(),
                     header.separate_size, model.weights_bytes);
  Result<Mapping> map = Mapping::file(file.descriptor, INGOT_RT_PAYLOAD_ALIGNMENT, header.separate_size, file.path);
  if (!map)
    return map.takeError();
  Weights weights;
  weights.own = std::move(*map);
  weights.data = weights.own.data();
  weights.bytes = header.separate_size;
  weights.source = Weights::Source::Separate;
  weights.path = file.path;
  return weights;
}

Result<Weights> loadWeights(const Payload &payload, const ingot_rt_model &model, Pool &pool, bool touch) {
  Weights weights;
  if (model.random) {
    Result<Mapping> memory = Mapping::anonymous(model.weights_bytes, "random weights", true);
    if (!memory)
      return memory.takeError();
    fillRandomWeights(model, memory->data(), pool);
    weights.own = std::move(*memory);
    weights.data = weights.own.data();
    weights.bytes = model.weights_bytes;
    weights.source = Weights::Source::Random;
    return weights;
  }
  if (const ingot_rt_section *section = payload.find(INGOT_RT_SECTION_WEIGHTS)) {
    if (section->size != model.weights_bytes || section->offset % INGOT_RT_PAYLOAD_ALIGNMENT != 0)
      return makeError("%s: %" PRIu64 " bytes of weights at %" PRIu64 ", the model's code expects %" PRIu64,
                       payload.path().c_str(), section->size, section->offset, model.weights_bytes);
    weights.data = reinterpret_cast<const uint8_t *>(payload.bytes(*section).data());
    weights.bytes = section->size;
    weights.path = payload.path();
  } else if (payload.header().separate_size != 0) {
    Result<Weights> separate = openSeparate(payload, model);
    if (!separate)
      return separate;
    weights = std::move(*separate);
  } else
    return makeError("%s: the payload holds no weights", payload.path().c_str());
  if (touch)
    populate(weights.data, weights.bytes, pool);
  return weights;
}

} // namespace ingot::rt
