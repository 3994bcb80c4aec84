//===- FusionSupport.cpp - What the fusion passes share -----------------------------------------------------------===//
//
// See FusionSupport.h.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Transforms/FusionSupport.h"
#include "compiler/Transforms/Passes.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

using namespace mlir;

/// The remark's identity: the pass, in the function that `root` is in, in category `ingot`.
static remark::RemarkOpts remarkOptions(Operation *root, StringRef pass) {
  auto function = root->getParentOfType<func::FuncOp>();
  return remark::RemarkOpts::name(pass).category("ingot").function(function ? function.getName() : StringRef());
}

LogicalResult ingot::enableRemarks(MLIRContext &context) {
  remark::RemarkCategories categories;
  // `all` counts only for kinds that have a pattern of their own.
  categories.all = categories.passed = categories.missed = categories.analysis = categories.failed = "ingot";
  return remark::enableOptimizationRemarks(context, /*streamer=*/nullptr,
                                           std::make_unique<remark::RemarkEmittingPolicyAll>(), categories,
                                           /*printAsEmitRemarks=*/true);
}

void ingot::reportHit(Operation *root, StringRef pass, const Twine &what) {
  remark::passed(root->getLoc(), remarkOptions(root, pass)) << what.str();
}

LogicalResult ingot::reportMiss(PatternRewriter &rewriter, Operation *root, StringRef pass, const Twine &reason) {
  std::string text = reason.str();
  remark::missed(root->getLoc(), remarkOptions(root, pass)) << text;
  return rewriter.notifyMatchFailure(root, text);
}

void ingot::eraseDeadOps(func::FuncOp function) {
  for (Block &block : function.getBody())
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
}

void ingot::runFusion(func::FuncOp function, RewritePatternSet patterns) {
  walkAndApplyPatterns(function, FrozenRewritePatternSet(std::move(patterns)));
  eraseDeadOps(function);
}

std::string ingot::whyNotOneProduct(ArrayRef<LinearOp> linears) {
  LinearOp first = linears.front();
  for (LinearOp linear : linears) {
    if (linear.getInput() != first.getInput())
      return "the products have different inputs";
    if (linear->getBlock() != first->getBlock())
      return "the products are in different blocks";
    if (linear.getWeights().size() != 1)
      return "a product has several weights already";
    if (linear.getGated())
      return "a product is gated";
    if (linear.getResidual())
      return "a product has a residual";
    if (linear.getRowParallel())
      return "a product is row-parallel";
    if (linear.getBiases().empty() != first.getBiases().empty())
      return "only some of the products have a bias";
    auto weight = linear.getWeights().front().getDefiningOp<WeightOp>(),
         firstWeight = first.getWeights().front().getDefiningOp<WeightOp>();
    if (weight && firstWeight && weight.getIndex() != firstWeight.getIndex())
      return "the weights are read at different indices";
    Type mine = getElementTypeOrSelf(linear.getWeights().front()),
         theirs = getElementTypeOrSelf(first.getWeights().front());
    if (mine == theirs && !linear.getBiases().empty()) {
      mine = getElementTypeOrSelf(linear.getBiases().front());
      theirs = getElementTypeOrSelf(first.getBiases().front());
    }
    if (mine != theirs) {
      std::string text;
      llvm::raw_string_ostream(text) << "the weights' element types differ: " << theirs << " and " << mine;
      return text;
    }
  }
  return {};
}
