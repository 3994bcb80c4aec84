// From argc and argv to a verb, an exit code and one line about what went wrong.
#include "cli/verbs.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <unistd.h>

namespace ingot::rt {

namespace {

const VerbSpec *const verbs[] = {&generateVerb,   &chatVerb,       &logitsVerb,      &lossVerb,
                                 &perplexityVerb, &benchVerb,      &infoVerb,        &selftestVerb,
                                 &tokenizeVerb,   &detokenizeVerb, &chatTemplateVerb};

std::string usage(const std::string &name) {
  std::string text = "usage: " + name + " [VERB] [options]\n\n";
  for (const VerbSpec *verb : verbs)
    text += formatText("  %-12s %s\n", verb->name, verb->summary);
  return text + "\nWithout a verb: generate; alone at a terminal: chat. " + name +
         " VERB --help tells a verb's options.\nexample: " + name + " " + generateVerb.example + "\n";
}

/// An output error ends the program: quietly when the reader has gone.
int finishOutput(Output &out, int code) {
  out.flush();
  if (out.failed() == 0 || out.failed() == EPIPE)
    return code;
  fprintf(stderr, "error: cannot write to stdout: %s\n", strerror(out.failed()));
  return 1;
}

int report(const Error &error) {
  fprintf(stderr, "error: %s\n", error.message().c_str());
  return error.exitCode();
}

/// The verb that the first word names; generate when it is an option or absent. Null: no such verb.
const VerbSpec *chooseVerb(const char *word, bool &named) {
  named = word && word[0] != '-';
  if (!named)
    return &generateVerb;
  for (const VerbSpec *verb : verbs)
    if (strcmp(verb->name, word) == 0)
      return verb;
  return nullptr;
}

} // namespace

int runProgram(int argc, const char *const *argv, const ingot_rt_model &model, const ingot_rt_payload_note &note) {
  // A closed pipe is seen as a failed write; Ctrl-C ends at once, with the exit code that shells use.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGINT, [](int) { _exit(130); });
  std::string name = argc > 0 ? argv[0] : "program";
  Output out(1);
  bool help =
      argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0);
  if (help) {
    out.write(usage(name));
    return finishOutput(out, 0);
  }
  // Alone at a terminal: a chat, if there is a template for it.
  bool alone = argc < 2 && isatty(0), named = false;
  const VerbSpec *verb = alone ? &chatVerb : chooseVerb(argc > 1 ? argv[1] : nullptr, named);
  if (!verb) {
    std::vector<std::string> candidates;
    for (const VerbSpec *one : verbs)
      candidates.emplace_back(one->name);
    std::string suggestion = nearest(argv[1], candidates);
    fprintf(stderr, "error: unknown verb '%s'%s\n", argv[1],
            suggestion.empty() ? ("; see " + name + " --help").c_str()
                               : ("; did you mean '" + suggestion + "'?").c_str());
    return 2;
  }
  int first = named ? 2 : argc > 1 ? 1 : argc;
  Result<Arguments> arguments = Arguments::parse(*verb, {argv + first, argv + argc});
  if (!arguments)
    return report(arguments.takeError());
  if (arguments->has("help")) {
    out.write(verbHelp(*verb, name));
    return finishOutput(out, 0);
  }
  bool needsPrompt = verb == &generateVerb && !arguments->has("prompt") && !arguments->has("file") &&
                     !arguments->has("tokens") && !arguments->has("jsonl") && !arguments->dash();
  if (needsPrompt && isatty(0))
    return report(makeUsageError("generate: a prompt is needed: -p TEXT, -f FILE, - or --tokens IDS"));
  Result<OpenFile> file = openOwnFile(name.c_str());
  if (!file)
    return report(file.takeError());
  Result<Payload> payload = Payload::open(std::move(*file), note);
  if (!payload)
    return report(payload.takeError());
  Program program(model, std::move(*payload), name);
  Error error = program.open();
  if (!error && alone && !program.templates) {
    fputs(usage(name).c_str(), stderr);
    return 2;
  }
  if (!error)
    error = verb->run(program, *arguments);
  int code = finishOutput(program.out, 0);
  if (error)
    return report(error);
  return code;
}

} // namespace ingot::rt
