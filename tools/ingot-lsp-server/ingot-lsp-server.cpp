//===- ingot-lsp-server.cpp - Tells an editor about IR in the ingot dialect --------------------------------------===//
//
// A language server (over stdin and stdout) for .mlir files: diagnostics, hovers, definitions and references of values
// and symbols. Set it as the editor's MLIR server, for example "mlir.server_path" in VS Code.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "dialects/ingot/Ingot.h"
#include "mlir/InitAllDialects.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  registry.insert<ingot::IngotDialect>();
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
