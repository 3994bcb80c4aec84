// generation_config.json: what the sampler takes, what has no influence on it,
// and what it does not do.
#include "compiler/Import/GenerationDefaults.h"
#include "compiler/Import/ConfigReader.h"

using namespace llvm;

namespace ingot {

// Reviewed against transformers 5.24's GenerationConfig. A key whose effect is
// not built is inert only at the value that switches the effect off.
static constexpr StringLiteral notBuilt = "not supported by the sampler";
static constexpr StringLiteral beams = "acts in beam search only";
static constexpr StringLiteral drafts = "acts in assisted generation only";
static constexpr InertKey samplingInertKeys[] = {
    {"transformers_version", "", "says what wrote the file"},
    {"_from_model_config", "", "says what wrote the file"},
    {"_commit_hash", "", "says where the file came from"},
    {"trust_remote_code", "", "names no code that is run"},
    {"use_cache", "", "the cache changes speed, not results"},
    {"cache_implementation", "", "the cache changes speed, not results"},
    {"cache_config", "", "the cache changes speed, not results"},
    {"max_cache_len", "", "the cache changes speed, not results"},
    {"return_legacy_cache", "", "the cache changes speed, not results"},
    {"prefill_chunk_size", "", "chunks change speed, not results"},
    {"compile_config", "", "decides how the reference is run"},
    {"disable_compile", "", "decides how the reference is run"},
    {"continuous_batching_config", "", "decides how the reference is run"},
    {"low_memory", "", "decides how the reference is run"},
    {"output_attentions", "", "asks for more outputs"},
    {"output_hidden_states", "", "asks for more outputs"},
    {"output_scores", "", "asks for more outputs"},
    {"output_logits", "", "asks for more outputs"},
    {"return_dict_in_generate", "", "decides how outputs are wrapped"},
    {"early_stopping", "", beams},
    {"length_penalty", "", beams},
    {"diversity_penalty", "", beams},
    {"num_assistant_tokens", "", drafts},
    {"num_assistant_tokens_schedule", "", drafts},
    {"assistant_confidence_threshold", "", drafts},
    {"assistant_lookbehind", "", drafts},
    {"target_lookbehind", "", drafts},
    {"max_matching_ngram_size", "", drafts},
    {"is_assistant", "", drafts},
    {"decoder_start_token_id", "", "for encoder-decoder models"},
    {"num_beams", "1|null", notBuilt},
    {"num_beam_groups", "1|null", notBuilt},
    {"num_return_sequences", "1|null", notBuilt},
    {"min_length", "0|null", notBuilt},
    {"min_new_tokens", "0|null", notBuilt},
    {"max_time", "null", notBuilt},
    {"stop_strings", "null|[]", notBuilt},
    {"use_mtp", "false|null", notBuilt},
    {"top_h", "null", notBuilt},
    {"typical_p", "1.0|1|null", notBuilt},
    {"epsilon_cutoff", "0.0|0|null", notBuilt},
    {"eta_cutoff", "0.0|0|null", notBuilt},
    {"encoder_repetition_penalty", "1.0|1|null", notBuilt},
    {"no_repeat_ngram_size", "0|null", notBuilt},
    {"encoder_no_repeat_ngram_size", "0|null", notBuilt},
    {"bad_words_ids", "null|[]", notBuilt},
    {"force_words_ids", "null|[]", notBuilt},
    {"constraints", "null|[]", notBuilt},
    {"renormalize_logits", "false|null", notBuilt},
    {"forced_bos_token_id", "null", notBuilt},
    {"forced_eos_token_id", "null", notBuilt},
    {"remove_invalid_values", "false|null", notBuilt},
    {"exponential_decay_length_penalty", "null", notBuilt},
    {"suppress_tokens", "null|[]", notBuilt},
    {"begin_suppress_tokens", "null|[]", notBuilt},
    {"sequence_bias", "null", notBuilt},
    {"token_healing", "false|null", notBuilt},
    {"guidance_scale", "null|1|1.0", notBuilt},
    {"watermarking_config", "null", notBuilt},
    {"penalty_alpha", "null|0|0.0", notBuilt},
    {"dola_layers", "null", notBuilt},
    {"prompt_lookup_num_tokens", "null", notBuilt},
    {"assistant_early_exit", "null", notBuilt},
    {"assistant_ensemble_weight", "null", notBuilt},
    {"speculation_type", "null", notBuilt},
};

static void readSampling(ConfigReader &reader, GenerationDefaults &result) {
  constexpr double most = 1e6;
  int bit = 0;
  auto given = [&](StringRef key) {
    bool there = reader.find(key) != nullptr;
    result.present |= uint64_t(there) << bit++;
    return there;
  };
  // The order is that of the bits of `present`.
  given("do_sample");
  result.doSample = reader.boolean("do_sample", false);
  given("temperature");
  result.temperature = static_cast<float>(reader.optionalNumber("temperature", 0, most).value_or(1));
  given("top_k");
  result.topK = static_cast<uint32_t>(reader.optionalInteger("top_k", 0, 0x7fffffff).value_or(50));
  given("top_p");
  result.topP = static_cast<float>(reader.optionalNumber("top_p", 0, 1).value_or(1));
  given("min_p");
  result.minP = static_cast<float>(reader.optionalNumber("min_p", 0, 1).value_or(0));
  if (given("repetition_penalty")) {
    result.repetitionPenalty = static_cast<float>(reader.optionalNumber("repetition_penalty", 0, most).value_or(1));
    if (reader.ok() && !(result.repetitionPenalty > 0))
      reader.failKey("repetition_penalty",
                     "expected a positive number, got " + jsonText(double(result.repetitionPenalty)));
  } else {
    reader.consume("repetition_penalty");
  }
}

Expected<GenerationDefaults> readGenerationConfig(const Json &object, StringRef file, const SpecialTokens &model,
                                                  int64_t vocab, ArrayRef<std::string> ignoredKeys, Ledger &ledger,
                                                  std::vector<std::string> &warnings) {
  GenerationDefaults result;
  result.bos = model.bos.value_or(-1);
  result.pad = model.pad.value_or(-1);
  result.eos.assign(model.eos.begin(), model.eos.end());
  if (object.is_null())
    return result;
  ConfigReader reader(object, file, ledger, ignoredKeys);
  constexpr int64_t most = 0x7fffffff;
  readSampling(reader, result);
  result.maxNewTokens = reader.optionalInteger("max_new_tokens", 1, most).value_or(-1);
  result.maxLength = reader.optionalInteger("max_length", 1, most).value_or(-1);
  for (auto [key, field] : {std::pair("bos_token_id", &result.bos), std::pair("pad_token_id", &result.pad)})
    if (reader.find(key)) {
      int64_t id = reader.optionalInteger(key, -1, most).value_or(-1);
      *field = reader.occurs(key, id, vocab, warnings) ? id : -1;
    } else {
      reader.consume(key, "absent");
    }
  std::optional<std::vector<int64_t>> ends = reader.ids("eos_token_id", most);
  if (ends && !ends->empty()) {
    result.eos.clear();
    for (int64_t id : *ends)
      if (reader.occurs("eos_token_id", id, vocab, warnings))
        result.eos.push_back(static_cast<int32_t>(id));
  }
  reader.checkRest({samplingInertKeys}, "a generation configuration");
  if (Error error = reader.finish())
    return error;
  return result;
}

} // namespace ingot
