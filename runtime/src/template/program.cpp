// The checks of a template section. Slots are the one thing that is not checked
// here: how many there are depends on the function that runs.
#include "template/program.h"

#include <algorithm>

namespace ingot::rt::tpl {

template <typename T>
static bool take(std::string_view section, const ingot_rt_tpl_array &array, std::span<const T> &out) {
  if (array.offset % alignof(T) != 0 || array.offset > section.size() ||
      array.count > (section.size() - array.offset) / sizeof(T) || array.count >= none)
    return false;
  out = {reinterpret_cast<const T *>(section.data() + array.offset), array.count};
  return true;
}

Result<Program> Program::open(std::string_view section) {
  Program program;
  program.section = section;
  const auto *header = reinterpret_cast<const ingot_rt_tpl_header *>(section.data());
  if (section.size() < sizeof *header || header->magic != INGOT_RT_TPL_MAGIC || header->size != section.size())
    return makeError("damaged: the template section of %zu bytes does not start with its header", section.size());
  bool good = take(section, header->nodes, program.nodes) && take(section, header->lists, program.lists) &&
              take(section, header->strings, program.strings) && take(section, header->functions, program.functions) &&
              take(section, header->templates, program.templateTable) &&
              take(section, header->specials, program.specialTable);
  if (!good)
    return makeError("damaged: a table of the template section is outside of it");
  if (Error error = program.check())
    return error;
  return program;
}

bool Program::areNodes(uint32_t index, bool mayBeNone) const {
  if (!isList(index))
    return mayBeNone && index == none;
  std::span<const uint32_t> items = list(index);
  return std::all_of(items.begin(), items.end(), [&](uint32_t item) { return isNode(item); });
}

bool Program::areLoads(uint32_t index, bool mayBeNone) const {
  if (!isList(index))
    return mayBeNone && index == none;
  std::span<const uint32_t> items = list(index);
  if (items.size() % 4 != 0)
    return false;
  for (size_t i = 0; i < items.size(); i += 4)
    if (items[i] >= INGOT_RT_TPL_LOAD_COUNT || (items[i] == INGOT_RT_TPL_LOAD_RESOLVE && !isString(items[i + 2])))
      return false;
  return true;
}

bool Program::areArguments(uint32_t index) const {
  if (!isList(index))
    return false;
  std::span<const uint32_t> items = list(index);
  size_t at = 0;
  auto next = [&] { return at < items.size() ? items[at++] : none - 1; };
  uint32_t positional = next();
  for (uint32_t i = 0; i < positional; ++i)
    if (!isNode(next()))
      return false;
  uint32_t keywords = next();
  for (uint32_t i = 0; i < keywords; ++i)
    if (!isString(next()) || !isNode(next()))
      return false;
  return isNode(next(), true) && isNode(next(), true) && at == items.size();
}

bool Program::isGoodNode(const ingot_rt_tpl_node &node) const {
  switch (node.kind) {
  case INGOT_RT_TPL_CONST_NONE:
  case INGOT_RT_TPL_CONST_BOOL:
  case INGOT_RT_TPL_CONST_INT:
  case INGOT_RT_TPL_CONST_FLOAT:
  case INGOT_RT_TPL_BREAK:
  case INGOT_RT_TPL_CONTINUE:
    return true;
  case INGOT_RT_TPL_CONST_STRING:
  case INGOT_RT_TPL_NAME:
  case INGOT_RT_TPL_FAIL:
  case INGOT_RT_TPL_TEXT:
  case INGOT_RT_TPL_TARGET_NAME:
    return isString(node.a);
  case INGOT_RT_TPL_TARGET_NAMESPACE:
    return isString(node.a) && isString(node.d);
  case INGOT_RT_TPL_TUPLE:
  case INGOT_RT_TPL_LIST:
  case INGOT_RT_TPL_CONCAT:
  case INGOT_RT_TPL_TARGET_TUPLE:
    return areNodes(node.a);
  case INGOT_RT_TPL_DICT:
    return areNodes(node.a) && list(node.a).size() % 2 == 0;
  case INGOT_RT_TPL_CONDITIONAL:
    return isNode(node.a) && isNode(node.b) && isNode(node.c, true);
  case INGOT_RT_TPL_AND:
  case INGOT_RT_TPL_OR:
  case INGOT_RT_TPL_GETITEM:
    return isNode(node.a) && isNode(node.b);
  case INGOT_RT_TPL_NOT:
  case INGOT_RT_TPL_NEGATE:
  case INGOT_RT_TPL_POSITIVE:
  case INGOT_RT_TPL_OUTPUT:
    return isNode(node.a);
  case INGOT_RT_TPL_BINARY:
    return isNode(node.a) && isNode(node.b) && node.c < INGOT_RT_TPL_OPERATOR_COUNT;
  case INGOT_RT_TPL_COMPARE: {
    if (!isNode(node.a) || !isList(node.b) || list(node.b).size() % 2 != 0)
      return false;
    std::span<const uint32_t> items = list(node.b);
    for (size_t i = 0; i < items.size(); i += 2)
      if (items[i] >= INGOT_RT_TPL_COMPARISON_COUNT || !isNode(items[i + 1]))
        return false;
    return true;
  }
  case INGOT_RT_TPL_GETATTR:
    return isNode(node.a) && isString(node.b);
  case INGOT_RT_TPL_SLICE: {
    if (!isNode(node.a) || !isList(node.b) || list(node.b).size() != 3 || node.c > 1)
      return false;
    std::span<const uint32_t> items = list(node.b);
    return std::all_of(items.begin(), items.end(), [&](uint32_t item) { return isNode(item, true); });
  }
  case INGOT_RT_TPL_CALL:
    return isNode(node.a) && areArguments(node.b);
  case INGOT_RT_TPL_FILTER:
    return isNode(node.a, true) && areArguments(node.b) && node.c < INGOT_RT_TPL_FILTER_COUNT;
  case INGOT_RT_TPL_TEST:
    return isNode(node.a) && areArguments(node.b) && node.c < INGOT_RT_TPL_TEST_COUNT;
  default:
    return isGoodStatement(node);
  }
}

bool Program::isGoodStatement(const ingot_rt_tpl_node &node) const {
  switch (node.kind) {
  case INGOT_RT_TPL_IF: {
    if (!isList(node.a) || list(node.a).size() % 2 != 0 || !areNodes(node.b, true))
      return false;
    std::span<const uint32_t> items = list(node.a);
    for (size_t i = 0; i < items.size(); i += 2)
      if (!isNode(items[i]) || !areNodes(items[i + 1]))
        return false;
    return true;
  }
  case INGOT_RT_TPL_FOR: {
    if (!isList(node.a) || list(node.a).size() != INGOT_RT_TPL_FOR_COUNT)
      return false;
    std::span<const uint32_t> f = list(node.a);
    bool test =
        f[INGOT_RT_TPL_FOR_TEST] == none ||
        (f[INGOT_RT_TPL_FOR_TEST] < functions.size() && isNode(f[INGOT_RT_TPL_FOR_TEST_TARGET]) &&
         isList(functions[f[INGOT_RT_TPL_FOR_TEST]].body) && !list(functions[f[INGOT_RT_TPL_FOR_TEST]].body).empty());
    return test && isNode(f[INGOT_RT_TPL_FOR_TARGET]) && isNode(f[INGOT_RT_TPL_FOR_ITERABLE]) &&
           areLoads(f[INGOT_RT_TPL_FOR_LOADS]) && areNodes(f[INGOT_RT_TPL_FOR_BODY]) &&
           areLoads(f[INGOT_RT_TPL_FOR_ELSE_LOADS], true) && areNodes(f[INGOT_RT_TPL_FOR_ELSE], true) &&
           (f[INGOT_RT_TPL_FOR_ELSE] == none) == (f[INGOT_RT_TPL_FOR_ELSE_LOADS] == none);
  }
  case INGOT_RT_TPL_SET:
    return isNode(node.a) && isNode(node.b);
  case INGOT_RT_TPL_SET_BLOCK:
    return isNode(node.a) && isNode(node.b, true) && areNodes(node.c) && areLoads(node.d);
  case INGOT_RT_TPL_MACRO:
    return isNode(node.a) && node.b < functions.size();
  case INGOT_RT_TPL_CALL_BLOCK:
    return node.a < functions.size() && (node.b == none || (isNode(node.b) && nodes[node.b].kind == INGOT_RT_TPL_CALL));
  case INGOT_RT_TPL_FILTER_BLOCK:
    return isNode(node.a) && areNodes(node.c) && areLoads(node.d);
  case INGOT_RT_TPL_WITH: {
    return areNodes(node.a) && list(node.a).size() % 2 == 0 && areNodes(node.c) && areLoads(node.d);
  }
  default:
    return false;
  }
}

bool Program::isGoodFunction(const ingot_rt_tpl_function &function) const {
  if (!isString(function.name, true) || !areLoads(function.loads) || !areNodes(function.body) ||
      !isList(function.parameters) || list(function.parameters).size() % 3 != 0 || function.slots > 1u << 20)
    return false;
  std::span<const uint32_t> items = list(function.parameters);
  for (size_t i = 0; i < items.size(); i += 3)
    if (!isString(items[i]) || !isNode(items[i + 2], true))
      return false;
  return true;
}

Error Program::check() const {
  for (const ingot_rt_tpl_string &one : strings)
    if (one.offset > section.size() || one.length > section.size() - one.offset)
      return makeError("damaged: a string of the template section is outside of it");
  auto good = std::all_of(nodes.begin(), nodes.end(), [&](const auto &node) { return isGoodNode(node); }) &&
              std::all_of(functions.begin(), functions.end(), [&](const auto &one) { return isGoodFunction(one); }) &&
              specialTable.size() % 2 == 0 &&
              std::all_of(specialTable.begin(), specialTable.end(), [&](uint32_t one) { return isString(one); });
  for (const ingot_rt_tpl_template &one : templateTable) {
    good =
        good && isString(one.name) && isString(one.where) && one.function < functions.size() && isList(one.variables);
    for (uint32_t variable : good ? list(one.variables) : std::span<const uint32_t>())
      good = good && isString(variable);
  }
  return good ? Error() : makeError("damaged: the template section contradicts itself");
}

} // namespace ingot::rt::tpl
