// The payload that follows an executable's ELF image (or stands in
// FILE.weights): what the compiler makes and the runtime reads in place,
// without parsing. Every table is plain structures with offsets from the start
// of its section.
//
// The executable's ELF section `.ingot.payload` holds an ingot_rt_payload_note,
// so that a payload that was stripped, cut or damaged is named as such. The
// payload starts with an ingot_rt_payload_header and its section table.
#ifndef INGOT_RT_IMAGE_H
#define INGOT_RT_IMAGE_H

#include "ingot_rt/image_template.h"
#include "ingot_rt/image_tokenizer.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define INGOT_RT_PAYLOAD_MAGIC 0x31444c5954474e49ull // "INGTYLD1"
#define INGOT_RT_NOTE_MAGIC 0x3145544f4e474e49ull    // "INGNOTE1"
#define INGOT_RT_IMAGE_VERSION 1u

/// What a section of the payload holds. Absent sections are not in the table.
enum ingot_rt_section_kind {
  INGOT_RT_SECTION_WEIGHTS = 1,    ///< packed parameters (see ingot_rt_parameter);
                                   ///< absent for random weights
  INGOT_RT_SECTION_TOKENIZER = 2,  ///< ingot_rt_tok_header
  INGOT_RT_SECTION_GENERATION = 3, ///< ingot_rt_generation_defaults
  INGOT_RT_SECTION_LEDGER = 4,     ///< ingot_rt_ledger
  INGOT_RT_SECTION_LICENSES = 5,   ///< UTF-8 text: the model's licence, then third-party notices
  INGOT_RT_SECTION_SELFTEST = 6,   ///< ingot_rt_selftest
  INGOT_RT_SECTION_BUILD = 7,      ///< UTF-8 text, a line each: compiler version, resolved flags
  INGOT_RT_SECTION_MEMORY = 8,     ///< ingot_rt_arena_plan: the arena's buffers, for `info --memory`
  INGOT_RT_SECTION_TEMPLATE = 9,   ///< ingot_rt_tpl_header
};

/// One section. Offsets are from the payload's start; weights are aligned to
/// INGOT_RT_PAYLOAD_ALIGNMENT, others to 64.
struct ingot_rt_section {
  uint32_t kind;
  uint32_t reserved;
  uint64_t offset, size;
  uint64_t hash[2]; ///< XXH3-128 (low, high) of the section's bytes
};

/// The first bytes of a payload.
struct ingot_rt_payload_header {
  uint64_t magic; ///< INGOT_RT_PAYLOAD_MAGIC
  uint32_t version, section_count;
  uint64_t size; ///< of the whole payload in this file
  /// With --weights=separate the weights section lies in FILE.weights: its size
  /// and hash, else zero.
  uint64_t separate_size, separate_hash[2];
  struct ingot_rt_section sections[]; ///< [section_count]
};

/// The content of the ELF section `.ingot.payload`, patched after the link.
struct ingot_rt_payload_note {
  uint64_t magic; ///< INGOT_RT_NOTE_MAGIC
  /// of the payload in the file; offset is a multiple of
  /// INGOT_RT_PAYLOAD_ALIGNMENT
  uint64_t offset, size;
  /// XXH3-128 of the payload's header with its section table
  uint64_t header_hash[2];
};

/// The start of a FILE.weights: INGOT_RT_PAYLOAD_MAGIC, then zeros up to
/// INGOT_RT_PAYLOAD_ALIGNMENT, then the weights.
struct ingot_rt_separate_header {
  uint64_t magic;
  /// of the weights that follow; must equal the executable's
  uint64_t size, hash[2];
};

/// Defaults of generation: generation_config.json's values where it has them
/// (see `present`), else the reference's.
struct ingot_rt_generation_defaults {
  uint64_t size; ///< sizeof(struct ingot_rt_generation_defaults)
  /// bit i: the i-th of do_sample, temperature, top_k, top_p, min_p,
  /// repetition_penalty came from the file
  uint64_t present;
  uint32_t do_sample;
  float temperature, top_p, min_p, repetition_penalty;
  uint32_t top_k;                     ///< 0: off
  int64_t max_new_tokens, max_length; ///< -1: not given
  int64_t bos, pad;                   ///< -1: none
  uint64_t eos_count;
  int32_t eos[]; ///< [eos_count] every id that ends a generation
};

/// One key or tensor and what became of it.
struct ingot_rt_ledger_entry {
  /// offset of a NUL-terminated text: "config.json: hidden_size", "tensor:
  /// model.norm.weight"
  uint64_t what;
  /// offset of a text: "consumed", "inert", "waived", "ignored by --ignore-key"
  uint64_t outcome;
  /// offset of a text: the value, where a tensor went, or the reason
  uint64_t detail;
};

/// What promise P2 stores. `summary` is the offset of a text of a few lines.
struct ingot_rt_ledger {
  uint64_t summary, entry_count;
  struct ingot_rt_ledger_entry entries[]; ///< [entry_count], config keys first
};

/// One buffer of the arena as planned: bytes = per_unit * (tokens, rows or
/// workers, or 1).
struct ingot_rt_arena_buffer {
  uint64_t name; ///< offset of a NUL-terminated text
  uint64_t unit; ///< 0: fixed, 1: per token, 2: per row, 3: per worker
  uint64_t bytes_per_unit;
  /// where it starts within its unit's region, scaled as the region is
  uint64_t offset_per_unit;
  /// first and last op of the step (or of the layer) between which it is alive
  uint64_t first_op, last_op;
};

struct ingot_rt_arena_plan {
  uint64_t buffer_count;
  struct ingot_rt_arena_buffer buffers[];
};

/// Reference logits that the evaluator computed while the weights were packed.
struct ingot_rt_selftest {
  uint32_t token_count, row_count, ids_per_row; ///< at most 8, 8, 256
  /// offset of a text why there are none (row_count 0), else 0
  uint32_t reason;
  float tolerance; ///< allowed |difference|, times max(1, largest |logit|)
  float largest;   ///< largest |logit| of the reference
  /// followed by: int32 tokens[token_count], int32 rows[row_count], int32
  /// ids[row_count][ids_per_row], float values[row_count][ids_per_row], text
};

#ifdef __cplusplus
}
#endif
#endif // INGOT_RT_IMAGE_H
