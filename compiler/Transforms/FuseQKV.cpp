//===- FuseQKV.cpp - Queries, keys and values as one product ------------------------------------------------------===//
//
// (W_q x, W_k x, W_v x) = split([W_q; W_k; W_v] x). Passes.td has the whole story.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Transforms/FusionSupport.h"
#include "compiler/Transforms/Passes.h"
#include "mlir/Transforms/RegionUtils.h"

#define DEBUG_TYPE "ingot-fuse-qkv"

using namespace mlir;
using namespace ingot;

namespace ingot {
#define GEN_PASS_DEF_FUSEQKVPASS
#include "compiler/Transforms/Passes.h.inc"
} // namespace ingot

namespace {

/// What an attention works on: queries, and the keys and values appended to the layer of the cache that it reads.
struct AttentionInputs {
  Value query, key, value;
};

/// Finds them; empty values where no append to the same layer of the cache stands before `attention` in its block.
static AttentionInputs findInputs(AttentionOp attention) {
  if (auto append = attention.getQuery().getDefiningOp<QKNormRopeAppendOp>())
    return {append.getQuery(), append.getKey(), append.getValue()};
  AttentionInputs inputs;
  for (Operation *user : attention.getCache().getUsers()) {
    auto append = dyn_cast<KVAppendOp>(user);
    if (append && append->getBlock() == attention->getBlock() && append->isBeforeInBlock(attention) &&
        append.getLayer() == attention.getLayer())
      inputs = {attention.getQuery(), append.getKey(), append.getValue()};
  }
  return inputs;
}

/// The product behind queries, keys or values: rope and rms_norm are stepped over. Null: something else is there.
static LinearOp findProduct(Value value) {
  if (auto rope = value.getDefiningOp<RopeOp>())
    value = rope.getInput();
  if (auto norm = value.getDefiningOp<RMSNormOp>())
    value = norm.getInput();
  return value.getDefiningOp<LinearOp>();
}

/// Joins the three products behind an attention; see the pass's description.
struct FuseQKVPattern : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AttentionOp attention, PatternRewriter &rewriter) const override {
    auto miss = [&](const Twine &reason) { return reportMiss(rewriter, attention, DEBUG_TYPE, reason); };
    AttentionInputs inputs = findInputs(attention);
    if (!inputs.key)
      return miss("no kv_append to the same layer of the cache before this attention");
    SmallVector<LinearOp, 3> products = {findProduct(inputs.query), findProduct(inputs.key), findProduct(inputs.value)};
    const StringRef names[] = {"queries", "keys", "values"};
    for (auto [product, name] : llvm::zip(products, names))
      if (!product)
        return miss(name + " do not come from a product of their own");
    if (products[0] == products[1] || products[0] == products[2] || products[1] == products[2])
      return miss("two of queries, keys and values are one product");
    std::string reason = whyNotOneProduct(products);
    if (!reason.empty())
      return miss(reason);

    // The joined product stands where the first of the three stood, so that it dominates all users.
    LinearOp first = products[0];
    for (LinearOp product : products)
      if (product->isBeforeInBlock(first))
        first = product;
    SmallVector<Value> weights, biases;
    SmallVector<Location> locations;
    SmallVector<Type> types;
    int64_t features = 0;
    for (LinearOp product : products) {
      llvm::append_range(weights, product.getWeights());
      llvm::append_range(biases, product.getBiases());
      locations.push_back(product.getLoc());
      types.push_back(product.getType());
      features += getFeatures(product);
    }
    SmallVector<Value> parameters(weights);
    llvm::append_range(parameters, biases);
    if (failed(moveValueDefinitions(rewriter, parameters, first)))
      return miss("a weight cannot be read before the first of the products");

    rewriter.setInsertionPoint(first);
    Location location = rewriter.getFusedLoc(locations);
    auto type = RankedTensorType::get({ShapedType::kDynamic, features}, rewriter.getF32Type());
    auto joined = LinearOp::create(rewriter, location, type, first.getInput(), weights, biases, /*residual=*/Value(),
                                   /*gated=*/ActivationAttr(), /*row_parallel=*/false, first.getComputeAttr());
    auto split = SplitOp::create(rewriter, location, types, joined);
    for (auto [product, part] : llvm::zip(products, split.getParts()))
      rewriter.replaceAllUsesWith(product, part);
    reportHit(attention, DEBUG_TYPE, "queries, keys and values are one product of " + Twine(features) + " features");
    return success();
  }
};

struct FuseQKV : ingot::impl::FuseQKVPassBase<FuseQKV> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateFuseQKVPatterns(patterns);
    runFusion(getOperation(), std::move(patterns));
  }
};

} // namespace

void ingot::populateFuseQKVPatterns(RewritePatternSet &patterns, PatternBenefit benefit) {
  patterns.add<FuseQKVPattern>(patterns.getContext(), benefit);
}
