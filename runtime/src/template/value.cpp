// What values have in common: truth, equality, length, names of types.
#include "template/value.h"

#include <algorithm>

namespace ingot::rt::tpl {

Value Value::boolean(bool value) {
  Value result(Type::Bool);
  result.number.boolean = value;
  return result;
}

Value Value::integer(int64_t value, bool trusted) {
  Value result(Type::Int);
  result.number.integer = value;
  result.trusted = trusted;
  return result;
}

Value Value::real(double value, bool trusted) {
  Value result(Type::Float);
  result.number.real = value;
  result.trusted = trusted;
  return result;
}

Value Value::string(Text text) {
  auto object = std::make_shared<StringObject>();
  object->text = std::move(text);
  return Value::object(Type::String, std::move(object));
}

Value Value::object(Type type, std::shared_ptr<Object> object) {
  Value result(type);
  result.held = std::move(object);
  return result;
}

const Text &Value::text() const { return as<StringObject>().text; }

static uint32_t deepest(uint32_t depth, const Value &value) { return std::max(depth, value.depth() + 1); }

Value makeList(Values items, Type type) {
  auto object = std::make_shared<ListObject>();
  for (const Value &item : items)
    object->depth = deepest(object->depth, item);
  object->items = std::move(items);
  return Value::object(type, std::move(object));
}

Value makeUndefined(std::string message) {
  auto object = std::make_shared<UndefinedObject>();
  object->message = std::move(message);
  return Value::object(Type::Undefined, std::move(object));
}

Value makeDict(std::vector<std::pair<Value, Value>> entries) {
  auto object = std::make_shared<DictObject>();
  for (auto &[key, value] : entries)
    object->set(key, std::move(value));
  return Value::object(Type::Dict, std::move(object));
}

const Value *DictObject::find(std::string_view key) const {
  auto found = byText.find(std::string(key));
  return found == byText.end() ? nullptr : &entries[found->second].second;
}

const Value *DictObject::find(const Value &key) const {
  if (key.isString())
    return find(key.text().bytes());
  for (const auto &[name, value] : entries)
    if (areEqual(name, key))
      return &value;
  return nullptr;
}

void DictObject::set(const Value &key, Value value) {
  depth = deepest(deepest(depth, key), value);
  if (const Value *there = find(key)) {
    *const_cast<Value *>(there) = std::move(value);
    return;
  }
  if (key.isString())
    byText.emplace(std::string(key.text().bytes()), entries.size());
  entries.emplace_back(key, std::move(value));
}

std::string_view typeName(const Value &value) {
  switch (value.type()) {
  case Type::Missing:
  case Type::Undefined:
    return "Undefined";
  case Type::None:
    return "NoneType";
  case Type::Bool:
    return "bool";
  case Type::Int:
  case Type::BigInt:
    return "int";
  case Type::Float:
    return "float";
  case Type::String:
    return value.text().isMarkup() ? "Markup" : "str";
  case Type::List:
    return "list";
  case Type::Tuple:
    return "tuple";
  case Type::Dict:
    return "dict";
  case Type::View: {
    auto kind = value.as<ViewObject>().kind;
    return kind == ViewObject::Kind::Items  ? "dict_items"
           : kind == ViewObject::Kind::Keys ? "dict_keys"
                                            : "dict_values";
  }
  case Type::Range:
    return "range";
  case Type::Namespace:
    return "Namespace";
  case Type::Loop:
    return "LoopContext";
  case Type::Macro:
    return "Macro";
  case Type::Function:
    return "function";
  case Type::Method:
    return "builtin_function_or_method";
  case Type::Generator:
    return "generator";
  }
  return "";
}

const Value *findUnhashable(const Value &value) {
  if (value.is(Type::List) || value.is(Type::Dict))
    return &value;
  if (value.is(Type::View)) // that of the values compares by identity
    return value.as<ViewObject>().kind == ViewObject::Kind::Values ? nullptr : &value;
  if (value.is(Type::Tuple))
    for (const Value &item : value.as<ListObject>().items)
      if (const Value *found = findUnhashable(item))
        return found;
  return nullptr;
}

int64_t lengthOf(const Value &value) {
  switch (value.type()) {
  case Type::Missing:
  case Type::Undefined:
    return 0;
  case Type::String:
    return static_cast<int64_t>(value.text().length());
  case Type::List:
  case Type::Tuple:
    return static_cast<int64_t>(value.as<ListObject>().items.size());
  case Type::Dict:
    return static_cast<int64_t>(value.as<DictObject>().entries.size());
  case Type::View:
    return lengthOf(value.as<ViewObject>().dict);
  case Type::Range:
    return value.as<RangeObject>().length;
  default:
    return -1;
  }
}

bool isTrue(const Value &value) {
  switch (value.type()) {
  case Type::Missing:
  case Type::Undefined:
  case Type::None:
    return false;
  case Type::Bool:
  case Type::Int:
    return value.integer() != 0;
  case Type::Float:
    return value.real() != 0;
  case Type::String:
    return value.text().size() != 0;
  case Type::List:
  case Type::Tuple:
  case Type::Dict:
  case Type::View:
  case Type::Range:
    return lengthOf(value) != 0;
  default:
    return true;
  }
}

static bool areEqualItems(const Values &a, const Values &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), areEqual);
}

bool areEqual(const Value &a, const Value &b) {
  if (a.isNumber() && b.isNumber()) {
    if (a.isInteger() && b.isInteger())
      return a.integer() == b.integer();
    auto wide = [](const Value &value) { // holds every int64 and every double exactly
      return value.is(Type::Float) ? static_cast<long double>(value.real()) : static_cast<long double>(value.integer());
    };
    return wide(a) == wide(b);
  }
  if (a.type() != b.type())
    return false;
  switch (a.type()) {
  case Type::Undefined:
  case Type::None:
    return true;
  case Type::BigInt:
    return a.as<BigIntObject>().digits == b.as<BigIntObject>().digits;
  case Type::String:
    return a.text().bytes() == b.text().bytes();
  case Type::List:
  case Type::Tuple:
    return a.identity() == b.identity() || areEqualItems(a.as<ListObject>().items, b.as<ListObject>().items);
  case Type::Dict: {
    if (a.identity() == b.identity())
      return true;
    auto &left = a.as<DictObject>(), &right = b.as<DictObject>();
    return left.entries.size() == right.entries.size() &&
           std::all_of(left.entries.begin(), left.entries.end(), [&](const auto &entry) {
             const Value *other = right.find(entry.first);
             return other && areEqual(entry.second, *other);
           });
  }
  case Type::Range: {
    auto &left = a.as<RangeObject>(), &right = b.as<RangeObject>();
    return left.length == right.length &&
           (left.length == 0 || (left.start == right.start && (left.length == 1 || left.step == right.step)));
  }
  case Type::View: {
    auto &left = a.as<ViewObject>(), &right = b.as<ViewObject>();
    return a.identity() == b.identity() ||
           (left.kind == right.kind && left.kind != ViewObject::Kind::Values && areEqual(left.dict, right.dict));
  }
  case Type::Function:
    return a.as<FunctionObject>().which == b.as<FunctionObject>().which;
  default:
    return a.identity() == b.identity();
  }
}

} // namespace ingot::rt::tpl
