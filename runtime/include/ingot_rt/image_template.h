// The template section of the payload: chat templates, parsed, checked and
// partially evaluated by the compiler into trees of nodes that the runtime
// interprets. One section holds every template of a model (a default one, one
// for tools); they share strings.
//
// The section starts with an ingot_rt_tpl_header. Everything refers to
// everything by index: nodes to nodes, strings (index into `strings`) and lists
// (index into `lists`, where the number of elements stands, followed by the
// elements). INGOT_RT_TPL_NONE stands for what is absent.
//
// Scopes follow Jinja's own compiler: a function (a template's body, a macro, a
// call block, a loop's filter) has slots, a scope inside a function (a loop's
// body, a set block) has loads that are done each time it is entered. A
// variable is a slot and the number of functions to go outward to find it.
#ifndef INGOT_RT_IMAGE_TEMPLATE_H
#define INGOT_RT_IMAGE_TEMPLATE_H

#include <stdint.h>

#define INGOT_RT_TPL_MAGIC 0x314c50545f474e49ull // "ING_TPL1"
#define INGOT_RT_TPL_NONE 0xffffffffu

/// Filters by the names that templates use. A name that stands for another
/// (count, d) is replaced by the compiler and looked up by the runtime in
/// INGOT_RT_TPL_FILTER_ALIASES.
// clang-format off
#define INGOT_RT_TPL_FILTERS(X)                                                                                        \
  X(abs) X(attr) X(batch) X(capitalize) X(center) X(default) X(dictsort) X(escape) X(first) X(float) X(format)         \
  X(groupby) X(indent) X(int) X(items) X(join) X(last) X(length) X(list) X(lower) X(map) X(max) X(min)                 \
  X(reject) X(rejectattr) X(replace) X(reverse) X(round) X(safe) X(select) X(selectattr) X(slice) X(sort)              \
  X(string) X(sum) X(title) X(tojson) X(trim) X(truncate) X(unique) X(upper)
// clang-format on
#define INGOT_RT_TPL_FILTER_ALIASES(X) X("count", length) X("d", default) X("e", escape)
/// What Jinja has and Ingot refuses, by name.
// clang-format off
#define INGOT_RT_TPL_REFUSED_FILTERS(X)                                                                                \
  X("filesizeformat") X("forceescape") X("pprint") X("random") X("striptags") X("urlencode") X("urlize")               \
  X("wordcount") X("wordwrap") X("xmlattr")
// clang-format on

// clang-format off
#define INGOT_RT_TPL_TESTS(X)                                                                                          \
  X(boolean) X(callable) X(defined) X(divisibleby) X(eq) X(escaped) X(even) X(false) X(filter) X(float) X(ge)          \
  X(gt) X(in) X(integer) X(iterable) X(le) X(lower) X(lt) X(mapping) X(ne) X(none) X(number) X(odd) X(sameas)          \
  X(sequence) X(string) X(test) X(true) X(undefined) X(upper)
#define INGOT_RT_TPL_TEST_ALIASES(X)                                                                                   \
  X("==", eq) X("equalto", eq) X("!=", ne) X(">", gt) X("greaterthan", gt) X(">=", ge) X("<", lt)                      \
  X("lessthan", lt) X("<=", le)
// clang-format on

/// Functions that a template finds without being given them.
#define INGOT_RT_TPL_GLOBALS(X) X(dict) X(namespace) X(raise_exception) X(range) X(strftime_now)

enum ingot_rt_tpl_filter {
#define X(name) INGOT_RT_TPL_FILTER_##name,
  INGOT_RT_TPL_FILTERS(X)
#undef X
      INGOT_RT_TPL_FILTER_COUNT
};

enum ingot_rt_tpl_test {
#define X(name) INGOT_RT_TPL_TEST_##name,
  INGOT_RT_TPL_TESTS(X)
#undef X
      INGOT_RT_TPL_TEST_COUNT
};

enum ingot_rt_tpl_global {
#define X(name) INGOT_RT_TPL_GLOBAL_##name,
  INGOT_RT_TPL_GLOBALS(X)
#undef X
      INGOT_RT_TPL_GLOBAL_COUNT
};

enum ingot_rt_tpl_operator {
  INGOT_RT_TPL_ADD,
  INGOT_RT_TPL_SUB,
  INGOT_RT_TPL_MUL,
  INGOT_RT_TPL_DIV,
  INGOT_RT_TPL_FLOORDIV,
  INGOT_RT_TPL_MOD,
  INGOT_RT_TPL_POW,
  INGOT_RT_TPL_POW_LITERAL, ///< a power that binds closer than the sign of the number on its left
  INGOT_RT_TPL_OPERATOR_COUNT,
};

enum ingot_rt_tpl_comparison {
  INGOT_RT_TPL_EQ,
  INGOT_RT_TPL_NE,
  INGOT_RT_TPL_LT,
  INGOT_RT_TPL_LE,
  INGOT_RT_TPL_GT,
  INGOT_RT_TPL_GE,
  INGOT_RT_TPL_IN,
  INGOT_RT_TPL_NOT_IN,
  INGOT_RT_TPL_COMPARISON_COUNT,
};

/// What a node is, and what its operands a, b, c, d are. "or none" says that
/// INGOT_RT_TPL_NONE may stand there. `arguments` is a list: the number of
/// positional arguments, their nodes, the number of keyword arguments, name
/// (string) and node of each, the node of `*x` or none, the node of `**x` or
/// none.
enum ingot_rt_tpl_kind {
  // Expressions.
  INGOT_RT_TPL_CONST_NONE,
  INGOT_RT_TPL_CONST_BOOL,   ///< a: 0 or 1
  INGOT_RT_TPL_CONST_INT,    ///< a, b: low and high half of an int64
  INGOT_RT_TPL_CONST_FLOAT,  ///< a, b: low and high half of a double's bits
  INGOT_RT_TPL_CONST_STRING, ///< a: string
  INGOT_RT_TPL_NAME,         ///< a: string, b: slot, c: functions outward
  INGOT_RT_TPL_TUPLE,        ///< a: list of nodes
  INGOT_RT_TPL_LIST,         ///< a: list of nodes
  INGOT_RT_TPL_DICT,         ///< a: list of nodes, key and value in turn
  INGOT_RT_TPL_CONDITIONAL,  ///< a: test, b: if true, c: if false or none
  INGOT_RT_TPL_AND,          ///< a, b: nodes
  INGOT_RT_TPL_OR,           ///< a, b: nodes
  INGOT_RT_TPL_NOT,          ///< a: node
  INGOT_RT_TPL_NEGATE,       ///< a: node
  INGOT_RT_TPL_POSITIVE,     ///< a: node
  INGOT_RT_TPL_BINARY,       ///< a, b: nodes, c: operator
  INGOT_RT_TPL_CONCAT,       ///< a: list of nodes
  INGOT_RT_TPL_COMPARE,      ///< a: node, b: list, comparison and node in turn
  INGOT_RT_TPL_GETATTR,      ///< a: node, b: string
  INGOT_RT_TPL_GETITEM,      ///< a: node, b: node
  INGOT_RT_TPL_SLICE,        ///< a: node, b: list of three nodes or none, c: 1 where TypeErrors give undefined
  INGOT_RT_TPL_CALL,         ///< a: node, b: arguments
  INGOT_RT_TPL_FILTER,       ///< a: node or none (the text of a block), b: arguments, c: filter
  INGOT_RT_TPL_TEST,         ///< a: node, b: arguments, c: test
  INGOT_RT_TPL_FAIL,         ///< a: string: the error when it is evaluated
  // Statements. A body is a list of nodes.
  INGOT_RT_TPL_TEXT,         ///< a: string
  INGOT_RT_TPL_OUTPUT,       ///< a: node
  INGOT_RT_TPL_IF,           ///< a: list, test and body in turn, b: body or none
  INGOT_RT_TPL_FOR,          ///< a: list of enum ingot_rt_tpl_for
  INGOT_RT_TPL_SET,          ///< a: target, b: node
  INGOT_RT_TPL_SET_BLOCK,    ///< a: target, b: filter node or none, c: body, d: loads
  INGOT_RT_TPL_MACRO,        ///< a: target, b: function
  INGOT_RT_TPL_CALL_BLOCK,   ///< a: function, b: call node, or none: the body itself is the result
  INGOT_RT_TPL_FILTER_BLOCK, ///< a: filter node, c: body, d: loads
  INGOT_RT_TPL_WITH,         ///< a: list, target and node in turn, c: body, d: loads
  INGOT_RT_TPL_BREAK,
  INGOT_RT_TPL_CONTINUE,
  // Targets of an assignment.
  INGOT_RT_TPL_TARGET_NAME,      ///< a: string, b: slot, c: 1 if other functions may look it up by name
  INGOT_RT_TPL_TARGET_TUPLE,     ///< a: list of targets
  INGOT_RT_TPL_TARGET_NAMESPACE, ///< a: string, b: slot, c: functions outward, d: string: attribute
  INGOT_RT_TPL_KIND_COUNT,
};

/// The elements of a loop's list.
enum ingot_rt_tpl_for {
  INGOT_RT_TPL_FOR_TARGET,
  INGOT_RT_TPL_FOR_ITERABLE,
  INGOT_RT_TPL_FOR_TEST,        ///< function or none; its body is one expression
  INGOT_RT_TPL_FOR_TEST_TARGET, ///< target in that function, or none
  INGOT_RT_TPL_FOR_LOOP_SLOT,   ///< slot of `loop`, or none
  INGOT_RT_TPL_FOR_LOADS,       ///< loads of the body's scope
  INGOT_RT_TPL_FOR_BODY,
  INGOT_RT_TPL_FOR_ELSE_LOADS, ///< or none
  INGOT_RT_TPL_FOR_ELSE,       ///< body or none
  INGOT_RT_TPL_FOR_COUNT,
};

/// Loads are lists of four numbers each: one of these, the slot that is set,
/// and two more. When the scope is left, its slots become missing.
enum ingot_rt_tpl_load {
  INGOT_RT_TPL_LOAD_NOTHING, ///< a parameter: set already
  INGOT_RT_TPL_LOAD_MISSING,
  INGOT_RT_TPL_LOAD_RESOLVE, ///< string: from what templates and callers have set, then globals
  INGOT_RT_TPL_LOAD_ALIAS,   ///< slot, functions outward
  INGOT_RT_TPL_LOAD_COUNT,
};

struct ingot_rt_tpl_array {
  uint64_t offset, count; ///< offset from the section's start
};

struct ingot_rt_tpl_node {
  uint16_t kind, column; ///< column: 65535 and beyond are 65535
  uint32_t line;
  uint32_t a, b, c, d;
};

struct ingot_rt_tpl_string {
  uint64_t offset, length; ///< in bytes; UTF-8
};

struct ingot_rt_tpl_function {
  uint32_t name; ///< string or none
  uint32_t slots;
  uint32_t loads, body;
  uint32_t parameters; ///< list: name (string), slot and default's node or none of each
  uint32_t caller_slot, keywords_slot, positionals_slot; ///< or none
  uint32_t explicit_caller;                              ///< 1 if `caller` is among the parameters
};

struct ingot_rt_tpl_template {
  uint32_t name; ///< string: "default", "tool_use", ...
  uint32_t function;
  uint32_t variables; ///< list of strings: what it looks up and does not set
  uint32_t where;     ///< string: the file (and key) it came from
};

struct ingot_rt_tpl_header {
  uint64_t magic; ///< INGOT_RT_TPL_MAGIC
  uint64_t size;  ///< of the section
  /// ingot_rt_tpl_node, uint32_t, ingot_rt_tpl_string, ingot_rt_tpl_function, ingot_rt_tpl_template
  struct ingot_rt_tpl_array nodes, lists, strings, functions, templates;
  struct ingot_rt_tpl_array specials; ///< pairs of uint32_t: name and text of bos_token, ...
};

#endif // INGOT_RT_IMAGE_TEMPLATE_H
