// A view of the template section. Opening it checks every index once, so that
// the interpreter needs no checks of its own.
#ifndef INGOT_RUNTIME_TEMPLATE_PROGRAM_H
#define INGOT_RUNTIME_TEMPLATE_PROGRAM_H

#include "ingot_rt/image_template.h"
#include "support/error.h"

#include <span>
#include <string_view>

namespace ingot::rt::tpl {

constexpr uint32_t none = INGOT_RT_TPL_NONE;

class Program {
public:
  /// `section` must outlive the result and be aligned to 8. Errors say what of
  /// the section is damaged.
  static Result<Program> open(std::string_view section);

  std::span<const ingot_rt_tpl_template> templates() const { return templateTable; }
  const ingot_rt_tpl_node &node(uint32_t index) const { return nodes[index]; }
  const ingot_rt_tpl_function &function(uint32_t index) const { return functions[index]; }
  std::span<const uint32_t> list(uint32_t index) const { return {&lists[index + 1], lists[index]}; }
  std::string_view string(uint32_t index) const { return section.substr(strings[index].offset, strings[index].length); }
  /// Pairs of strings: bos_token and its text, ...
  std::span<const uint32_t> specials() const { return specialTable; }

private:
  Error check() const;
  bool isNode(uint32_t index, bool mayBeNone = false) const {
    return index < nodes.size() || (mayBeNone && index == none);
  }
  bool isString(uint32_t index, bool mayBeNone = false) const {
    return index < strings.size() || (mayBeNone && index == none);
  }
  bool isList(uint32_t index, bool mayBeNone = false) const {
    return (index < lists.size() && lists[index] < lists.size() - index) || (mayBeNone && index == none);
  }
  bool areNodes(uint32_t list, bool mayBeNone = false) const;
  bool areLoads(uint32_t list, bool mayBeNone = false) const;
  bool areArguments(uint32_t list) const;
  bool isGoodNode(const ingot_rt_tpl_node &node) const;
  bool isGoodStatement(const ingot_rt_tpl_node &node) const;
  bool isGoodFunction(const ingot_rt_tpl_function &function) const;

  std::string_view section;
  std::span<const ingot_rt_tpl_node> nodes;
  std::span<const uint32_t> lists, specialTable;
  std::span<const ingot_rt_tpl_string> strings;
  std::span<const ingot_rt_tpl_function> functions;
  std::span<const ingot_rt_tpl_template> templateTable;
};

} // namespace ingot::rt::tpl
#endif // INGOT_RUNTIME_TEMPLATE_PROGRAM_H
