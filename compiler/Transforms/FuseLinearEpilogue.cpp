//===- FuseLinearEpilogue.cpp - A product and the residual that is added to it ------------------------------------===//
//
// r + (W x + b) -> linear(x, W, b, residual r). Passes.td has the whole story.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Transforms/FusionSupport.h"
#include "compiler/Transforms/Passes.h"

#define DEBUG_TYPE "ingot-fuse-linear-epilogue"

using namespace mlir;
using namespace ingot;

namespace ingot {
#define GEN_PASS_DEF_FUSELINEAREPILOGUEPASS
#include "compiler/Transforms/Passes.h.inc"
} // namespace ingot

namespace {

/// Why `value` is no product that can take a residual: empty if it is one.
static std::string whyNoEpilogue(Value value) {
  auto linear = value.getDefiningOp<LinearOp>();
  if (!linear)
    return "no summand is a product";
  if (!linear->hasOneUse())
    return "the product has another user";
  if (linear.getResidual())
    return "the product has a residual already";
  if (linear.getGated())
    return "the product is gated";
  return {};
}

/// Gives a product the residual that is added to it; see the pass's description.
struct FuseLinearEpiloguePattern : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AddOp add, PatternRewriter &rewriter) const override {
    // Of two products the right one takes the left one as its residual: residual streams stand on the left.
    Value product = add.getRhs(), residual = add.getLhs();
    std::string reason = whyNoEpilogue(product);
    if (!reason.empty()) {
      std::string other = whyNoEpilogue(residual);
      if (!other.empty())
        return reportMiss(rewriter, add, DEBUG_TYPE, product.getDefiningOp<LinearOp>() ? reason : other);
      std::swap(product, residual);
    }
    auto linear = product.getDefiningOp<LinearOp>();
    reportHit(add, DEBUG_TYPE, "the product adds the residual of " + Twine(getFeatures(add)) + " features");
    auto joined = LinearOp::create(rewriter, rewriter.getFusedLoc({linear.getLoc(), add.getLoc()}), add.getType(),
                                   linear.getInput(), linear.getWeights(), linear.getBiases(), residual,
                                   /*gated=*/ActivationAttr(), linear.getRowParallel(), linear.getComputeAttr());
    rewriter.replaceOp(add, joined);
    return success();
  }
};

struct FuseLinearEpilogue : ingot::impl::FuseLinearEpiloguePassBase<FuseLinearEpilogue> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateFuseLinearEpiloguePatterns(patterns);
    runFusion(getOperation(), std::move(patterns));
  }
};

} // namespace

void ingot::populateFuseLinearEpiloguePatterns(RewritePatternSet &patterns, PatternBenefit benefit) {
  patterns.add<FuseLinearEpiloguePattern>(patterns.getContext(), benefit);
}
