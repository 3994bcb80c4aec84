// The verbs of an executable.
#ifndef INGOT_RUNTIME_CLI_VERBS_H
#define INGOT_RUNTIME_CLI_VERBS_H

#include "cli/program.h"

namespace ingot::rt {

extern const VerbSpec generateVerb, chatVerb, logitsVerb, lossVerb, perplexityVerb, benchVerb, infoVerb, selftestVerb,
    tokenizeVerb, detokenizeVerb, chatTemplateVerb;

/// Runs a command line; the exit code. `note` is the executable's payload note.
int runProgram(int argc, const char *const *argv, const ingot_rt_model &model, const ingot_rt_payload_note &note);

} // namespace ingot::rt
#endif // INGOT_RUNTIME_CLI_VERBS_H
