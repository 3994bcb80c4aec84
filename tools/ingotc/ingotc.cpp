//===- ingotc.cpp - The compiler's command
//--------------------------------------------------------------------------===//
//
// Exit codes: 0, 1 (the model cannot be compiled), 2 (usage).
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "tools/ingotc/CommandLine.h"
#include "tools/ingotc/Compile.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

int main(int argc, char **argv) {
  SmallVector<StringRef> arguments(argv + 1, argv + argc);
  Expected<ingot::CommandLine> line = ingot::parseCommandLine(arguments);
  if (!line) {
    errs() << "error: " << toString(line.takeError()) << "\nusage: ingotc MODEL -o FILE [options]; see ingotc --help\n";
    return 2;
  }
  switch (line->action) {
  case ingot::CommandLine::Action::Help:
    outs() << ingot::getHelpText();
    return 0;
  case ingot::CommandLine::Action::Version:
    outs() << "ingotc " INGOT_VERSION "\n";
    return 0;
  case ingot::CommandLine::Action::List:
    outs() << ingot::getListText();
    return 0;
  case ingot::CommandLine::Action::Compile:
    break;
  }
  std::string program = sys::fs::getMainExecutable(argv[0], reinterpret_cast<void *>(&ingot::compile));
  if (Error error = ingot::compile(*line, program)) {
    errs() << "error: " << toString(std::move(error)) << "\n";
    return 1;
  }
  return 0;
}
