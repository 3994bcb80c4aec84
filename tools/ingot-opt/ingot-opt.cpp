//===- ingot-opt.cpp - Runs passes on IR, one stage or one pass at a time ----------------------------------------===//

#include "compiler/Pipelines/Pipelines.h"
#include "dialects/ingot/Ingot.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  mlir::registerAllPasses();
  ingot::registerPipelines();
  registry.insert<ingot::IngotDialect>();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Ingot optimizer driver\n", registry));
}
