// Runs the program of a chat template.
//
// A walk over the nodes. A step that fails keeps the error in the Context and
// returns Missing; whoever called it looks at `failed` before it goes on with
// something that costs.
#ifndef INGOT_RUNTIME_TEMPLATE_INTERPRETER_H
#define INGOT_RUNTIME_TEMPLATE_INTERPRETER_H

#include "template/context.h"
#include "template/program.h"

#include <deque>
#include <map>
#include <span>

namespace ingot::rt::tpl {

/// The arguments of a call.
struct Arguments {
  Values positional;
  std::vector<std::pair<std::string, Value>> keywords;
};

/// The current time, for strftime_now.
struct Clock {
  int64_t seconds = 0; ///< since 1970, UTC
  uint32_t microseconds = 0;
};

class Interpreter : public Context {
public:
  /// `input`: a Dict of the caller's variables.
  Interpreter(const Program &program, Value input, Clock clock);
  ~Interpreter();

  /// The text of a template; meaningless after a failure.
  Text render(const ingot_rt_tpl_template &which);

  /// The error came from raise_exception.
  bool raised = false;
  /// Where it happened; 0 where that is not known.
  uint32_t failedLine = 0, failedColumn = 0;

  // Used by filters, tests, methods and iterators.
  Value call(const Value &callee, Arguments &arguments);
  Value filter(uint32_t which, const Value &value, Arguments &arguments);
  bool test(uint32_t which, const Value &value, Arguments &arguments);
  Value attribute(const Value &object, std::string_view name);
  Value item(const Value &object, const Value &key);
  Value slice(const Value &object, const Value &start, const Value &stop, const Value &step);
  Value callMethod(const MethodObject &method, Arguments &arguments);
  bool contains(const Value &container, const Value &value);
  /// iter(value); null after a failure.
  std::shared_ptr<Iterator> iterate(const Value &value);
  /// list(value)
  bool collect(const Value &value, Values &items);
  Value assign(uint32_t target, const Value &value, FunctionFrame &frame);
  Value evaluateIn(FunctionFrame &frame, uint32_t node);
  void enter(uint32_t loads, FunctionFrame &frame);
  const Program &code() const { return program; }

  /// Assigns arguments to parameters: the first `required` must be there, the
  /// others are Missing where they are not given.
  bool bind(const char *function, const Arguments &arguments, std::initializer_list<const char *> names,
            size_t required, Value *values);
  /// An integer argument, or `absent` where it is Missing.
  bool integerArgument(const Value &value, int64_t absent, int64_t &result);

private:
  enum class Flow { Next, Break, Continue };

  Value evaluate(uint32_t node);
  Value evaluateNode(const ingot_rt_tpl_node &node);
  Value evaluateConstant(const ingot_rt_tpl_node &node);
  Value evaluateName(const ingot_rt_tpl_node &node);
  Value evaluateItems(uint32_t list, Type type);
  Value evaluateDict(uint32_t list);
  Value evaluateConditional(const ingot_rt_tpl_node &node);
  Value evaluateConcat(const ingot_rt_tpl_node &node);
  Value evaluateCompare(const ingot_rt_tpl_node &node);
  Value evaluateSlice(const ingot_rt_tpl_node &node);
  Value evaluateCall(const ingot_rt_tpl_node &node, const Value *caller);
  Value evaluateFilter(const ingot_rt_tpl_node &node, const Text *block);
  bool evaluateArguments(uint32_t list, Arguments &arguments);

  Flow execute(uint32_t body);
  Flow executeNode(const ingot_rt_tpl_node &node);
  Flow executeIf(const ingot_rt_tpl_node &node);
  Flow executeFor(const ingot_rt_tpl_node &node);
  Flow executeWith(const ingot_rt_tpl_node &node);
  Flow executeSetBlock(const ingot_rt_tpl_node &node);
  Flow executeFilterBlock(const ingot_rt_tpl_node &node);
  void executeCallBlock(const ingot_rt_tpl_node &node);
  void output(const Value &value);

  Value resolve(std::string_view name);
  void leave(uint32_t loads, FunctionFrame &frame);
  FunctionFrame *outward(FunctionFrame *frame, uint32_t hops);
  Value &slot(FunctionFrame &frame, uint32_t index);
  Value makeMacro(uint32_t function);
  Value callMacro(const MacroObject &macro, Arguments &arguments);
  Text runMacro(const MacroObject &macro, Values values, const Value &caller, const Value &keywords,
                const Value &positionals);

  Value callGlobal(uint32_t which, Arguments &arguments);
  Value makeNamespace(Arguments &arguments);
  Value callDict(Arguments &arguments, const char *function, DictObject &into);
  Value makeRange(Arguments &arguments);
  Value formatTime(Arguments &arguments);

  /// The attribute as Python's getattr finds it; Missing where it does not.
  Value pythonAttribute(const Value &object, std::string_view name);
  Value loopAttribute(const Value &loop, std::string_view name);
  Value undefinedAttribute(const Value &object, const Value &name);

  const Program &program;
  Value input;
  Clock clock;
  TextBuilder *out = nullptr;
  FunctionFrame *frame = nullptr;
  std::map<std::string, Value, std::less<>> exported; ///< set at the top level
  std::vector<Value> constants;                       ///< strings by number, made once
  std::deque<std::unique_ptr<FunctionFrame>> frames;
  std::vector<std::shared_ptr<NamespaceObject>> namespaces;
  uint32_t nesting = 0, macroDepth = 0;
  friend struct Nested;
};

/// Takes a loop one step on; false at its end.
bool advanceLoop(Interpreter &interpreter, LoopObject &loop);
Value makeGenerator(Interpreter &interpreter, std::shared_ptr<Iterator> iterator, uint32_t depth);
/// A generator made of a function.
Value makeGenerator(Interpreter &interpreter, uint32_t depth, std::function<bool(Interpreter &, Value &)> next);

} // namespace ingot::rt::tpl
#endif // INGOT_RUNTIME_TEMPLATE_INTERPRETER_H
