// Attributes, items, iteration and membership: Python's protocols as Jinja's
// sandbox opens them.
#include "template/methods.h"

#include "template/format.h"

#include <algorithm>
#include <cinttypes>

namespace ingot::rt::tpl {

static std::string nameOf(const Value &value) { return std::string(typeName(value)); }

static bool isOneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// What Python finds on an Undefined before Jinja's own refusal of every attribute; the sandbox opens none of it.
static constexpr std::initializer_list<std::string_view> undefinedNames = {"__add__",
                                                                           "__aiter__",
                                                                           "__bool__",
                                                                           "__call__",
                                                                           "__class__",
                                                                           "__complex__",
                                                                           "__delattr__",
                                                                           "__dir__",
                                                                           "__div__",
                                                                           "__doc__",
                                                                           "__eq__",
                                                                           "__float__",
                                                                           "__floordiv__",
                                                                           "__format__",
                                                                           "__ge__",
                                                                           "__getattr__",
                                                                           "__getitem__",
                                                                           "__getattribute__",
                                                                           "__getstate__",
                                                                           "__gt__",
                                                                           "__hash__",
                                                                           "__init__",
                                                                           "__init_subclass__",
                                                                           "__int__",
                                                                           "__iter__",
                                                                           "__le__",
                                                                           "__len__",
                                                                           "__lt__",
                                                                           "__mod__",
                                                                           "__module__",
                                                                           "__mul__",
                                                                           "__ne__",
                                                                           "__neg__",
                                                                           "__new__",
                                                                           "__pos__",
                                                                           "__pow__",
                                                                           "__radd__",
                                                                           "__rdiv__",
                                                                           "__reduce__",
                                                                           "__reduce_ex__",
                                                                           "__repr__",
                                                                           "__rfloordiv__",
                                                                           "__rmod__",
                                                                           "__rmul__",
                                                                           "__rpow__",
                                                                           "__rsub__",
                                                                           "__rtruediv__",
                                                                           "__setattr__",
                                                                           "__sizeof__",
                                                                           "__slots__",
                                                                           "__str__",
                                                                           "__sub__",
                                                                           "__subclasshook__",
                                                                           "__truediv__",
                                                                           "_fail_with_undefined_error",
                                                                           "_undefined_exception",
                                                                           "_undefined_hint",
                                                                           "_undefined_message",
                                                                           "_undefined_name",
                                                                           "_undefined_obj"};

static Value unsafeAttribute(const Value &object, std::string_view name) {
  return makeUndefined("access to attribute '" + std::string(name) + "' of '" + nameOf(object) + "' object is unsafe.");
}

Value Interpreter::undefinedAttribute(const Value &object, const Value &name) {
  std::string type = object.isNone() ? "None" : nameOf(object) + " object";
  if (name.isString())
    return makeUndefined("'" + type + "' has no attribute '" + std::string(name.text().bytes()) + "'");
  TextBuilder key;
  appendRepr(*this, name, key);
  return makeUndefined(type + " has no element " + std::string(key.take().bytes()));
}

Value Interpreter::loopAttribute(const Value &value, std::string_view name) {
  auto &loop = value.as<LoopObject>();
  auto length = [&] {
    if (loop.knownLength < 0 && loop.iterator) {
      // What is left is taken out to be counted, and put back.
      Values rest;
      for (Value one; step() && loop.iterator->next(*this, one);)
        rest.push_back(one);
      loop.knownLength = static_cast<int64_t>(rest.size()) + loop.index0 + 1 + !loop.after.isMissing();
      loop.iterator = failed ? nullptr : iterate(makeList(std::move(rest)));
    }
    return loop.knownLength;
  };
  auto peek = [&]() -> const Value & {
    if (loop.after.isMissing() && !loop.ended && loop.iterator && !loop.iterator->next(*this, loop.after)) {
      loop.after = {};
      loop.ended = true;
    }
    return loop.after;
  };
  if (name == "index0")
    return Value::integer(loop.index0);
  if (name == "index")
    return Value::integer(loop.index0 + 1);
  if (name == "length")
    return Value::integer(length());
  if (name == "revindex0")
    return Value::integer(length() - loop.index0 - 1);
  if (name == "revindex")
    return Value::integer(length() - loop.index0);
  if (name == "first")
    return Value::boolean(loop.index0 == 0);
  if (name == "last")
    return Value::boolean(peek().isMissing());
  if (name == "depth0")
    return Value::integer(0);
  if (name == "depth")
    return Value::integer(1);
  if (name == "previtem")
    return loop.index0 == 0 ? makeUndefined("there is no previous item") : loop.before;
  if (name == "nextitem")
    return peek().isMissing() ? makeUndefined("there is no next item") : loop.after;
  return {};
}

bool advanceLoop(Interpreter &interpreter, LoopObject &loop) {
  Value value;
  if (!loop.after.isMissing()) {
    value = std::move(loop.after);
    loop.after = {};
  } else if (loop.ended || !loop.iterator || !loop.iterator->next(interpreter, value)) {
    return false;
  }
  if (interpreter.failed)
    return false;
  ++loop.index0;
  loop.before = std::move(loop.current);
  loop.current = std::move(value);
  return true;
}

Value Interpreter::pythonAttribute(const Value &object, std::string_view name) {
  switch (object.type()) {
  case Type::Namespace: {
    const Value *found = object.as<NamespaceObject>().attributes.find(name);
    return found ? *found : Value();
  }
  case Type::Loop:
    if (Value value = loopAttribute(object, name); failed || !value.isMissing())
      return value;
    break;
  case Type::Tuple:
    if (object.as<ListObject>().isGroup && (name == "grouper" || name == "list"))
      return object.as<ListObject>().items[name == "list"];
    break;
  case Type::Range: {
    const auto &range = object.as<RangeObject>();
    if (name == "start" || name == "stop" || name == "step")
      return Value::integer(name == "start" ? range.start : name == "stop" ? range.stop : range.step);
    break;
  }
  case Type::Macro: {
    const ingot_rt_tpl_function &function = program.function(object.as<MacroObject>().function);
    if (name == "name")
      return function.name == none ? Value::none() : Value::string(program.string(function.name));
    break;
  }
  default:
    break;
  }
  if (name.starts_with("__") && name.ends_with("__"))
    return unsafeAttribute(object, name);
  return findMethod(*this, object, name);
}

/// The attribute first, then the item of that name.
Value Interpreter::attribute(const Value &object, std::string_view name) {
  if (object.isUndefined()) {
    if (isOneOf(name, undefinedNames))
      return unsafeAttribute(object, name);
    return failUndefined(object);
  }
  Value found = pythonAttribute(object, name);
  if (failed || !found.isMissing())
    return found;
  if (object.is(Type::Dict))
    if (const Value *value = object.as<DictObject>().find(name))
      return *value;
  return undefinedAttribute(object, Value::string(name));
}

/// The item first, then the attribute of that name.
Value Interpreter::item(const Value &object, const Value &key) {
  if (object.isUndefined())
    return failUndefined(object);
  if (object.is(Type::Dict)) {
    if (const Value *value = !findUnhashable(key) ? object.as<DictObject>().find(key) : nullptr)
      return *value;
  } else if (key.isInteger()) {
    int64_t length = lengthOf(object), index = key.integer();
    if (index < 0)
      index += length;
    bool sequence = object.isString() || object.is(Type::List) || object.is(Type::Tuple) || object.is(Type::Range);
    if (sequence && index >= 0 && index < length) {
      auto at = static_cast<size_t>(index);
      if (object.is(Type::Range))
        return Value::integer(object.as<RangeObject>().start + index * object.as<RangeObject>().step);
      if (!object.isString())
        return object.as<ListObject>().items[at];
      const Text &string = object.text();
      if (!string.isAscii() && !step(string.size() / 16))
        return {};
      size_t begin = string.offsetOf(at);
      return text(string.slice(begin, begin + characterLength(string.bytes()[begin])));
    }
  }
  if (key.isString()) {
    Value found = pythonAttribute(object, key.text().bytes());
    if (failed || !found.isMissing())
      return found;
  }
  return undefinedAttribute(object, key);
}

/// As PySlice_AdjustIndices: where a slice starts, and how many items it has.
static int64_t adjustSlice(int64_t length, int64_t &start, int64_t stop, int64_t step) {
  auto adjust = [&](int64_t &bound) {
    if (bound < 0) {
      bound += length;
      if (bound < 0)
        bound = step < 0 ? -1 : 0;
    } else if (bound >= length) {
      bound = step < 0 ? length - 1 : length;
    }
  };
  adjust(start);
  adjust(stop);
  if (step < 0)
    return stop < start ? (start - stop - 1) / -step + 1 : 0;
  return start < stop ? (stop - start - 1) / step + 1 : 0;
}

Value Interpreter::slice(const Value &object, const Value &start, const Value &stop, const Value &step) {
  if (object.isUndefined())
    return failUndefined(object);
  if (!object.isString() && !object.is(Type::List) && !object.is(Type::Tuple))
    return fail(object.is(Type::Range)  ? "slices of '%s' objects are not supported"
                : object.is(Type::Dict) ? "unhashable type: 'slice' (of a '%s')"
                                        : "'%s' object is not subscriptable",
                nameOf(object).c_str());
  int64_t bounds[3], length = lengthOf(object);
  const Value *parts[] = {&start, &stop, &step};
  for (int i = 2; i >= 0; --i) {
    bool backward = i < 2 && bounds[2] < 0;
    int64_t absent = i == 2 ? 1 : (i == 0) == backward ? INT64_MAX : INT64_MIN;
    if (i == 0 && !backward)
      absent = 0;
    if (!parts[i]->isNone() && !parts[i]->isInteger())
      return fail("slice indices must be integers or None or have an __index__ method");
    bounds[i] = parts[i]->isNone() ? absent : parts[i]->integer();
    if (i == 2 && bounds[2] == 0)
      return fail("slice step cannot be zero");
    if (i == 2)
      bounds[2] = std::max(bounds[2], -INT64_MAX);
    // Far out is as good as the end, and cannot wrap.
    if (i < 2)
      bounds[i] = std::clamp(bounds[i], -length - 1, length + 1);
  }
  int64_t from = bounds[0], count = adjustSlice(length, from, bounds[1], bounds[2]);
  if (!this->step(static_cast<uint64_t>(count) / 8))
    return {};
  if (!object.isString()) {
    Values items;
    const Values &all = object.as<ListObject>().items;
    for (int64_t i = 0; i < count; ++i)
      items.push_back(all[static_cast<size_t>(from + i * bounds[2])]);
    return contained(makeList(std::move(items), object.type()));
  }
  const Text &string = object.text();
  if (count == 0)
    return text(string.slice(0, 0));
  if (bounds[2] == 1) {
    size_t begin = string.offsetOf(static_cast<size_t>(from));
    return text(string.slice(begin, string.offsetOf(static_cast<size_t>(from + count))));
  }
  std::vector<size_t> offsets;
  std::string_view bytes = string.bytes();
  for (size_t at = 0; at < bytes.size(); at += characterLength(bytes[at]))
    offsets.push_back(at);
  TextBuilder builder;
  for (int64_t i = 0; i < count; ++i) {
    size_t at = offsets[static_cast<size_t>(from + i * bounds[2])];
    builder.append(string, at, at + characterLength(bytes[at]));
  }
  return text(builder, string.isMarkup());
}

bool Interpreter::contains(const Value &container, const Value &value) {
  switch (container.type()) {
  case Type::String:
    if (value.isString())
      return container.text().bytes().find(value.text().bytes()) != std::string_view::npos;
    fail("'in <string>' requires string as left operand, not %s", nameOf(value).c_str());
    return false;
  case Type::Dict:
    return hashable(value) && container.as<DictObject>().find(value) != nullptr;
  case Type::View: // keys, and items by their keys, are looked up
    if (container.as<ViewObject>().kind == ViewObject::Kind::Keys && !hashable(value))
      return false;
    if (container.as<ViewObject>().kind == ViewObject::Kind::Items && value.is(Type::Tuple) && lengthOf(value) == 2 &&
        !hashable(value.as<ListObject>().items[0]))
      return false;
    break;
  default:
    break;
  }
  std::shared_ptr<Iterator> iterator = iterate(container);
  if (!iterator) {
    message = "argument of type '" + nameOf(container) + "' is not iterable";
    return false;
  }
  for (Value one; step() && iterator->next(*this, one);)
    if (areEqual(one, value))
      return true;
  return false;
}

// ---------------------------------------------------------------------------
// Iteration
// ---------------------------------------------------------------------------

namespace {

struct NoItems : Iterator {
  bool next(Interpreter &, Value &) override { return false; }
};

struct ListIterator : Iterator {
  Value list;
  size_t at = 0;
  bool next(Interpreter &, Value &value) override {
    const Values &items = list.as<ListObject>().items;
    if (at >= items.size())
      return false;
    value = items[at++];
    return true;
  }
};

struct DictIterator : Iterator {
  Value dict;
  ViewObject::Kind kind = ViewObject::Kind::Keys;
  size_t at = 0;
  bool next(Interpreter &interpreter, Value &value) override {
    const auto &entries = dict.as<DictObject>().entries;
    if (at >= entries.size())
      return false;
    const auto &[key, one] = entries[at++];
    value = kind == ViewObject::Kind::Keys     ? key
            : kind == ViewObject::Kind::Values ? one
                                               : interpreter.contained(makeList({key, one}, Type::Tuple));
    return !interpreter.failed;
  }
};

struct StringIterator : Iterator {
  Text string;
  size_t at = 0;
  bool next(Interpreter &interpreter, Value &value) override {
    if (at >= string.size())
      return false;
    size_t length = characterLength(string.bytes()[at]);
    // Python's own iterator over a string gives plain ones.
    value = interpreter.text(string.slice(at, at + length).withMarkup(false));
    at += length;
    return !interpreter.failed;
  }
};

struct RangeIterator : Iterator {
  int64_t at = 0, step = 1, left = 0;
  bool next(Interpreter &, Value &value) override {
    if (left == 0)
      return false;
    --left;
    value = Value::integer(at);
    at += step;
    return true;
  }
};

struct FunctionIterator : Iterator {
  std::function<bool(Interpreter &, Value &)> function;
  bool next(Interpreter &interpreter, Value &value) override { return function(interpreter, value); }
};

} // namespace

std::shared_ptr<Iterator> Interpreter::iterate(const Value &value) {
  switch (value.type()) {
  case Type::Undefined:
    return std::make_shared<NoItems>();
  case Type::String: {
    auto iterator = std::make_shared<StringIterator>();
    iterator->string = value.text();
    return iterator;
  }
  case Type::List:
  case Type::Tuple: {
    auto iterator = std::make_shared<ListIterator>();
    iterator->list = value;
    return iterator;
  }
  case Type::Dict:
  case Type::View: {
    auto iterator = std::make_shared<DictIterator>();
    iterator->dict = value.is(Type::Dict) ? value : value.as<ViewObject>().dict;
    if (value.is(Type::View))
      iterator->kind = value.as<ViewObject>().kind;
    return iterator;
  }
  case Type::Range: {
    const auto &range = value.as<RangeObject>();
    auto iterator = std::make_shared<RangeIterator>();
    iterator->at = range.start;
    iterator->step = range.step;
    iterator->left = range.length;
    return iterator;
  }
  case Type::Generator:
    return value.as<GeneratorObject>().iterator;
  default:
    fail("'%s' object is not iterable", nameOf(value).c_str());
    return nullptr;
  }
}

bool Interpreter::collect(const Value &value, Values &items) {
  std::shared_ptr<Iterator> iterator = iterate(value);
  if (!iterator)
    return false;
  for (Value one; step() && iterator->next(*this, one);) {
    items.push_back(std::move(one));
    if (items.size() > maxItems)
      fail("a list of more than %" PRIu64 " items", maxItems);
  }
  return !failed;
}

Value makeGenerator(Interpreter &interpreter, std::shared_ptr<Iterator> iterator, uint32_t depth) {
  auto object = std::make_shared<GeneratorObject>();
  object->iterator = std::move(iterator);
  object->depth = depth + 1;
  return interpreter.contained(Value::object(Type::Generator, std::move(object)));
}

Value makeGenerator(Interpreter &interpreter, uint32_t depth, std::function<bool(Interpreter &, Value &)> next) {
  auto iterator = std::make_shared<FunctionIterator>();
  iterator->function = std::move(next);
  return makeGenerator(interpreter, std::move(iterator), depth);
}

// ---------------------------------------------------------------------------
// Methods
// ---------------------------------------------------------------------------

Value findMethod(Interpreter &interpreter, const Value &self, std::string_view name) {
  struct Entry {
    Type type;
    std::string_view name;
  };
  static constexpr Entry entries[] = {
#define X(type, name) {Type::type, #name},
      INGOT_TPL_METHODS(X)
#undef X
  };
  for (size_t i = 0; i < std::size(entries); ++i)
    if (entries[i].type == self.type() && entries[i].name == name) {
      auto method = std::make_shared<MethodObject>();
      method->self = self;
      method->method = static_cast<int>(i);
      method->depth = self.depth() + 1;
      return Value::object(Type::Method, std::move(method));
    }
  bool changes = (self.is(Type::Dict) && isOneOf(name, {"clear", "pop", "popitem", "setdefault", "update"})) ||
                 (self.is(Type::List) &&
                  isOneOf(name, {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"}));
  if (changes)
    return makeUndefined("access to attribute '" + std::string(name) + "' of '" + nameOf(self) + "' object is unsafe.");
  bool unsupported =
      (self.isString() && isOneOf(name, {"casefold", "encode", "format_map", "maketrans", "translate"})) ||
      (self.is(Type::Dict) && name == "fromkeys") ||
      (self.isInteger() && isOneOf(name, {"as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator",
                                          "from_bytes", "imag", "numerator", "real", "to_bytes"})) ||
      (self.is(Type::Float) && isOneOf(name, {"as_integer_ratio", "conjugate", "fromhex", "hex", "imag", "real"})) ||
      (self.is(Type::View) && isOneOf(name, {"isdisjoint", "mapping"})) ||
      (self.is(Type::Range) && isOneOf(name, {"count", "index"})) ||
      (self.is(Type::Macro) && isOneOf(name, {"arguments", "caller", "catch_kwargs", "catch_varargs"})) ||
      (self.is(Type::Generator) && isOneOf(name, {"close", "send", "throw"}));
  if (unsupported)
    return interpreter.fail("the attribute '%s' of '%s' objects is not supported", std::string(name).c_str(),
                            nameOf(self).c_str());
  return {};
}

static Value makeView(const Value &dict, ViewObject::Kind kind) {
  auto view = std::make_shared<ViewObject>();
  view->kind = kind;
  view->dict = dict;
  view->depth = dict.depth() + 1;
  return Value::object(Type::View, std::move(view));
}

static Value callListMethod(Interpreter &interpreter, bool count, const Value &self, Arguments &arguments) {
  const Values &items = self.as<ListObject>().items;
  Value values[3];
  // Python takes these by position only.
  std::initializer_list<const char *> names = {"value", "start", "stop"}, one = {"value"};
  if (!arguments.keywords.empty())
    return interpreter.fail("%s() takes no keyword arguments", count ? "count" : "index");
  if (!interpreter.bind(count ? "count" : "index", arguments, count ? one : names, 1, values))
    return {};
  int64_t length = static_cast<int64_t>(items.size()), start, stop, found = 0;
  if (!interpreter.integerArgument(values[1], 0, start) || !interpreter.integerArgument(values[2], length, stop))
    return {};
  auto adjust = [&](int64_t bound) { return std::clamp(bound < 0 ? bound + length : bound, int64_t(0), length); };
  for (int64_t i = adjust(std::max(start, -length)); i < adjust(std::max(stop, -length)) && interpreter.step(); ++i)
    if (areEqual(items[static_cast<size_t>(i)], values[0])) {
      if (!count)
        return Value::integer(i);
      ++found;
    }
  if (count)
    return Value::integer(found);
  return interpreter.fail("the value is not in the %s", nameOf(self).c_str());
}

static Value callLoopMethod(Interpreter &interpreter, bool cycle, const Value &self, Arguments &arguments) {
  auto &loop = self.as<LoopObject>();
  if (!arguments.keywords.empty())
    return interpreter.fail("%s() takes no keyword arguments", cycle ? "cycle" : "changed");
  if (cycle) {
    if (arguments.positional.empty())
      return interpreter.fail("no items for cycling given");
    return arguments.positional[static_cast<size_t>(loop.index0) % arguments.positional.size()];
  }
  Value now = interpreter.contained(makeList(arguments.positional, Type::Tuple));
  if (interpreter.failed || (!loop.lastChanged.isMissing() && areEqual(loop.lastChanged, now)))
    return Value::boolean(false);
  loop.lastChanged = now;
  return Value::boolean(true);
}

Value Interpreter::callMethod(const MethodObject &object, Arguments &arguments) {
  auto method = static_cast<Method>(object.method);
  const Value &self = object.self;
  Value values[2];
  switch (method) {
  case Method::Dict_get: {
    if (!bind("get", arguments, {"key", "default"}, 1, values))
      return {};
    if (!hashable(values[0]))
      return {};
    const Value *found = self.as<DictObject>().find(values[0]);
    return found ? *found : values[1].isMissing() ? Value::none() : values[1];
  }
  case Method::Dict_items:
  case Method::Dict_keys:
  case Method::Dict_values:
  case Method::Dict_copy:
  case Method::List_copy:
  case Method::Float_is_integer:
    if (!bind("this method", arguments, {}, 0, values))
      return {};
    if (method == Method::Float_is_integer)
      return Value::boolean(self.real() == __builtin_floor(self.real()) && self.real() - self.real() == 0);
    if (method == Method::Dict_copy || method == Method::List_copy)
      return self; // nothing can change it
    return makeView(self, method == Method::Dict_items  ? ViewObject::Kind::Items
                          : method == Method::Dict_keys ? ViewObject::Kind::Keys
                                                        : ViewObject::Kind::Values);
  case Method::List_count:
  case Method::Tuple_count:
    return callListMethod(*this, true, self, arguments);
  case Method::List_index:
  case Method::Tuple_index:
    return callListMethod(*this, false, self, arguments);
  case Method::Loop_changed:
  case Method::Loop_cycle:
    return callLoopMethod(*this, method == Method::Loop_cycle, self, arguments);
  default:
    return callStringMethod(*this, method, self, arguments);
  }
}

} // namespace ingot::rt::tpl
