// Follows jinja2/idtracking.py rule by rule; the names of its methods stand at
// each.
#include "compiler/Text/TemplateScope.h"

using namespace ingot::tpl;

using Kind = Node::Kind;

/// find_ref
std::optional<Variable> Symbols::find(const std::string &name) const {
  for (const Symbols *at = this; at; at = at->parent)
    if (auto found = at->refs.find(name); found != at->refs.end())
      return found->second;
  return std::nullopt;
}

/// _define_ref
Variable Symbols::define(const std::string &name, std::optional<Load> how) {
  Variable variable = {function, function->slotOf(level, name)};
  refs[name] = variable;
  if (how)
    loads[variable.slot] = *how;
  return variable;
}

void Symbols::store(const std::string &name) {
  stores.insert(name);
  if (refs.count(name))
    return;
  if (parent)
    if (std::optional<Variable> outer = parent->find(name)) {
      define(name, Load{INGOT_RT_TPL_LOAD_ALIAS, "", *outer});
      return;
    }
  define(name, Load{INGOT_RT_TPL_LOAD_MISSING, ""});
}

void Symbols::load(const std::string &name) {
  if (!find(name))
    define(name, Load{INGOT_RT_TPL_LOAD_RESOLVE, name});
}

Variable Symbols::declareParameter(const std::string &name) {
  stores.insert(name);
  return define(name, Load{INGOT_RT_TPL_LOAD_NOTHING, ""});
}

void Symbols::visit(const Node &node) {
  switch (node.kind) {
  case Kind::Name:
    if (node.use == Node::Use::Parameter)
      declareParameter(node.text);
    else if (node.use == Node::Use::Store)
      store(node.text);
    else
      load(node.text);
    return;
  case Kind::NamespaceAttribute:
    load(node.text);
    return;
  case Kind::If:
    visitIf(node);
    return;
  case Kind::Macro:
    store(node.text);
    return;
  case Kind::Set: // the value first
    visit(*node.second);
    visit(*node.first);
    return;
  case Kind::For:
    visit(*node.second);
    return;
  case Kind::CallBlock:
  case Kind::FilterBlock:
  case Kind::SetBlock:
    visit(*node.first);
    return;
  case Kind::With:
    visitList(node.defaults);
    return;
  case Kind::Generation:
    return;
  default:
    forEachChild(node, [&](const Node &child) { visit(child); });
  }
}

/// visit_If: each branch sees the names before the branches. Jinja has the
/// elif branches as one branch, of ifs inside; so that a name that one of them
/// stores is known to the next.
void Symbols::visitIf(const Node &node) {
  visit(*node.items[0]);
  std::vector<Symbols> branches(3, *this);
  branches[0].visitList(node.bodies[0]);
  for (size_t i = 1; i < node.items.size(); ++i) {
    Symbols &elifs = branches[1];
    elifs.visit(*node.items[i]);
    std::vector<Symbols> inner(3, elifs);
    inner[0].visitList(node.bodies[i]);
    elifs.updateFromBranches(inner);
  }
  if (node.bodies.size() > node.items.size())
    branches[2].visitList(node.bodies.back());
  updateFromBranches(branches);
}

/// branch_update
void Symbols::updateFromBranches(const std::vector<Symbols> &branches) {
  std::set<std::string> added;
  for (const Symbols &branch : branches)
    for (const std::string &name : branch.stores)
      if (!stores.count(name))
        added.insert(name);
  for (const Symbols &branch : branches) {
    for (const auto &[name, variable] : branch.refs)
      refs[name] = variable;
    for (const auto &[slot, load] : branch.loads)
      loads[slot] = load;
    stores.insert(branch.stores.begin(), branch.stores.end());
  }
  for (const std::string &name : added) {
    Variable target = *find(name);
    std::optional<Variable> outer = parent ? parent->find(name) : std::nullopt;
    loads[target.slot] = outer ? Load{INGOT_RT_TPL_LOAD_ALIAS, "", *outer} : Load{INGOT_RT_TPL_LOAD_RESOLVE, name};
  }
}

void Symbols::analyze(const Node &node) {
  switch (node.kind) {
  case Kind::SetBlock:
    if (node.second)
      visit(*node.second);
    visitList(node.bodies[0]);
    return;
  case Kind::CallBlock: // not the call
    visitList(node.items);
    visitList(node.defaults);
    visitList(node.bodies[0]);
    return;
  case Kind::With: // not the values
    visitList(node.items);
    visitList(node.bodies[0]);
    return;
  default:
    forEachChild(node, [&](const Node &child) { visit(child); });
  }
}

/// The target of a loop, whose names count as parameters.
static void declareTargets(Symbols &symbols, const Node &target) {
  if (target.kind == Kind::Name)
    symbols.declareParameter(target.text);
  for (const NodePtr &item : target.items)
    declareTargets(symbols, *item);
}

void Symbols::analyzeLoopBody(const Node &node) {
  declareTargets(*this, *node.first);
  visitList(node.bodies[0]);
}

void Symbols::analyzeLoopElse(const Node &node) { visitList(node.bodies[1]); }

void Symbols::analyzeLoopTest(const Node &node) {
  declareTargets(*this, *node.first);
  visit(*node.third);
}

static void findUndeclaredIn(const Node &node, std::set<std::string> &names, std::set<std::string> &found) {
  if (node.kind == Kind::Name) {
    if (node.use == Node::Use::Load && names.count(node.text))
      found.insert(node.text);
    else
      names.erase(node.text);
    return;
  }
  forEachChild(node, [&](const Node &child) { findUndeclaredIn(child, names, found); });
}

std::set<std::string> ingot::tpl::findUndeclared(const NodeList &nodes, std::set<std::string> names) {
  std::set<std::string> found;
  for (const NodePtr &node : nodes)
    findUndeclaredIn(*node, names, found);
  return found;
}
