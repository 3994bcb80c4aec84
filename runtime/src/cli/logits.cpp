// The verbs that look at rows of logits: logits, loss and perplexity.
#include "cli/verbs.h"

#include "scheduler/scheduler.h"
#include "support/checked.h"
#include "support/hash.h"
#include "support/npy.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cmath>
#include <cstring>
#include <sys/stat.h>

namespace ingot::rt {

namespace {

constexpr OptionSpec logitsOptions[] = {
    {"tokens", "IDS[;IDS...]|@FILE|-", "ids of one sequence, or of several that are computed together"},
    {"chunk", "N", "compute at most N tokens of a sequence in a step"},
    {"last", nullptr, "only the last row of each sequence"},
    {"hash", nullptr, "print a hash of each row's bits: sequence, position, XXH3-128"},
    {"trace", "DIR", "write the result of every op as DIR/NAME.npy (compile with --no-fuse to see all)"},
    {"json", nullptr, "one object: tokens and logits, a row per token; several sequences: {\"sequences\": [one, ...]}"},
    {"output o", "FILE.npy", "write float32 [rows, vocabulary]; several sequences one after the other"},
    INGOT_SESSION_OPTIONS,
};

constexpr OptionSpec lossOptions[] = {
    {"tokens", "IDS[;IDS...]|@FILE|-", "ids of one sequence or several"},
    {"labels", "IDS[;IDS...]|@FILE|-", "as many as tokens (default: the tokens); shifted inside, -100 is left out"},
    {"chunk", "N", "compute at most N tokens of a sequence in a step"},
    {"json", nullptr, "one object: loss, count, sequences"},
    INGOT_SESSION_OPTIONS,
};

constexpr OptionSpec perplexityOptions[] = {
    {"file f", "FILE|-", "the text"},
    {"tokens", "IDS|@FILE|-", "the text as ids"},
    {"window", "N", "tokens scored in one go (default: 2048, at most the context)"},
    {"json", nullptr, "one object: perplexity, loss, count"},
    INGOT_SESSION_OPTIONS,
};

/// Rows of logits that a step may leave: as many as fit in 64 MiB, so that a large vocabulary costs steps, not memory.
uint64_t rowsAtOnce(const ingot_rt_model &model) {
  return std::max<uint64_t>(1, (uint64_t(64) << 20) / (4 * roundUp(model.vocab, INGOT_RT_PANEL)));
}

/// Hands rows on in the order of sequences and positions, though steps compute several sequences at a time: rows of
/// later sequences wait in memory, or only their hashes where that is all that is wanted.
class OrderedRows : public Listener {
public:
  struct Row {
    uint64_t position;
    Hash hash;           ///< of the row's bits, when hashes are wanted
    const float *logits; ///< [vocab]; null when hashes are wanted
  };

  OrderedRows(uint64_t vocab, uint64_t sequences, bool hashes)
      : vocab(vocab), hashes(hashes), waiting(sequences), done(sequences, false) {}
  virtual void begin(uint64_t sequence) = 0;
  virtual void row(uint64_t sequence, const Row &row) = 0;
  virtual void end(uint64_t sequence) = 0;

  void onRow(uint64_t request, uint64_t position, const float *logits) override {
    for (uint64_t i = 0; i < vocab; ++i)
      infinite |= !std::isfinite(logits[i]);
    Row one{position, {}, logits};
    if (hashes)
      one = {position, hashBytes(logits, vocab * sizeof(float)), nullptr};
    if (request - 1 == current) {
      start();
      row(current, one);
    } else
      waiting[request - 1].push_back({one, hashes ? std::vector<float>() : std::vector<float>(logits, logits + vocab)});
  }

  void onFinish(const Completion &completion) override {
    done[completion.request - 1] = true;
    for (; current < done.size(); ++current, started = false) {
      start();
      for (Waiting &one : waiting[current]) {
        one.row.logits = hashes ? nullptr : one.logits.data();
        row(current, one.row);
      }
      waiting[current] = {};
      if (!done[current])
        return;
      end(current);
    }
  }

protected:
  const uint64_t vocab;
  const bool hashes;
  bool infinite = false; ///< some logit was not finite

private:
  struct Waiting {
    Row row;
    std::vector<float> logits;
  };
  void start() {
    if (!started)
      begin(current);
    started = true;
  }

  std::vector<std::vector<Waiting>> waiting;
  std::vector<bool> done;
  uint64_t current = 0;
  bool started = false;
};

/// Computes rows of all sequences in one batch, as far as the model's batch goes.
Error computeRows(Session &session, const std::vector<std::vector<int32_t>> &sequences, Request::Rows rows,
                  uint64_t chunk, Listener &listener) {
  Scheduler scheduler(*session.engine, {.chunk = chunk, .reusePrefixes = false});
  for (size_t i = 0; i < sequences.size(); ++i) {
    Request request;
    request.prompt = sequences[i];
    request.rows = rows;
    if (Result<uint64_t> number = scheduler.submit(std::move(request), listener); !number) {
      Error error = number.takeError();
      if (sequences.size() == 1)
        return error;
      return makeError("sequence %zu: %s", i, error.message().c_str());
    }
  }
  return scheduler.runAll();
}

Result<std::vector<std::vector<int32_t>>> needTokens(const Arguments &arguments, const char *verb) {
  if (!arguments.has("tokens"))
    return makeUsageError("%s: --tokens is needed: --tokens 1,2,3", verb);
  return readTokenLists(arguments, "tokens");
}

/// Where `logits` puts its rows.
class LogitsPrinter : public OrderedRows {
public:
  enum class Form { Summary, Hash, Json, Npy };

  LogitsPrinter(Program &program, const std::vector<std::vector<int32_t>> &sequences, Form form, bool hashes, bool last)
      : OrderedRows(program.model.vocab, sequences.size(), hashes), program(program), sequences(sequences), form(form),
        last(last), json(program.out) {
    if (form == Form::Json && sequences.size() > 1) {
      json.beginObject();
      json.key("sequences");
      json.beginArray();
    }
  }

  void begin(uint64_t sequence) override {
    if (form != Form::Json)
      return;
    json.beginObject();
    json.key("tokens");
    json.tokens(sequences[sequence].data(), sequences[sequence].size());
    if (last) {
      json.key("positions");
      json.beginArray();
      json.number(static_cast<uint64_t>(sequences[sequence].size() - 1));
      json.endArray();
    }
    json.key(hashes ? "hashes" : "logits");
    json.beginArray();
  }

  void row(uint64_t sequence, const Row &one) override {
    switch (form) {
    case Form::Hash:
      program.out.print("%" PRIu64 " %" PRIu64 " %s\n", sequence, one.position, hashText(one.hash).c_str());
      break;
    case Form::Json:
      if (hashes) {
        json.text(hashText(one.hash));
        break;
      }
      json.beginArray();
      for (uint64_t i = 0; i < vocab; ++i)
        json.number(one.logits[i]);
      json.endArray();
      break;
    case Form::Npy:
      if (Error error = npy.writeRow(one.logits); error && !failure)
        failure = std::move(error);
      break;
    case Form::Summary:
      summary(sequence, one.position, one.logits);
      break;
    }
  }

  void end(uint64_t) override {
    if (form != Form::Json)
      return;
    json.endArray();
    json.endObject();
  }

  Error finish() {
    if (form == Form::Json) {
      if (sequences.size() > 1) {
        json.endArray();
        json.endObject();
      }
      program.out.write("\n");
    }
    if (infinite && !failure)
      failure = makeError("a logit is not a finite number");
    if (form == Form::Npy && !failure)
      failure = npy.close();
    return std::move(failure);
  }

  NpyWriter npy;

private:
  /// The five largest of a row, for people.
  void summary(uint64_t sequence, uint64_t position, const float *logits) {
    std::vector<int32_t> ids(vocab);
    for (uint64_t i = 0; i < vocab; ++i)
      ids[i] = static_cast<int32_t>(i);
    size_t count = std::min<uint64_t>(5, vocab);
    std::partial_sort(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(count), ids.end(),
                      [&](int32_t a, int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
    program.out.print("%" PRIu64 " %" PRIu64 " token %d:", sequence, position, sequences[sequence][position]);
    for (size_t i = 0; i < count; ++i)
      program.out.print(" %d %.6g", ids[i], static_cast<double>(logits[ids[i]]));
    program.out.write("\n");
  }

  Program &program;
  const std::vector<std::vector<int32_t>> &sequences;
  const Form form;
  const bool last;
  JsonWriter json;
  Error failure;
};

/// Writes every op's result that the compiled step shows to its hook.
class Tracer {
public:
  Tracer(const ingot_rt_model &model, Engine &engine, std::string folder)
      : model(model), engine(engine), folder(std::move(folder)) {
    engine.args.hook = [](void *context, uint32_t worker, uint32_t op, int32_t layer, const float *data, uint64_t rows,
                          uint64_t columns, uint64_t stride) {
      static_cast<Tracer *>(context)->see(worker, op, layer, data, rows, columns, stride);
    };
    engine.args.hook_context = this;
  }
  ~Tracer() { engine.args.hook = nullptr; }

  Error failure;
  uint64_t files = 0;

private:
  void see(uint32_t worker, uint32_t op, int32_t layer, const float *data, uint64_t rows, uint64_t columns,
           uint64_t stride) {
    if (worker == 0 && data && op < model.op_count && !failure) {
      failure = writeNpy(folder + "/" + fileName(op, layer), data, rows, columns, stride);
      ++files;
    }
    // Nobody goes on, and overwrites what an op in place would, before the file is written.
    ingot_rt_barrier(engine.args.barrier, worker);
  }

  /// "layer.3.qkv.npy" for op "layer.qkv" of layer 3; an op whose name was used before in the table gets its number.
  std::string fileName(uint32_t op, int32_t layer) const {
    std::string name = model.ops[op].name;
    for (uint32_t i = 0; i < op; ++i)
      if (name == model.ops[i].name) {
        name += formatText(".op%u", op);
        break;
      }
    if (layer >= 0) {
      size_t dot = name.find('.');
      name = name.substr(0, dot) + formatText(".%d", layer) + (dot == std::string::npos ? "" : name.substr(dot));
    }
    std::replace(name.begin(), name.end(), '/', '_');
    return name + ".npy";
  }

  const ingot_rt_model &model;
  Engine &engine;
  std::string folder;
};

uint64_t totalTokens(const std::vector<std::vector<int32_t>> &sequences) {
  uint64_t total = 0;
  for (const std::vector<int32_t> &sequence : sequences)
    total += sequence.size();
  return total;
}

Error runLogits(Program &program, const Arguments &arguments) {
  Result<std::vector<std::vector<int32_t>>> sequences = needTokens(arguments, "logits");
  if (!sequences)
    return sequences.takeError();
  Result<uint64_t> chunk = arguments.number("chunk", 0, 1, UINT64_MAX);
  if (!chunk)
    return chunk.takeError();
  bool last = arguments.has("last"), hashes = arguments.has("hash"), traces = arguments.has("trace");
  if (arguments.has("output") && (arguments.has("json") || hashes))
    return makeUsageError("logits: give one of -o, --json and --hash");
  SessionNeeds needs;
  needs.sequences = sequences->size();
  needs.rows = last ? 0 : std::min(rowsAtOnce(program.model), totalTokens(*sequences));
  if (traces) {
    // One step sees all tokens, so that every file is whole.
    if (totalTokens(*sequences) > program.model.max_step_tokens || sequences->size() > program.model.max_batch ||
        *chunk)
      return makeUsageError("logits: --trace needs all tokens in one step: at most %" PRIu64 " in %" PRIu64
                            " sequences and no --chunk, got %" PRIu64 " in %zu",
                            program.model.max_step_tokens, program.model.max_batch, totalTokens(*sequences),
                            sequences->size());
    needs.rows = last ? 0 : totalTokens(*sequences);
  }
  Result<std::unique_ptr<Session>> session = openSession(program, arguments, needs);
  if (!session)
    return session.takeError();
  using Form = LogitsPrinter::Form;
  Form form = arguments.has("output") ? Form::Npy
              : arguments.has("json") ? Form::Json
              : hashes                ? Form::Hash
                                      : Form::Summary;
  LogitsPrinter printer(program, *sequences, form, hashes, last);
  if (form == Form::Npy)
    if (Error error = printer.npy.open(arguments.text("output"), last ? sequences->size() : totalTokens(*sequences),
                                       program.model.vocab))
      return error;
  std::unique_ptr<Tracer> tracer;
  if (traces) {
    std::string folder = arguments.text("trace");
    if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
      return makeError("%s: %s", folder.c_str(), strerror(errno));
    tracer = std::make_unique<Tracer>(program.model, *(*session)->engine, folder);
  }
  if (Error error =
          computeRows(**session, *sequences, last ? Request::Rows::Last : Request::Rows::Every, *chunk, printer))
    return error;
  if (tracer) {
    if (tracer->failure)
      return std::move(tracer->failure);
    note("%" PRIu64 " files in %s", tracer->files, arguments.text("trace").c_str());
  }
  return printer.finish();
}

/// Adds up -log p(label of the next position) over rows.
class LossSum : public Listener {
public:
  LossSum(uint64_t vocab, const std::vector<std::vector<int32_t>> &labels)
      : vocab(vocab), labels(labels), sums(labels.size()), counts(labels.size()) {}

  void onRow(uint64_t request, uint64_t position, const float *logits) override {
    uint64_t sequence = request - 1;
    if (position + 1 >= labels[sequence].size() || labels[sequence][position + 1] == ignored)
      return;
    double largest = logits[0], sum = 0;
    for (uint64_t i = 1; i < vocab; ++i)
      largest = std::max(largest, static_cast<double>(logits[i]));
    for (uint64_t i = 0; i < vocab; ++i)
      sum += std::exp(static_cast<double>(logits[i]) - largest);
    double logit = logits[labels[sequence][position + 1]];
    sums[sequence] += std::log(sum) + largest - logit;
    ++counts[sequence];
  }

  static constexpr int32_t ignored = -100;

  const uint64_t vocab;
  const std::vector<std::vector<int32_t>> &labels;
  std::vector<double> sums;     ///< per sequence
  std::vector<uint64_t> counts; ///< kept labels per sequence
};

Result<LossSum> sumLoss(Program &program, const Arguments &arguments,
                        const std::vector<std::vector<int32_t>> &sequences,
                        const std::vector<std::vector<int32_t>> &labels, uint64_t chunk) {
  SessionNeeds needs;
  needs.sequences = sequences.size();
  needs.rows = std::min(rowsAtOnce(program.model), totalTokens(sequences));
  Result<std::unique_ptr<Session>> session = openSession(program, arguments, needs);
  if (!session)
    return session.takeError();
  LossSum loss(program.model.vocab, labels);
  if (Error error = computeRows(**session, sequences, Request::Rows::Every, chunk, loss))
    return error;
  return loss;
}

Error runLoss(Program &program, const Arguments &arguments) {
  Result<std::vector<std::vector<int32_t>>> sequences = needTokens(arguments, "loss");
  if (!sequences)
    return sequences.takeError();
  Result<std::vector<std::vector<int32_t>>> labels =
      arguments.has("labels") ? readTokenLists(arguments, "labels") : *sequences;
  if (!labels)
    return labels.takeError();
  Result<uint64_t> chunk = arguments.number("chunk", 0, 1, UINT64_MAX);
  if (!chunk)
    return chunk.takeError();
  if (labels->size() != sequences->size())
    return makeUsageError("loss: %zu sequences of tokens, %zu of labels", sequences->size(), labels->size());
  uint64_t kept = 0;
  for (size_t i = 0; i < labels->size(); ++i) {
    const std::vector<int32_t> &list = (*labels)[i];
    if (list.size() != (*sequences)[i].size())
      return makeUsageError("loss: sequence %zu has %zu tokens and %zu labels", i, (*sequences)[i].size(), list.size());
    for (size_t at = 0; at < list.size(); ++at) {
      if (list[at] != LossSum::ignored && (list[at] < 0 || static_cast<uint64_t>(list[at]) >= program.model.vocab))
        return makeError("loss: label %zu of sequence %zu: expected -100 or 0 to %" PRIu64 ", got %d", at, i,
                         program.model.vocab - 1, list[at]);
      kept += at != 0 && list[at] != LossSum::ignored;
    }
  }
  if (kept == 0)
    return makeError("loss: no label is left: the first of each sequence has nothing before it, -100 is left out");
  Result<LossSum> loss = sumLoss(program, arguments, *sequences, *labels, *chunk);
  if (!loss)
    return loss.takeError();
  double sum = 0;
  for (double one : loss->sums)
    sum += one;
  double mean = sum / static_cast<double>(kept);
  if (!arguments.has("json")) {
    program.out.print("%.9g\n", mean);
    note("mean over %" PRIu64 " labels of %zu sequences", kept, sequences->size());
    return {};
  }
  JsonWriter json(program.out);
  json.beginObject();
  json.key("loss");
  json.number(mean, 9);
  json.key("count");
  json.number(kept);
  json.key("sequences");
  json.beginArray();
  for (size_t i = 0; i < sequences->size(); ++i) {
    json.beginObject();
    json.key("loss");
    json.number(loss->sums[i] / static_cast<double>(loss->counts[i]), 9); // null where no label is left
    json.key("count");
    json.number(loss->counts[i]);
    json.endObject();
  }
  json.endArray();
  json.endObject();
  program.out.write("\n");
  return {};
}

Error runPerplexity(Program &program, const Arguments &arguments) {
  std::vector<int32_t> ids;
  if (arguments.has("tokens")) {
    Result<std::vector<std::vector<int32_t>>> lists = readTokenLists(arguments, "tokens");
    if (!lists)
      return lists.takeError();
    if (lists->size() != 1)
      return makeUsageError("perplexity: --tokens: expected one sequence, got %zu", lists->size());
    ids = std::move(lists->front());
  } else if (arguments.has("file")) {
    Result<std::string> text = readText(arguments.text("file"));
    if (!text)
      return text.takeError();
    Result<Tokenizer> tokenizer = program.needTokenizer();
    if (!tokenizer)
      return tokenizer.takeError();
    tokenizer->encode(*text, EncodeOptions(), ids);
  } else
    return makeUsageError("perplexity: -f FILE or --tokens is needed");
  uint64_t most = program.model.max_context;
  Result<uint64_t> window = arguments.number("window", std::min<uint64_t>(2048, most), 2, most);
  if (!window)
    return window.takeError();
  if (ids.size() < 2)
    return makeError("perplexity: the text has %zu tokens; at least 2 are needed", ids.size());
  // Windows one after the other, each on its own: the first token of each has nothing before it and is not scored. A
  // last window of one token is left out.
  std::vector<std::vector<int32_t>> windows;
  for (size_t at = 0; at + 1 < ids.size(); at += *window)
    windows.emplace_back(ids.begin() + static_cast<ptrdiff_t>(at),
                         ids.begin() + static_cast<ptrdiff_t>(std::min<size_t>(ids.size(), at + *window)));
  double sum = 0;
  uint64_t count = 0;
  Result<LossSum> loss = sumLoss(program, arguments, windows, windows, 0);
  if (!loss)
    return loss.takeError();
  for (size_t i = 0; i < windows.size(); ++i) {
    sum += loss->sums[i];
    count += loss->counts[i];
  }
  double mean = sum / static_cast<double>(count);
  if (arguments.has("json")) {
    JsonWriter json(program.out);
    json.beginObject();
    json.key("perplexity");
    json.number(std::exp(mean), 9);
    json.key("loss");
    json.number(mean, 9);
    json.key("count");
    json.number(count);
    json.endObject();
    program.out.write("\n");
    return {};
  }
  program.out.print("%.6g\n", std::exp(mean));
  note("over %" PRIu64 " tokens in %zu windows of at most %" PRIu64, count, windows.size(), *window);
  return {};
}

} // namespace

const VerbSpec logitsVerb = {"logits",
                             "Computes rows of logits.",
                             "--tokens IDS[;IDS...] [options]",
                             "--tokens '1,2,3;4,5' --hash",
                             logitsOptions,
                             nullptr,
                             runLogits};

const VerbSpec lossVerb = {"loss",
                           "The mean of -log p(next token) over the kept labels.",
                           "--tokens IDS[;IDS...] [--labels IDS[;IDS...]] [options]",
                           "--tokens 1,2,3,4 --labels -100,-100,3,4",
                           lossOptions,
                           nullptr,
                           runLoss};

const VerbSpec perplexityVerb = {"perplexity",        "exp of the mean of -log p(next token) over a text.",
                                 "-f FILE [options]", "-f book.txt --window 1024",
                                 perplexityOptions,   nullptr,
                                 runPerplexity};

} // namespace ingot::rt
