// The verbs tokenize and detokenize.
#include "cli/verbs.h"

#include <cinttypes>

namespace ingot::rt {

namespace {

constexpr OptionSpec tokenizeOptions[] = {
    {"no-special-tokens", nullptr, "only the text's own ids: nothing that the model's tokenizer adds around them"},
    {"json", nullptr, "one object: tokens"},
    {"help h", nullptr, "this text"},
};

constexpr OptionSpec detokenizeOptions[] = {
    {"tokens", "IDS|@FILE|-", "the ids"},
    {"skip-special-tokens", nullptr, "leave special tokens out"},
    {"help h", nullptr, "this text"},
};

Error runTokenize(Program &program, const Arguments &arguments) {
  Result<Tokenizer> tokenizer = program.needTokenizer();
  if (!tokenizer)
    return tokenizer.takeError();
  Result<std::string> text = readText("-");
  if (!text)
    return text.takeError();
  EncodeOptions options;
  options.addSpecial = !arguments.has("no-special-tokens");
  std::vector<int32_t> ids;
  tokenizer->encode(*text, options, ids);
  if (arguments.has("json")) {
    JsonWriter json(program.out);
    json.beginObject();
    json.key("tokens");
    json.tokens(ids.data(), ids.size());
    json.endObject();
  } else
    for (size_t i = 0; i < ids.size(); ++i)
      program.out.print(i ? ",%d" : "%d", ids[i]);
  program.out.write("\n");
  return {};
}

Error runDetokenize(Program &program, const Arguments &arguments) {
  Result<Tokenizer> tokenizer = program.needTokenizer();
  if (!tokenizer)
    return tokenizer.takeError();
  if (!arguments.has("tokens"))
    return makeUsageError("detokenize: --tokens is needed: --tokens 1,2,3");
  Result<std::vector<std::vector<int32_t>>> lists = readTokenLists(arguments, "tokens");
  if (!lists)
    return lists.takeError();
  if (lists->size() != 1)
    return makeUsageError("detokenize: --tokens: expected one sequence, got %zu", lists->size());
  for (int32_t id : lists->front())
    if (id < 0 || static_cast<uint64_t>(id) >= program.model.vocab)
      return makeError("detokenize: id %d is out of range: expected 0 to %" PRIu64, id, program.model.vocab - 1);
  program.out.write(
      tokenizer->decode(lists->front(), arguments.has("skip-special-tokens"))); // the text and nothing else
  return {};
}

} // namespace

const VerbSpec tokenizeVerb = {
    "tokenize", "The ids of the text on stdin.", "[options] < TEXT", "--json < question.txt", tokenizeOptions, nullptr,
    runTokenize};

const VerbSpec detokenizeVerb = {"detokenize",
                                 "The text of ids.",
                                 "--tokens IDS [options]",
                                 "--tokens 504,3575,282 --skip-special-tokens",
                                 detokenizeOptions,
                                 nullptr,
                                 runDetokenize};

} // namespace ingot::rt
