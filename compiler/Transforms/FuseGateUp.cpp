//===- FuseGateUp.cpp - Gate and up products with activation and product ------------------------------------------===//
//
// silu(W_g x) * (W_u x) = one gated linear; without a common product, activation and product alone are joined.
// Passes.td has the whole story.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Transforms/FusionSupport.h"
#include "compiler/Transforms/Passes.h"

#define DEBUG_TYPE "ingot-fuse-gate-up"

using namespace mlir;
using namespace ingot;

namespace ingot {
#define GEN_PASS_DEF_FUSEGATEUPPASS
#include "compiler/Transforms/Passes.h.inc"
} // namespace ingot

namespace {

/// Why `gate` (before its activation) and `up` cannot come from one gated product: empty if they can.
static std::string whyNotGated(Value gate, Value up) {
  auto gateProduct = gate.getDefiningOp<LinearOp>(), upProduct = up.getDefiningOp<LinearOp>();
  if (!gateProduct || !upProduct)
    return "gate or up is no product";
  if (gateProduct == upProduct)
    return "gate and up are one product";
  if (!gate.hasOneUse() || !up.hasOneUse())
    return "gate or up has another user";
  return whyNotOneProduct({gateProduct, upProduct});
}

/// Rewrites silu(gate) * up; see the pass's description.
struct FuseGateUpPattern : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(MulOp mul, PatternRewriter &rewriter) const override {
    auto miss = [&](const Twine &reason) { return reportMiss(rewriter, mul, DEBUG_TYPE, reason); };
    auto activation = mul.getLhs().getDefiningOp<SiLUOp>();
    Value up = mul.getRhs();
    if (!activation) {
      activation = mul.getRhs().getDefiningOp<SiLUOp>();
      up = mul.getLhs();
    }
    if (!activation)
      return miss("no factor is an activation function");
    if (!activation->hasOneUse())
      return miss("the activation has another user");

    Value gate = activation.getInput();
    Location location = rewriter.getFusedLoc({activation.getLoc(), mul.getLoc()});
    auto function = ActivationAttr::get(getContext(), Activation::SiLU);
    std::string reason = whyNotGated(gate, up);
    if (!reason.empty()) {
      auto gated = GatedActOp::create(rewriter, location, mul.getType(), function, gate, up);
      reportMiss(rewriter, mul, DEBUG_TYPE, reason + "; only activation and product are joined").failed();
      rewriter.replaceOp(mul, gated);
      return success();
    }
    auto gateProduct = gate.getDefiningOp<LinearOp>(), upProduct = up.getDefiningOp<LinearOp>();
    SmallVector<Value> weights(gateProduct.getWeights()), biases(gateProduct.getBiases());
    llvm::append_range(weights, upProduct.getWeights());
    llvm::append_range(biases, upProduct.getBiases());
    reportHit(mul, DEBUG_TYPE,
              "gate, up, activation and product are one op of " + Twine(getFeatures(mul)) + " features");
    location = rewriter.getFusedLoc({gateProduct.getLoc(), upProduct.getLoc(), activation.getLoc(), mul.getLoc()});
    auto gated = LinearOp::create(rewriter, location, mul.getType(), gateProduct.getInput(), weights, biases,
                                  /*residual=*/Value(), function,
                                  /*row_parallel=*/false, gateProduct.getComputeAttr());
    rewriter.replaceOp(mul, gated);
    return success();
  }
};

struct FuseGateUp : ingot::impl::FuseGateUpPassBase<FuseGateUp> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateFuseGateUpPatterns(patterns);
    runFusion(getOperation(), std::move(patterns));
  }
};

} // namespace

void ingot::populateFuseGateUpPatterns(RewritePatternSet &patterns, PatternBenefit benefit) {
  patterns.add<FuseGateUpPattern>(patterns.getContext(), benefit);
}
