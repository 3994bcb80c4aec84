//===- FuseQKNormRopeAppend.cpp - Everything between the QKV product and attention --------------------------------===//
//
// q' = rope(rms_norm(q)); kv_append(rope(rms_norm(k)), v) -> q' = qk_norm_rope_append(q, k, v). Passes.td has the whole
// story.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Transforms/FusionSupport.h"
#include "compiler/Transforms/Passes.h"
#include "mlir/Transforms/RegionUtils.h"

#define DEBUG_TYPE "ingot-fuse-qk-norm-rope-append"

using namespace mlir;
using namespace ingot;

namespace ingot {
#define GEN_PASS_DEF_FUSEQKNORMROPEAPPENDPASS
#include "compiler/Transforms/Passes.h.inc"
} // namespace ingot

namespace {

/// The attention that reads what `append` writes: the first after it in its block on the same cache and layer.
static AttentionOp findAttention(KVAppendOp append) {
  AttentionOp found;
  for (Operation *user : append.getCache().getUsers()) {
    auto attention = dyn_cast<AttentionOp>(user);
    if (attention && attention->getBlock() == append->getBlock() && append->isBeforeInBlock(attention) &&
        attention.getLayer() == append.getLayer() && (!found || attention->isBeforeInBlock(found)))
      found = attention;
  }
  return found;
}

/// Joins norms, rope and append around a kv_append; see the pass's description.
struct FuseQKNormRopeAppendPattern : OpRewritePattern<KVAppendOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(KVAppendOp append, PatternRewriter &rewriter) const override {
    auto miss = [&](const Twine &reason) { return reportMiss(rewriter, append, DEBUG_TYPE, reason); };
    AttentionOp attention = findAttention(append);
    if (!attention)
      return miss("no attention to the same layer of the cache after this append");
    auto keyRope = append.getKey().getDefiningOp<RopeOp>(), queryRope = attention.getQuery().getDefiningOp<RopeOp>();
    if (!keyRope || !queryRope)
      return miss("queries or keys are not rotated");
    if (!keyRope->hasOneUse() || !queryRope->hasOneUse())
      return miss("rotated queries or keys have another user");
    if (keyRope.getRotaryAttr() != queryRope.getRotaryAttr())
      return miss("queries and keys are rotated by @" + queryRope.getRotary() + " and @" + keyRope.getRotary());
    if (keyRope.getBatch() != append.getBatch() || queryRope.getBatch() != append.getBatch())
      return miss("queries and keys belong to different batches");
    KVCacheType cache = append.getCache().getType();
    auto rotary = SymbolTable::lookupNearestSymbolFrom<RotaryOp>(append, keyRope.getRotaryAttr());
    if (!rotary || rotary.getHeadDim() != cache.getHeadDim())
      return miss("the rotary's heads are not those of the cache, of " + Twine(cache.getHeadDim()) + " elements");

    Value query = queryRope.getInput(), key = keyRope.getInput();
    auto queryNorm = query.getDefiningOp<RMSNormOp>(), keyNorm = key.getDefiningOp<RMSNormOp>();
    if (static_cast<bool>(queryNorm) != static_cast<bool>(keyNorm))
      return miss("only one of queries and keys is normed");
    SmallVector<Value> needed = {query};
    SmallVector<Location> locations = {queryRope.getLoc(), keyRope.getLoc(), append.getLoc()};
    if (queryNorm) {
      if (std::string reason = whyNotTheseNorms(queryNorm, keyNorm, cache.getHeadDim()); !reason.empty())
        return miss(reason);
      query = queryNorm.getInput();
      key = keyNorm.getInput();
      needed = {query, queryNorm.getWeight(), keyNorm.getWeight()};
      locations.insert(locations.begin(), {queryNorm.getLoc(), keyNorm.getLoc()});
    }
    if (failed(moveValueDefinitions(rewriter, needed, append)))
      return miss("queries cannot be computed before the append");

    auto joined =
        QKNormRopeAppendOp::create(rewriter, rewriter.getFusedLoc(locations), queryRope.getType(), query, key,
                                   append.getValue(), append.getBatch(), append.getCache(), append.getLayer(),
                                   queryNorm ? queryNorm.getWeight() : Value(), keyNorm ? keyNorm.getWeight() : Value(),
                                   keyRope.getRotaryAttr(), queryNorm ? queryNorm.getEpsAttr() : FloatAttr());
    reportHit(append, DEBUG_TYPE, Twine(queryNorm ? "norms, " : "") + "rope and append are one op");
    rewriter.replaceAllUsesWith(queryRope, joined.getResult());
    rewriter.eraseOp(append);
    return success();
  }

private:
  /// Why the norms of queries and keys cannot be part of the joined op: empty if they can.
  static std::string whyNotTheseNorms(RMSNormOp query, RMSNormOp key, int64_t headDim) {
    if (!query->hasOneUse() || !key->hasOneUse())
      return "normed queries or keys have another user";
    if (query.getEpsAttr() != key.getEpsAttr())
      return "the norms of queries and keys have different epsilons";
    for (RMSNormOp norm : {query, key}) {
      int64_t length = cast<RankedTensorType>(norm.getWeight().getType()).getDimSize(0);
      if (length != headDim)
        return ("a norm spans " + Twine(length) + " elements, a head " + Twine(headDim)).str();
    }
    return {};
  }
};

struct FuseQKNormRopeAppend : ingot::impl::FuseQKNormRopeAppendPassBase<FuseQKNormRopeAppend> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateFuseQKNormRopeAppendPatterns(patterns);
    runFusion(getOperation(), std::move(patterns));
  }
};

} // namespace

void ingot::populateFuseQKNormRopeAppendPatterns(RewritePatternSet &patterns, PatternBenefit benefit) {
  patterns.add<FuseQKNormRopeAppendPattern>(patterns.getContext(), benefit);
}
