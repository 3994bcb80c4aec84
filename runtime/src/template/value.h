// The values of a template: Python's, as far as Jinja's sandbox lets templates
// see them. Lists, tuples and dictionaries never change once made (the sandbox
// forbids it); only namespaces and variables do.
#ifndef INGOT_RUNTIME_TEMPLATE_VALUE_H
#define INGOT_RUNTIME_TEMPLATE_VALUE_H

#include "template/text.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ingot::rt::tpl {

class Interpreter;

enum class Type : uint8_t {
  Missing,   ///< a variable that was never set; no value of a template
  Undefined, ///< Undefined
  None,
  Bool,
  Int,
  BigInt, ///< an integer of the input beyond 64 bits: it can be printed and compared, and nothing else
  Float,
  String,
  List,
  Tuple,
  Dict,
  View,      ///< dict.items(), keys(), values()
  Range,     ///< range()
  Namespace, ///< namespace()
  Loop,      ///< the special variable of a loop
  Macro,     ///< a macro, or the caller of a call block
  Function,  ///< one of ingot_rt_tpl_global
  Method,    ///< a method of a string, list, dictionary, ... with its object
  Generator, ///< what filters like map give: it can be iterated once
};

/// What values share. Containers know how deep they are nested, so that nothing
/// that walks through them can exhaust the stack.
struct Object {
  virtual ~Object() = default;
  uint32_t depth = 1;
};

class Value {
public:
  Value() = default;
  static Value none() { return Value(Type::None); }
  static Value boolean(bool value);
  /// `trusted`: not computed from what messages contain.
  static Value integer(int64_t value, bool trusted = true);
  static Value real(double value, bool trusted = true);
  static Value string(Text text);
  static Value string(std::string_view text, bool trusted = true) { return string(Text(std::string(text), trusted)); }
  static Value object(Type type, std::shared_ptr<Object> object);

  Type type() const { return kind; }
  bool is(Type type) const { return kind == type; }
  bool isMissing() const { return kind == Type::Missing; }
  bool isUndefined() const { return kind == Type::Undefined; }
  bool isNone() const { return kind == Type::None; }
  bool isString() const { return kind == Type::String; }
  bool isNumber() const { return kind == Type::Bool || kind == Type::Int || kind == Type::Float; }
  bool isInteger() const { return kind == Type::Bool || kind == Type::Int; } ///< as isinstance(x, int) has it
  bool isTrusted() const { return trusted; }

  bool boolean() const { return number.boolean; }
  /// Of a Bool or Int.
  int64_t integer() const { return kind == Type::Bool ? number.boolean : number.integer; }
  /// Of any number.
  double real() const { return kind == Type::Float ? number.real : static_cast<double>(integer()); }
  const Text &text() const;
  template <typename T>
  T &as() const {
    return static_cast<T &>(*held);
  }
  const Object *identity() const { return held.get(); }
  uint32_t depth() const { return held ? held->depth : 0; }

private:
  explicit Value(Type type) : kind(type) {}

  Type kind = Type::Missing;
  bool trusted = true;
  union {
    bool boolean;
    int64_t integer;
    double real;
  } number = {.integer = 0};
  std::shared_ptr<Object> held;
};

using Values = std::vector<Value>;

struct StringObject : Object {
  Text text;
};
struct UndefinedObject : Object {
  std::string message; ///< of the error that any use is
};
struct BigIntObject : Object {
  std::string digits;
};
struct ListObject : Object { // lists and tuples
  Values items;
  bool isGroup = false; ///< a tuple of the filter groupby: .grouper and .list
};

/// Entries in the order of their insertion.
struct DictObject : Object {
  std::vector<std::pair<Value, Value>> entries;

  const Value *find(std::string_view key) const;
  const Value *find(const Value &key) const;
  /// A key that is there keeps its place and gets the new value.
  void set(const Value &key, Value value);

private:
  std::unordered_map<std::string, size_t> byText;
};

struct ViewObject : Object {
  enum class Kind { Items, Keys, Values } kind = Kind::Items;
  Value dict;
};
struct RangeObject : Object {
  int64_t start = 0, stop = 0, step = 1, length = 0;
};
struct NamespaceObject : Object {
  DictObject attributes;
};

/// Gives values one after the other.
struct Iterator {
  virtual ~Iterator() = default;
  /// False at the end, or after a failure.
  virtual bool next(Interpreter &interpreter, Value &value) = 0;
};
struct GeneratorObject : Object {
  std::shared_ptr<Iterator> iterator;
};

struct LoopObject : Object {
  std::shared_ptr<Iterator> iterator;
  int64_t knownLength = -1;
  int64_t index0 = -1;
  Value after, before, current; ///< Missing: not there
  bool ended = false;
  Value lastChanged;
};

/// The slots of one run of a function. Owned by the interpreter, since a macro
/// may outlive the run that defined it.
struct FunctionFrame {
  Values slots;
  FunctionFrame *outer = nullptr;
  bool captured = false; ///< a macro or an iterator may look into it later
};
struct MacroObject : Object {
  uint32_t function = 0;
  FunctionFrame *outer = nullptr;
};
struct FunctionObject : Object {
  uint32_t which = 0; ///< ingot_rt_tpl_global
};
struct MethodObject : Object {
  Value self;
  int method = 0; ///< enum class Method
};

// Python's names for types: "str", "NoneType".
std::string_view typeName(const Value &value);
/// bool(value), which never fails.
bool isTrue(const Value &value);
bool areEqual(const Value &a, const Value &b);
/// What makes hash(value) a TypeError: the value itself or one in its tuples; null where nothing does.
const Value *findUnhashable(const Value &value);
/// len(value), or -1 where there is none.
int64_t lengthOf(const Value &value);

Value makeList(Values items, Type type = Type::List);
Value makeUndefined(std::string message);
Value makeDict(std::vector<std::pair<Value, Value>> entries);

} // namespace ingot::rt::tpl
#endif // INGOT_RUNTIME_TEMPLATE_VALUE_H
