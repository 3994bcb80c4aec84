// Filters of lists and dictionaries. Where Jinja's are generators, so are
// these: they work as they are asked for items, and once.
#include "template/filters.h"

#include "template/format.h"
#include "template/operations.h"
#include "template/unicode.h"

#include <algorithm>

namespace ingot::rt::tpl {

namespace {

std::string nameOf(const Value &value) { return std::string(typeName(value)); }

/// An attribute as filters name it: "a.b.0", parts that are numbers being
/// indices; several of them with commas between.
using Path = Values;

std::vector<Path> parsePaths(Interpreter &interpreter, const Value &given, bool several) {
  std::vector<Path> paths;
  if (given.isMissing() || given.isNone())
    return {Path()};
  if (!given.isString())
    return {{given}};
  std::string_view rest = given.text().bytes();
  auto takePart = [](std::string_view &from, char separator) {
    size_t end = std::min(from.find(separator), from.size());
    std::string_view part = from.substr(0, end);
    bool more = end < from.size();
    from = more ? from.substr(end + 1) : std::string_view();
    return std::pair(part, more);
  };
  for (bool more = true; more && interpreter.step();) {
    std::string_view one = rest;
    more = false;
    if (several)
      std::tie(one, more) = takePart(rest, ',');
    Path path;
    for (bool inside = true; inside && interpreter.step();) {
      std::string_view part;
      std::tie(part, inside) = takePart(one, '.');
      bool number = !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == std::string_view::npos;
      path.push_back(number ? Value::integer(decimal(part)) : Value::string(part));
    }
    paths.push_back(std::move(path));
  }
  return paths;
}

Value follow(Interpreter &interpreter, Value value, const Path &path, const Value &absent = {}) {
  for (const Value &part : path) {
    value = interpreter.item(value, part);
    if (interpreter.failed)
      return {};
    if (value.isUndefined() && !absent.isMissing() && !absent.isNone())
      value = absent;
  }
  return value;
}

Value lowered(Interpreter &interpreter, const Value &value, bool caseSensitive) {
  if (caseSensitive || !value.isString())
    return value;
  return interpreter.text(mapCase(value.text(), CaseMapping::Lower));
}

/// One application of a filter.
class SequenceFilter {
public:
  SequenceFilter(Interpreter &interpreter, const Value &value, Arguments &arguments)
      : interpreter(interpreter), value(value), arguments(arguments) {}

  Value run(uint32_t which) {
    switch (which) {
    case INGOT_RT_TPL_FILTER_length:
      return length();
    case INGOT_RT_TPL_FILTER_list: {
      Values items;
      if (!bind("list", {}, 0) || !interpreter.collect(value, items))
        return {};
      return interpreter.contained(makeList(std::move(items)));
    }
    case INGOT_RT_TPL_FILTER_first:
      return first();
    case INGOT_RT_TPL_FILTER_last:
      return last();
    case INGOT_RT_TPL_FILTER_join:
      return join();
    case INGOT_RT_TPL_FILTER_items:
      return items();
    case INGOT_RT_TPL_FILTER_dictsort:
      return dictSort();
    case INGOT_RT_TPL_FILTER_sort:
      return sort();
    case INGOT_RT_TPL_FILTER_unique:
      return unique();
    case INGOT_RT_TPL_FILTER_min:
    case INGOT_RT_TPL_FILTER_max:
      return extreme(which == INGOT_RT_TPL_FILTER_max);
    case INGOT_RT_TPL_FILTER_sum:
      return sum();
    case INGOT_RT_TPL_FILTER_reverse:
      return reverse();
    case INGOT_RT_TPL_FILTER_batch:
      return batch();
    case INGOT_RT_TPL_FILTER_slice:
      return slice();
    case INGOT_RT_TPL_FILTER_groupby:
      return groupBy();
    case INGOT_RT_TPL_FILTER_map:
      return map();
    case INGOT_RT_TPL_FILTER_select:
    case INGOT_RT_TPL_FILTER_reject:
      return select(which == INGOT_RT_TPL_FILTER_select, false);
    default:
      return select(which == INGOT_RT_TPL_FILTER_selectattr, true);
    }
  }

private:
  bool bind(const char *name, std::initializer_list<const char *> names, size_t required) {
    return interpreter.bind(name, arguments, names, required, values);
  }
  bool flag(size_t index) const { return !values[index].isMissing() && isTrue(values[index]); }
  uint32_t deepest() const {
    uint32_t depth = value.depth();
    for (const Value &one : arguments.positional)
      depth = std::max(depth, one.depth());
    for (const auto &[name, one] : arguments.keywords)
      depth = std::max(depth, one.depth());
    return depth;
  }
  Value generator(std::function<bool(Interpreter &, Value &)> next) {
    return makeGenerator(interpreter, deepest(), std::move(next));
  }

  Value length() {
    if (!bind("length", {}, 0))
      return {};
    int64_t count = value.is(Type::Loop) ? value.as<LoopObject>().knownLength : lengthOf(value);
    if (count < 0)
      return interpreter.fail("object of type '%s' has no len()", nameOf(value).c_str());
    return Value::integer(count);
  }

  Value first() {
    if (!bind("first", {}, 0))
      return {};
    std::shared_ptr<Iterator> iterator = interpreter.iterate(value);
    Value result;
    if (iterator && iterator->next(interpreter, result))
      return result;
    return interpreter.failed ? Value() : makeUndefined("No first item, sequence was empty.");
  }

  /// What reversed() takes.
  bool isReversible() const { return lengthOf(value) >= 0; }

  Value last() {
    if (!bind("last", {}, 0))
      return {};
    if (!isReversible())
      return interpreter.fail("'%s' object is not reversible", nameOf(value).c_str());
    Values all;
    if (value.isString())
      return value.text().size() == 0 ? makeUndefined("No last item, sequence was empty.")
                                      : interpreter.item(value, Value::integer(-1));
    if (!interpreter.collect(value, all))
      return {};
    return all.empty() ? makeUndefined("No last item, sequence was empty.") : all.back();
  }

  Value join() {
    if (!bind("join", {"d", "attribute"}, 0))
      return {};
    Text separator = values[0].isMissing() ? Text() : toText(interpreter, values[0]);
    std::vector<Path> path = parsePaths(interpreter, values[1], false);
    std::shared_ptr<Iterator> iterator = interpreter.iterate(value);
    TextBuilder builder;
    bool begun = false;
    for (Value item; iterator && interpreter.step() && iterator->next(interpreter, item);) {
      item = follow(interpreter, item, path[0]);
      if (begun)
        builder.append(separator);
      begun = true;
      appendStr(interpreter, item, builder);
      if (interpreter.failed || builder.size() > maxOneText)
        break;
    }
    return interpreter.failed ? Value() : interpreter.text(builder);
  }

  Value items() {
    if (!bind("items", {}, 0))
      return {};
    std::shared_ptr<Iterator> iterator;
    if (value.is(Type::Dict)) {
      auto view = std::make_shared<ViewObject>();
      view->dict = value;
      iterator = interpreter.iterate(Value::object(Type::View, std::move(view)));
    }
    return generator([from = value, iterator](Interpreter &run, Value &item) {
      if (iterator)
        return iterator->next(run, item);
      if (!from.isUndefined())
        run.fail("Can only get item pairs from a mapping.");
      return false;
    });
  }

  /// Sorts `items` by `keys`, stably.
  Value sorted(Values items, const Values &keys, bool backward) {
    std::vector<size_t> order;
    bool good = sortedOrder(interpreter, items.size(), true, order, [&](size_t a, size_t b) {
      return backward ? isLess(interpreter, keys[b], keys[a]) : isLess(interpreter, keys[a], keys[b]);
    });
    if (!good)
      return {};
    Values result;
    for (size_t i : order)
      result.push_back(items[i]);
    return interpreter.contained(makeList(std::move(result)));
  }

  Value dictSort() {
    if (!bind("dictsort", {"case_sensitive", "by", "reverse"}, 0))
      return {};
    std::string by = values[1].isMissing() ? "key" : std::string(toText(interpreter, values[1]).bytes());
    if (by != "key" && by != "value")
      return interpreter.fail("You can only sort by either \"key\" or \"value\"");
    if (value.isUndefined())
      return interpreter.failUndefined(value);
    if (!value.is(Type::Dict))
      return interpreter.fail("'%s' object has no attribute 'items'", nameOf(value).c_str());
    Values pairs, keys;
    for (const auto &[key, one] : value.as<DictObject>().entries) {
      pairs.push_back(interpreter.contained(makeList({key, one}, Type::Tuple)));
      keys.push_back(lowered(interpreter, by == "key" ? key : one, flag(0)));
      if (!interpreter.step())
        return {};
    }
    return sorted(std::move(pairs), keys, flag(2));
  }

  Value sort() {
    Values all, keys;
    if (!bind("sort", {"reverse", "case_sensitive", "attribute"}, 0) || !interpreter.collect(value, all))
      return {};
    std::vector<Path> paths = parsePaths(interpreter, values[2], true);
    for (const Value &item : all) {
      Values key;
      for (const Path &path : paths)
        key.push_back(lowered(interpreter, follow(interpreter, item, path), flag(1)));
      if (!interpreter.step())
        return {};
      keys.push_back(makeList(std::move(key)));
    }
    return sorted(std::move(all), keys, flag(0));
  }

  Value unique() {
    if (!bind("unique", {"case_sensitive", "attribute"}, 0))
      return {};
    std::shared_ptr<Iterator> iterator = interpreter.iterate(value);
    if (!iterator)
      return {};
    auto seen = std::make_shared<DictObject>();
    return generator([iterator, seen, path = parsePaths(interpreter, values[1], false)[0],
                      sensitive = flag(0)](Interpreter &run, Value &item) {
      while (run.step() && iterator->next(run, item)) {
        Value key = lowered(run, follow(run, item, path), sensitive);
        if (run.failed || !run.hashable(key))
          return false;
        if (seen->find(key))
          continue;
        if (!key.isString() && !run.step(seen->entries.size()))
          return false;
        seen->set(key, Value::none());
        return true;
      }
      return false;
    });
  }

  Value extreme(bool largest) {
    Values all;
    if (!bind(largest ? "max" : "min", {"case_sensitive", "attribute"}, 0) || !interpreter.collect(value, all))
      return {};
    if (all.empty())
      return makeUndefined("No aggregated item, sequence was empty.");
    Path path = parsePaths(interpreter, values[1], false)[0];
    Value best, bestKey;
    for (const Value &item : all) {
      Value key = lowered(interpreter, follow(interpreter, item, path), flag(0));
      if (interpreter.failed)
        return {};
      bool better = bestKey.isMissing() || (largest ? compare(interpreter, INGOT_RT_TPL_GT, key, bestKey)
                                                    : compare(interpreter, INGOT_RT_TPL_LT, key, bestKey));
      if (interpreter.failed)
        return {};
      if (better) {
        best = item;
        bestKey = key;
      }
    }
    return best;
  }

  Value sum() {
    Values all;
    if (!bind("sum", {"attribute", "start"}, 0) || !interpreter.collect(value, all))
      return {};
    Path path = parsePaths(interpreter, values[0], false)[0];
    Value total = values[1].isMissing() ? Value::integer(0) : values[1];
    if (total.isString())
      return interpreter.fail("sum() can't sum strings [use ''.join(seq) instead]");
    for (const Value &item : all) {
      Value one = follow(interpreter, item, path);
      total = interpreter.failed ? Value() : binary(interpreter, INGOT_RT_TPL_ADD, total, one);
      if (interpreter.failed)
        return {};
    }
    return total;
  }

  Value reverse() {
    if (!bind("reverse", {}, 0))
      return {};
    if (value.isString())
      return interpreter.slice(value, Value::none(), Value::none(), Value::integer(-1));
    Values all;
    if (!interpreter.collect(value, all))
      return {};
    std::reverse(all.begin(), all.end());
    bool lazy = isReversible();
    Value list = interpreter.contained(makeList(std::move(all)));
    if (!lazy || interpreter.failed)
      return list;
    return makeGenerator(interpreter, interpreter.iterate(list), list.depth());
  }

  Value batch() {
    int64_t count;
    if (!bind("batch", {"linecount", "fill_with"}, 1) || !interpreter.integerArgument(values[0], 0, count))
      return {};
    std::shared_ptr<Iterator> iterator = interpreter.iterate(value);
    if (!iterator)
      return {};
    auto rest = std::make_shared<Value>();
    return generator([iterator, rest, count, fill = values[1]](Interpreter &run, Value &result) {
      // As Jinja's: a batch is full when the next item comes, so that a count below 1 never fills one but the first,
      // empty one for 0.
      Values batch;
      if (!rest->isMissing())
        batch.push_back(std::move(*rest));
      *rest = {};
      for (Value item; run.step() && iterator->next(run, item);) {
        if (static_cast<int64_t>(batch.size()) == count) {
          *rest = item;
          result = run.contained(makeList(std::move(batch)));
          return !run.failed;
        }
        batch.push_back(item);
      }
      if (run.failed || batch.empty())
        return false;
      bool fills = !fill.isMissing() && !fill.isNone();
      if (fills && count > static_cast<int64_t>(maxItems))
        run.fail("a batch of more than %llu items", static_cast<unsigned long long>(maxItems));
      while (fills && static_cast<int64_t>(batch.size()) < count && run.step())
        batch.push_back(fill);
      result = run.contained(makeList(std::move(batch)));
      return !run.failed;
    });
  }

  Value slice() {
    int64_t count;
    Values all;
    if (!bind("slice", {"slices", "fill_with"}, 1) || !interpreter.integerArgument(values[0], 0, count) ||
        !interpreter.collect(value, all))
      return {};
    if (count == 0)
      return interpreter.fail("integer division or modulo by zero");
    Values slices;
    int64_t total = static_cast<int64_t>(all.size()), each = total / count, extra = total % count, at = 0;
    if (count > static_cast<int64_t>(maxItems))
      return interpreter.fail("more than %llu slices", static_cast<unsigned long long>(maxItems));
    for (int64_t i = 0; i < count && interpreter.step(); ++i) {
      int64_t end = at + each + (i < extra);
      Values part(all.begin() + at, all.begin() + end);
      at = end;
      if (!values[1].isMissing() && !values[1].isNone() && i >= extra)
        part.push_back(values[1]);
      slices.push_back(makeList(std::move(part)));
    }
    Value list = interpreter.contained(makeList(std::move(slices)));
    return interpreter.failed ? Value() : makeGenerator(interpreter, interpreter.iterate(list), list.depth());
  }

  Value groupBy() {
    Values all, keys;
    if (!bind("groupby", {"attribute", "default", "case_sensitive"}, 1) || !interpreter.collect(value, all))
      return {};
    Path path = parsePaths(interpreter, values[0], false)[0];
    for (const Value &item : all) {
      keys.push_back(lowered(interpreter, follow(interpreter, item, path, values[1]), flag(2)));
      if (!interpreter.step())
        return {};
    }
    std::vector<size_t> order;
    if (!sortedOrder(interpreter, all.size(), true, order,
                     [&](size_t a, size_t b) { return isLess(interpreter, keys[a], keys[b]); }))
      return {};
    Values groups;
    for (size_t begin = 0, end; begin < order.size(); begin = end) {
      Values members;
      for (end = begin; end < order.size() && areEqual(keys[order[begin]], keys[order[end]]); ++end)
        members.push_back(all[order[end]]);
      if (end == begin) // not equal to itself
        members.push_back(all[order[end++]]);
      Value name = flag(2) ? keys[order[begin]] : follow(interpreter, members[0], path, values[1]);
      if (interpreter.failed)
        return {};
      Value group = makeList({name, makeList(std::move(members))}, Type::Tuple);
      group.as<ListObject>().isGroup = true;
      groups.push_back(std::move(group));
    }
    return interpreter.contained(makeList(std::move(groups)));
  }

  /// What the first positional argument names; a failure if it names nothing.
  uint32_t named(size_t index, bool isFilter) {
    const Value &name = arguments.positional[index];
    uint32_t which = none;
    if (name.isString())
      which = isFilter ? filterNamed(name.text().bytes()) : testNamed(name.text().bytes());
    if (which == none) {
      TextBuilder text;
      appendStr(interpreter, name, text);
      interpreter.fail("No %s named '%s'.", isFilter ? "filter" : "test", std::string(text.take().bytes()).c_str());
    }
    return which;
  }

  Value map() {
    if (!isTrue(value))
      return generator([](Interpreter &, Value &) { return false; });
    std::function<Value(Interpreter &, const Value &)> function;
    if (arguments.positional.empty()) {
      Value attribute, absent;
      for (auto &[name, one] : arguments.keywords) {
        if (name == "attribute")
          attribute = one;
        else if (name == "default")
          absent = one;
        else
          return interpreter.fail("Unexpected keyword argument '%s'", name.c_str());
      }
      if (attribute.isMissing())
        return interpreter.fail("map requires a filter argument");
      function = [path = parsePaths(interpreter, attribute, false)[0], absent](Interpreter &run, const Value &item) {
        return follow(run, item, path, absent);
      };
    } else {
      uint32_t which = named(0, true);
      Arguments rest = {{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.keywords};
      function = [which, rest](Interpreter &run, const Value &item) {
        Arguments copy = rest;
        return run.filter(which, item, copy);
      };
    }
    std::shared_ptr<Iterator> iterator = interpreter.failed ? nullptr : interpreter.iterate(value);
    if (!iterator)
      return {};
    return generator([iterator, function](Interpreter &run, Value &result) {
      Value item;
      if (!run.step() || !iterator->next(run, item))
        return false;
      result = function(run, item);
      return !run.failed;
    });
  }

  Value select(bool keeps, bool byAttribute) {
    if (!isTrue(value))
      return generator([](Interpreter &, Value &) { return false; });
    Path path;
    size_t off = byAttribute;
    if (byAttribute) {
      if (arguments.positional.empty())
        return interpreter.fail("Missing parameter for attribute name");
      path = parsePaths(interpreter, arguments.positional[0], false)[0];
    }
    uint32_t which = none;
    Arguments rest;
    if (arguments.positional.size() > off) {
      which = named(off, false);
      rest = {{arguments.positional.begin() + static_cast<ptrdiff_t>(off) + 1, arguments.positional.end()},
              arguments.keywords};
    }
    std::shared_ptr<Iterator> iterator = interpreter.failed ? nullptr : interpreter.iterate(value);
    if (!iterator)
      return {};
    return generator([iterator, path, which, rest, keeps](Interpreter &run, Value &item) {
      while (run.step() && iterator->next(run, item)) {
        Value looked = follow(run, item, path);
        if (run.failed)
          return false;
        Arguments copy = rest;
        bool passed = which == none ? isTrue(looked) : run.test(which, looked, copy);
        if (run.failed)
          return false;
        if (passed == keeps)
          return true;
      }
      return false;
    });
  }

  Interpreter &interpreter;
  const Value &value;
  Arguments &arguments;
  Value values[4];
};

} // namespace

Value filterSequence(Interpreter &interpreter, uint32_t which, const Value &value, Arguments &arguments) {
  return SequenceFilter(interpreter, value, arguments).run(which);
}

} // namespace ingot::rt::tpl
