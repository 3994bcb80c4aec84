//===- FuseAddRMSNorm.cpp - A residual sum and the norm of it -----------------------------------------------------===//
//
// s = x + r; y = rms_norm(s) -> (s, y) = add_rms_norm(x, r). Passes.td has the whole story.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Transforms/FusionSupport.h"
#include "compiler/Transforms/Passes.h"
#include "mlir/Transforms/RegionUtils.h"

#define DEBUG_TYPE "ingot-fuse-add-rms-norm"

using namespace mlir;
using namespace ingot;

namespace ingot {
#define GEN_PASS_DEF_FUSEADDRMSNORMPASS
#include "compiler/Transforms/Passes.h.inc"
} // namespace ingot

namespace {

/// Joins a norm with the sum it is applied to; see the pass's description.
struct FuseAddRMSNormPattern : OpRewritePattern<RMSNormOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(RMSNormOp norm, PatternRewriter &rewriter) const override {
    auto miss = [&](const Twine &reason) { return reportMiss(rewriter, norm, DEBUG_TYPE, reason); };
    if (norm.getInput().getDefiningOp<AddRMSNormOp>())
      return miss("the sum is joined with another norm");
    auto add = norm.getInput().getDefiningOp<AddOp>();
    if (!add)
      return miss("the input is no sum");
    if (add->getBlock() != norm->getBlock())
      return miss("the sum is in another block");
    // The joined op stands where the sum stood: the sum may have users before the norm.
    if (failed(moveValueDefinitions(rewriter, {norm.getWeight()}, add)))
      return miss("the norm's weight cannot be read before the sum");

    Value input = add.getLhs(), residual = add.getRhs();
    if (!input.getDefiningOp<LinearOp>() && residual.getDefiningOp<LinearOp>())
      std::swap(input, residual);
    rewriter.setInsertionPoint(add);
    auto joined = AddRMSNormOp::create(rewriter, rewriter.getFusedLoc({add.getLoc(), norm.getLoc()}), add.getType(),
                                       norm.getType(), input, residual, norm.getWeight(), norm.getEpsAttr());
    reportHit(norm, DEBUG_TYPE, "joined with the residual sum of " + Twine(getFeatures(add)) + " features");
    rewriter.replaceAllUsesWith(add, joined.getSum());
    rewriter.replaceOp(norm, joined.getResult());
    return success();
  }
};

struct FuseAddRMSNorm : ingot::impl::FuseAddRMSNormPassBase<FuseAddRMSNorm> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateFuseAddRMSNormPatterns(patterns);
    runFusion(getOperation(), std::move(patterns));
  }
};

} // namespace

void ingot::populateFuseAddRMSNormPatterns(RewritePatternSet &patterns, PatternBenefit benefit) {
  patterns.add<FuseAddRMSNormPattern>(patterns.getContext(), benefit);
}
