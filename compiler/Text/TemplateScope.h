// Which variable a name means. Jinja decides it while it compiles (its module
// idtracking): every scope knows the names that it stores, and a name that it
// only reads belongs to a scope further out, or is looked up in what the caller
// gives. These classes reproduce that analysis, with slots of functions in the
// place of Python's local variables.
#ifndef INGOT_COMPILER_TEXT_TEMPLATESCOPE_H
#define INGOT_COMPILER_TEXT_TEMPLATESCOPE_H

#include "compiler/Text/TemplateAst.h"
#include <map>
#include <optional>
#include <set>
#include <string>

namespace ingot::tpl {

/// What runs with slots of its own: a template's body, a macro, a call block, a
/// loop's filter.
struct FunctionScope {
  explicit FunctionScope(FunctionScope *outer) : outer(outer) {}
  FunctionScope *outer;
  /// Scopes side by side share the slots of equal names, as they share a local
  /// variable in Jinja's output.
  std::map<std::pair<unsigned, std::string>, uint32_t> slots;

  uint32_t slotOf(unsigned level, const std::string &name) {
    return slots.try_emplace({level, name}, slots.size()).first->second;
  }
};

/// A variable.
struct Variable {
  FunctionScope *function = nullptr;
  uint32_t slot = 0;
};

/// How a slot gets its value when its scope is entered.
struct Load {
  ingot_rt_tpl_load how = INGOT_RT_TPL_LOAD_MISSING;
  std::string name;   ///< RESOLVE
  Variable from = {}; ///< ALIAS
};

/// The names of one scope.
class Symbols {
public:
  Symbols(Symbols *parent, FunctionScope *function)
      : parent(parent), function(function), level(parent ? parent->level + 1 : 0) {}

  std::optional<Variable> find(const std::string &name) const;
  void store(const std::string &name);
  void load(const std::string &name);
  Variable declareParameter(const std::string &name);

  /// Sees a node as Jinja's FrameSymbolVisitor does: names of this scope, not
  /// of the scopes that begin inside.
  void visit(const Node &node);
  /// Sees what lies inside the scope that `node` begins.
  void analyze(const Node &node);
  void analyzeLoopBody(const Node &node);
  void analyzeLoopElse(const Node &node);
  void analyzeLoopTest(const Node &node);

  Symbols *parent;
  FunctionScope *function;
  unsigned level;
  std::map<std::string, Variable> refs;
  std::map<uint32_t, Load> loads; ///< by slot of `function`
  std::set<std::string> stores;

private:
  Variable define(const std::string &name, std::optional<Load> how);
  void visitIf(const Node &node);
  void updateFromBranches(const std::vector<Symbols> &branches);
  void visitList(const NodeList &list) {
    for (const NodePtr &node : list)
      visit(*node);
  }
};

/// Which of `names` the nodes read before they store any of them
/// (find_undeclared of Jinja's compiler).
std::set<std::string> findUndeclared(const NodeList &nodes, std::set<std::string> names);

} // namespace ingot::tpl

#endif // INGOT_COMPILER_TEXT_TEMPLATESCOPE_H
