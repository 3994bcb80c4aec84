//===- ingot-reduce.cpp - Makes IR small that a test script finds interesting ------------------------------------===//
//
// Removes ops from a module as long as a script, called with the reduced file, still says that the file is interesting
// (exit status 1), for example because a pass still crashes on it:
//   ingot-reduce model.mlir --reduction-tree='traversal-mode=0 test=crashes.sh' -o small.mlir
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "dialects/ingot/Ingot.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllPasses();
  registry.insert<ingot::IngotDialect>();
  mlir::MLIRContext context(registry);
  return mlir::failed(mlir::mlirReduceMain(argc, argv, context));
}
