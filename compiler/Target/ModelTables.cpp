//===- ModelTables.cpp - The object that describes the model to the runtime
//---------------------------------------===//

#include "compiler/Target/ModelTables.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Alignment.h"
#include <cstddef>
#include <utility>

using namespace llvm;

namespace ingot {

namespace {

/// A pointer field of a C structure: its offset and what it points to.
using PointerField = std::pair<size_t, Constant *>;

/// Emits C structures as private constants of one module.
class TableBuilder {
public:
  explicit TableBuilder(Module &module) : module(module), context(module.getContext()) {}

  /// A NUL-terminated string.
  Constant *text(StringRef value) { return define(ConstantDataArray::getString(context, value), "", 1); }

  /// The bytes of `value`, with relocations in place of its pointers (in
  /// ascending order of offset).
  template <typename T>
  Constant *initializer(const T &value, ArrayRef<PointerField> pointers = {}) {
    ArrayRef<uint8_t> bytes(reinterpret_cast<const uint8_t *>(&value), sizeof(T));
    SmallVector<Constant *> fields;
    size_t at = 0;
    for (auto [offset, target] : pointers) {
      if (offset > at)
        fields.push_back(ConstantDataArray::get(context, bytes.slice(at, offset - at)));
      fields.push_back(target);
      at = offset + sizeof(void *);
    }
    if (at < bytes.size())
      fields.push_back(ConstantDataArray::get(context, bytes.drop_front(at)));
    return ConstantStruct::getAnon(context, fields, /*Packed=*/true);
  }

  /// A table of structures; a null pointer when it is empty.
  Constant *table(ArrayRef<Constant *> rows) {
    if (rows.empty())
      return null();
    // The rows' types may differ (runs of bytes of different lengths), their
    // sizes do not.
    return define(ConstantStruct::getAnon(context, rows, /*Packed=*/true), "", 8);
  }

  Constant *null() { return ConstantPointerNull::get(PointerType::getUnqual(context)); }

  Constant *declareFunction(StringRef name) {
    return Function::Create(FunctionType::get(Type::getVoidTy(context), false), GlobalValue::ExternalLinkage, name,
                            module);
  }

  Constant *define(Constant *value, StringRef name, unsigned alignment) {
    auto *global =
        new GlobalVariable(module, value->getType(), /*isConstant=*/true,
                           name.empty() ? GlobalValue::PrivateLinkage : GlobalValue::ExternalLinkage, value, name);
    global->setAlignment(Align(alignment));
    return global;
  }

private:
  Module &module;
  LLVMContext &context;
};

} // namespace

Expected<SmallVector<char, 0>> emitModelTables(const ModelRecord &record, const CpuTarget &target) {
  LLVMContext context;
  Module module("ingot-model", context);
  TableBuilder builder(module);

  SmallVector<Constant *> groups, variants, parameters, sources, ops;
  for (const ingot_rt_cache_group &group : record.cacheGroups)
    groups.push_back(builder.initializer(group));
  for (const VariantRecord &variant : record.variants) {
    ingot_rt_variant fields = {};
    fields.features = variant.features;
    SmallVector<PointerField> pointers = {{offsetof(ingot_rt_variant, name), builder.text(variant.name)},
                                          {offsetof(ingot_rt_variant, step), builder.declareFunction(variant.symbol)}};
    // Any declared symbol will do for an address.
    if (!variant.device.empty())
      pointers.push_back({offsetof(ingot_rt_variant, device), builder.declareFunction(variant.device)});
    SmallVector<Constant *> kernels;
    for (const std::string &kernel : variant.randomKernels)
      kernels.push_back(kernel.empty() ? builder.null() : builder.declareFunction(kernel));
    pointers.push_back({offsetof(ingot_rt_variant, random_kernels), builder.table(kernels)});
    variants.push_back(builder.initializer(fields, pointers));
  }
  for (const ParameterRecord &parameter : record.parameters)
    parameters.push_back(
        builder.initializer(parameter.fields, {{offsetof(ingot_rt_parameter, name), builder.text(parameter.name)},
                                               {offsetof(ingot_rt_parameter, part), builder.text(parameter.part)}}));
  for (const RandomSourceRecord &source : record.randomSources)
    sources.push_back(builder.initializer(source.fields,
                                          {{offsetof(ingot_rt_random_source, pattern), builder.text(source.pattern)}}));
  for (const OpRecord &op : record.ops)
    ops.push_back(builder.initializer(op.fields, {{offsetof(ingot_rt_op, name), builder.text(op.name)},
                                                  {offsetof(ingot_rt_op, kind), builder.text(op.kind)}}));

  ingot_rt_model model = record.fields;
  model.size = sizeof(ingot_rt_model);
  model.version = INGOT_RT_ABI_VERSION;
  model.cache_group_count = groups.size();
  model.variant_count = variants.size();
  model.parameter_count = parameters.size();
  model.random_source_count = sources.size();
  model.op_count = ops.size();
  SmallVector<PointerField> pointers = {
      {offsetof(ingot_rt_model, name), builder.text(record.name)},
      {offsetof(ingot_rt_model, architecture), builder.text(record.architecture)},
      {offsetof(ingot_rt_model, cache_groups), builder.table(groups)},
      {offsetof(ingot_rt_model, variants), builder.table(variants)},
      {offsetof(ingot_rt_model, parameters), builder.table(parameters)},
      {offsetof(ingot_rt_model, random_sources), builder.table(sources)},
      {offsetof(ingot_rt_model, ops), builder.table(ops)},
  };
  sort(pointers, [](const PointerField &a, const PointerField &b) { return a.first < b.first; });
  builder.define(builder.initializer(model, pointers), "ingot_rt_the_model", 8);

  return emitConstants(module, target);
}

} // namespace ingot
