// The syntax tree of a chat template: what TemplateParser makes of its text and
// TemplateProgram turns into the nodes of ingot_rt/image_template.h.
//
// One kind of node for everything; which of its members a kind uses stands at
// the kind. A template is small, so that a plain tree of owned nodes serves.
#ifndef INGOT_COMPILER_TEXT_TEMPLATEAST_H
#define INGOT_COMPILER_TEXT_TEMPLATEAST_H

#include "ingot_rt/image_template.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ingot::tpl {

/// A place in a template's text, counted from 1; columns in characters.
struct Place {
  uint32_t line = 1, column = 1;
};

struct Node;
using NodePtr = std::unique_ptr<Node>;
using NodeList = std::vector<NodePtr>;

/// The arguments of a call, a filter or a test.
struct CallArguments {
  NodeList positional;
  std::vector<std::pair<std::string, NodePtr>> keywords;
  NodePtr dynamic, dynamicKeywords; ///< `*x`, `**x`; null if absent
};

struct Node {
  enum class Kind {
    // Expressions.
    None,
    Bool,               ///< integer
    Integer,            ///< integer
    Float,              ///< real
    String,             ///< text
    Name,               ///< text, use
    NamespaceAttribute, ///< text . attribute, a target
    Tuple,              ///< items
    List,               ///< items
    Dict,               ///< items: key and value in turn
    Conditional,        ///< first if second else third (or null)
    And,                ///< first, second
    Or,                 ///< first, second
    Not,                ///< first
    Negate,             ///< first
    Positive,           ///< first
    Binary,             ///< first operation second
    Concat,             ///< items
    Compare,            ///< first, then operations and items pairwise
    GetAttribute,       ///< first . text
    GetItem,            ///< first [ second ]
    Slice,              ///< first : second : third, each or null
    Call,               ///< first (arguments)
    Filter,             ///< first (null: a block's text) | text (arguments)
    Test,               ///< first is text (arguments)
    // Statements.
    Text,        ///< text
    Output,      ///< first
    If,          ///< items: tests; bodies[i] for each, and one more for else if there is one
    For,         ///< first: target, second: iterable, third: test or null; bodies: body, else or nothing
    Set,         ///< first = second
    SetBlock,    ///< first, second: filter or null, bodies[0]
    Macro,       ///< text, items: parameters (Name), defaults of the last ones, bodies[0]
    CallBlock,   ///< first: call; items, defaults, bodies[0]
    Generation,  ///< bodies[0]
    FilterBlock, ///< first: filter, bodies[0]
    With,        ///< items: targets, defaults: values, bodies[0]
    Break,
    Continue,
    Template, ///< bodies[0]
  };
  enum class Use { Load, Store, Parameter };

  Kind kind;
  Place place;
  uint32_t depth = 1; ///< of the tree below
  Use use = Use::Load;
  std::string text, attribute;
  int64_t integer = 0;
  double real = 0;
  uint32_t operation = 0;           ///< ingot_rt_tpl_operator
  std::vector<uint32_t> operations; ///< ingot_rt_tpl_comparison
  NodePtr first, second, third;
  NodeList items, defaults;
  CallArguments arguments;
  std::vector<NodeList> bodies;

  Node(Kind kind, Place place) : kind(kind), place(place) {}
};

/// Calls `visit` with each child of a node in the order of Jinja's own fields
/// (which decides what its analysis of names sees first).
template <typename Visit>
void forEachChild(const Node &node, Visit visit) {
  auto one = [&](const NodePtr &child) {
    if (child)
      visit(*child);
  };
  auto all = [&](const NodeList &list) {
    for (const NodePtr &child : list)
      one(child);
  };
  if (node.kind == Node::Kind::Conditional) { // test, then, else
    one(node.second);
    one(node.first);
    one(node.third);
    return;
  }
  if (node.kind == Node::Kind::For) { // target, iterable, body, else, test
    one(node.first);
    one(node.second);
    for (const NodeList &body : node.bodies)
      all(body);
    one(node.third);
    return;
  }
  one(node.first);
  one(node.second);
  one(node.third);
  all(node.items);
  all(node.defaults);
  all(node.arguments.positional);
  for (const auto &keyword : node.arguments.keywords)
    one(keyword.second);
  one(node.arguments.dynamic);
  one(node.arguments.dynamicKeywords);
  for (const NodeList &body : node.bodies)
    all(body);
}

/// The error "FILE: line L, column C: WHAT".
llvm::Error placedError(llvm::StringRef file, Place place, const llvm::Twine &what);

} // namespace ingot::tpl

#endif // INGOT_COMPILER_TEXT_TEMPLATEAST_H
