// The verbs that look at rows of logits: logits, loss and perplexity.
#include "cli/verbs.h"

#include "generation/log_probability.h"
#include "scheduler/scheduler.h"
#include "support/checked.h"
#include "support/hash.h"
#include "support/npy.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
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
    {"stride", "N",
     "tokens scored in each window of a text that is longer than the context (default: half the context)"},
    {"json", nullptr, "one object: perplexity, loss, count, ctx, stride, windows"},
    INGOT_SESSION_OPTIONS,
};

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
    engine.hookReadsData = true;
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

/// Sequences whose tokens are scored. A label of -100 is not; a token is scored from the row before it, so the first of
/// each sequence never is.
struct Scored {
  static constexpr int32_t ignored = -100;
  std::vector<int32_t> tokens, labels; ///< equally many

  /// The first row that a label is scored from; the last row if there is none.
  uint64_t firstRow() const {
    uint64_t label = 1;
    while (label + 1 < labels.size() && labels[label] == ignored)
      ++label;
    return label - 1;
  }
};

/// Adds up -log p(label of the next position) over rows, in float64 from the float32 logits.
class LossSum : public Listener {
public:
  explicit LossSum(uint64_t vocab) : vocab(vocab) {}

  /// Scores these from now on; the scheduler's next request is the first of them.
  void expect(std::span<const Scored> sequences, uint64_t nextRequest) {
    current = sequences;
    firstRequest = nextRequest;
    sums.resize(sums.size() + sequences.size());
    counts.resize(sums.size());
  }

  void onRow(uint64_t request, uint64_t position, const float *logits) override {
    uint64_t sequence = request - firstRequest;
    const std::vector<int32_t> &labels = current[sequence].labels;
    if (position + 1 >= labels.size() || labels[position + 1] == Scored::ignored)
      return;
    size_t total = sums.size() - current.size() + sequence;
    sums[total] += logSumExp(logits, vocab) - static_cast<double>(logits[labels[position + 1]]);
    ++counts[total];
  }

  double sum() const { return std::accumulate(sums.begin(), sums.end(), 0.0); }
  uint64_t count() const { return std::accumulate(counts.begin(), counts.end(), uint64_t(0)); }

  std::vector<double> sums;     ///< per sequence
  std::vector<uint64_t> counts; ///< kept labels per sequence

private:
  const uint64_t vocab;
  std::span<const Scored> current;
  uint64_t firstRequest = 1;
};

/// Scores sequences together, as far as the model's batch goes.
Error addLoss(Scheduler &scheduler, std::span<const Scored> sequences, uint64_t &requests, LossSum &loss) {
  loss.expect(sequences, requests + 1);
  for (const Scored &sequence : sequences) {
    Request request;
    request.prompt = sequence.tokens;
    request.rows = Request::Rows::Every;
    request.rowsFrom = sequence.firstRow();
    Result<uint64_t> number = scheduler.submit(std::move(request), loss);
    if (!number) {
      Error error = number.takeError();
      return sequences.size() == 1 ? std::move(error)
                                   : makeError("sequence %zu: %s", static_cast<size_t>(&sequence - sequences.data()),
                                               error.message().c_str());
    }
    requests = *number;
  }
  return scheduler.runAll();
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
      if (list[at] != Scored::ignored && (list[at] < 0 || static_cast<uint64_t>(list[at]) >= program.model.vocab))
        return makeError("loss: label %zu of sequence %zu: expected -100 or 0 to %" PRIu64 ", got %d", at, i,
                         program.model.vocab - 1, list[at]);
      kept += at != 0 && list[at] != Scored::ignored;
    }
  }
  if (kept == 0)
    return makeError("loss: no label is left: the first of each sequence has nothing before it, -100 is left out");
  std::vector<Scored> scored;
  for (size_t i = 0; i < sequences->size(); ++i)
    scored.push_back({(*sequences)[i], (*labels)[i]});
  SessionNeeds needs;
  needs.sequences = sequences->size();
  needs.rows = std::min(rowsAtOnce(program.model), totalTokens(*sequences));
  Result<std::unique_ptr<Session>> session = openSession(program, arguments, needs);
  if (!session)
    return session.takeError();
  Scheduler scheduler(*(*session)->engine, {.chunk = *chunk, .reusePrefixes = false});
  LossSum loss(program.model.vocab);
  uint64_t requests = 0;
  if (Error error = addLoss(scheduler, scored, requests, loss))
    return error;
  double mean = loss.sum() / static_cast<double>(kept);
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
    json.number(loss.sums[i] / static_cast<double>(loss.counts[i]), 9); // null where no label is left
    json.key("count");
    json.number(loss.counts[i]);
    json.endObject();
  }
  json.endArray();
  json.endObject();
  program.out.write("\n");
  return {};
}

/// The text of `perplexity` as ids, as the tokenizer gives them to the model.
Result<std::vector<int32_t>> textTokens(const Program &program, const Arguments &arguments) {
  if (arguments.has("tokens") == arguments.has("file"))
    return makeUsageError("perplexity: one of -f FILE and --tokens is needed");
  std::vector<int32_t> ids;
  if (arguments.has("tokens")) {
    Result<std::vector<std::vector<int32_t>>> lists = readTokenLists(arguments, "tokens");
    if (!lists)
      return lists.takeError();
    if (lists->size() != 1)
      return makeUsageError("perplexity: --tokens: expected one sequence, got %zu", lists->size());
    ids = std::move(lists->front());
  } else {
    Result<Tokenizer> tokenizer = program.needTokenizer();
    if (!tokenizer)
      return tokenizer.takeError();
    Result<std::string> text = readText(arguments.text("file"));
    if (!text)
      return text.takeError();
    tokenizer->encode(*text, EncodeOptions(), ids);
  }
  if (ids.size() < 2)
    return makeError("perplexity: the text has %zu tokens; at least 2 are needed", ids.size());
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || static_cast<uint64_t>(ids[i]) >= program.model.vocab)
      return makeError("perplexity: token %zu: id %d is out of range: expected 0 to %" PRIu64, i, ids[i],
                       program.model.vocab - 1);
  return ids;
}

/// Scores every token of a text but the first, once. A text longer than the context is taken in windows of `context`
/// tokens that start `stride` apart, each computed anew; a window scores what the one before it did not, so that a
/// token has at least context - stride tokens before it (transformers' documentation, "Perplexity of fixed-length
/// models").
Error scoreWindows(Scheduler &scheduler, const std::vector<int32_t> &ids, uint64_t context, uint64_t stride,
                   uint64_t together, LossSum &loss) {
  uint64_t requests = 0, scoredTo = 1;
  std::vector<Scored> windows;
  for (uint64_t begin = 0; scoredTo < ids.size(); begin += stride) {
    uint64_t end = std::min<uint64_t>(ids.size(), begin + context);
    Scored window;
    window.tokens.assign(ids.begin() + static_cast<ptrdiff_t>(begin), ids.begin() + static_cast<ptrdiff_t>(end));
    window.labels = window.tokens;
    std::fill_n(window.labels.begin(), scoredTo - begin, Scored::ignored);
    windows.push_back(std::move(window));
    scoredTo = end;
    if (windows.size() < together && scoredTo < ids.size())
      continue;
    if (Error error = addLoss(scheduler, windows, requests, loss))
      return error;
    windows.clear();
  }
  return {};
}

Error runPerplexity(Program &program, const Arguments &arguments) {
  Result<std::vector<int32_t>> ids = textTokens(program, arguments);
  if (!ids)
    return ids.takeError();
  SessionNeeds needs;
  needs.rows = std::min<uint64_t>(rowsAtOnce(program.model), ids->size());
  Result<uint64_t> asked = arguments.number("ctx", program.model.max_context, 2, program.model.max_context);
  Result<uint64_t> stride = arguments.number("stride", 0, 1, UINT64_MAX);
  if (!asked)
    return asked.takeError();
  if (!stride)
    return stride.takeError();
  bool windowed = ids->size() > *asked;
  if (windowed) // short windows are computed together
    needs.sequences = std::max<uint64_t>(1, program.model.max_step_tokens / *asked);
  Result<std::unique_ptr<Session>> session = openSession(program, arguments, needs);
  if (!session)
    return session.takeError();
  const SessionLimits &limits = (*session)->limits; // the context may have been reduced
  uint64_t context = limits.context;
  if (arguments.has("stride") && *stride >= context)
    return makeUsageError("perplexity: --stride: expected less than the context of %" PRIu64 ", got %" PRIu64, context,
                          *stride);
  if (!arguments.has("stride"))
    stride = std::max<uint64_t>(1, context / 2);
  Scheduler scheduler(*(*session)->engine, {.reusePrefixes = false});
  LossSum loss(program.model.vocab);
  if (Error error = scoreWindows(scheduler, *ids, context, *stride, limits.sequences, loss))
    return error;
  double mean = loss.sum() / static_cast<double>(loss.count());
  if (arguments.has("json")) {
    JsonWriter json(program.out);
    json.beginObject();
    json.key("perplexity");
    json.number(std::exp(mean), 9);
    json.key("loss");
    json.number(mean, 9);
    json.key("count");
    json.number(loss.count());
    json.key("ctx");
    json.number(context);
    json.key("stride");
    json.number(*stride);
    json.key("windows");
    json.number(static_cast<uint64_t>(loss.sums.size()));
    json.endObject();
    program.out.write("\n");
    return {};
  }
  program.out.print("%.6g\n", std::exp(mean));
  program.out.flush();
  if (loss.sums.size() == 1)
    note("over %" PRIu64 " tokens in one go", loss.count());
  else
    note("over %" PRIu64 " tokens in %zu windows of %" PRIu64 ", %" PRIu64 " apart", loss.count(), loss.sums.size(),
         context, *stride);
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

const VerbSpec perplexityVerb = {"perplexity",
                                 "exp of the mean of -log p(next token) over a text.",
                                 "-f FILE | --tokens IDS [options]",
                                 "-f book.txt --ctx 1024 --stride 512",
                                 perplexityOptions,
                                 nullptr,
                                 runPerplexity};

} // namespace ingot::rt
