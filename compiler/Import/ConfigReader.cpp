// Typed getters over one JSON object that remember what was asked for.
#include "compiler/Import/ConfigReader.h"
#include "compiler/Import/InputError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace llvm;

namespace ingot {

std::string jsonText(const Json &value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 100)
    text = text.substr(0, 97) + "...";
  return text;
}

ConfigReader::ConfigReader(const Json &object, StringRef file, Ledger &ledger, ArrayRef<std::string> ignoredKeys,
                           StringRef prefix)
    : object(object), fileName(file), prefix(prefix), ledger(ledger), ignoredKeys(ignoredKeys) {
  if (!object.is_object()) {
    fail((prefix.empty() ? Twine("") : prefix.drop_back() + Twine(": ")) + "expected an object, got " +
         jsonText(object));
    return;
  }
  for (const std::string &key : ignoredKeys) {
    StringRef name = key;
    if (!name.consume_front(this->prefix) || !object.contains(name.str()))
      continue;
    ignored.insert(name);
    recorded.insert(name);
    ledger.addKey(fileName, key, LedgerOutcome::IgnoredKey, jsonText(object[name.str()]));
  }
}

const Json *ConfigReader::findOrNull(StringRef key) const {
  if (!object.is_object() || ignored.contains(key))
    return nullptr;
  auto it = object.find(key.str());
  return it == object.end() ? nullptr : &*it;
}

const Json *ConfigReader::find(StringRef key) const {
  const Json *value = findOrNull(key);
  return value && !value->is_null() ? value : nullptr;
}

const Json *ConfigReader::expect(StringRef key, bool required, bool nullable, StringRef type) {
  const Json *value = findOrNull(key);
  if (!value) {
    if (required)
      fail("key '" + prefix + key + "' is missing; expected " + type);
    return nullptr;
  }
  if (value->is_null()) {
    if (nullable)
      consume(key, "absent");
    else
      failKey(key, "expected " + type + ", got null");
    return nullptr;
  }
  return value;
}

std::optional<int64_t> ConfigReader::checkedInteger(StringRef key, const Json &value, int64_t min, int64_t max) {
  bool fits = value.is_number_integer() &&
              !(value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX));
  if (!fits) {
    failKey(key, "expected an integer, got " + jsonText(value));
    return std::nullopt;
  }
  int64_t number = value.get<int64_t>();
  if (number < min || number > max) {
    failKey(key, "expected an integer from " + Twine(min) + " to " + Twine(max) + ", got " + Twine(number));
    return std::nullopt;
  }
  return number;
}

std::optional<double> ConfigReader::checkedNumber(StringRef key, const Json &value, double min, double max) {
  if (!value.is_number() || !std::isfinite(value.get<double>())) {
    failKey(key, "expected a number, got " + jsonText(value));
    return std::nullopt;
  }
  double number = value.get<double>();
  if (number < min || number > max) {
    failKey(key, "expected a number from " + jsonText(Json(min)) + " to " + jsonText(Json(max)) + ", got " +
                     jsonText(value));
    return std::nullopt;
  }
  return number;
}

int64_t ConfigReader::integer(StringRef key, int64_t min, int64_t max, std::optional<int64_t> absent) {
  int64_t placeholder = absent.value_or(min);
  const Json *value = expect(key, !absent, /*nullable=*/false, "an integer");
  if (!value)
    return placeholder;
  std::optional<int64_t> number = checkedInteger(key, *value, min, max);
  if (!number)
    return placeholder;
  consume(key);
  return *number;
}

std::optional<int64_t> ConfigReader::optionalInteger(StringRef key, int64_t min, int64_t max) {
  const Json *value = expect(key, false, /*nullable=*/true, "an integer");
  if (!value)
    return std::nullopt;
  std::optional<int64_t> number = checkedInteger(key, *value, min, max);
  if (number)
    consume(key);
  return number;
}

double ConfigReader::number(StringRef key, double min, double max, std::optional<double> absent) {
  double placeholder = absent.value_or(min);
  const Json *value = expect(key, !absent, /*nullable=*/false, "a number");
  if (!value)
    return placeholder;
  std::optional<double> number = checkedNumber(key, *value, min, max);
  if (!number)
    return placeholder;
  consume(key);
  return *number;
}

std::optional<double> ConfigReader::optionalNumber(StringRef key, double min, double max) {
  const Json *value = expect(key, false, /*nullable=*/true, "a number");
  if (!value)
    return std::nullopt;
  std::optional<double> number = checkedNumber(key, *value, min, max);
  if (number)
    consume(key);
  return number;
}

bool ConfigReader::boolean(StringRef key, std::optional<bool> absent) {
  const Json *value = expect(key, !absent, /*nullable=*/absent == false, "true or false");
  if (!value)
    return absent.value_or(false);
  if (!value->is_boolean()) {
    failKey(key, "expected true or false, got " + jsonText(*value));
    return absent.value_or(false);
  }
  consume(key);
  return value->get<bool>();
}

std::optional<std::string> ConfigReader::optionalString(StringRef key) {
  const Json *value = expect(key, false, /*nullable=*/true, "a string");
  if (!value)
    return std::nullopt;
  if (!value->is_string()) {
    failKey(key, "expected a string, got " + jsonText(*value));
    return std::nullopt;
  }
  consume(key);
  return value->get<std::string>();
}

std::optional<std::vector<double>> ConfigReader::optionalNumbers(StringRef key) {
  const Json *value = expect(key, false, /*nullable=*/true, "a list");
  if (!value)
    return std::nullopt;
  std::vector<double> numbers;
  bool good = value->is_array();
  for (size_t i = 0; good && i < value->size(); ++i) {
    const Json &element = (*value)[i];
    good = element.is_number() && std::isfinite(element.get<double>());
    if (good)
      numbers.push_back(element.get<double>());
  }
  if (!good) {
    failKey(key, "expected a list of numbers, got " + jsonText(*value));
    return std::nullopt;
  }
  consume(key);
  return numbers;
}

std::optional<std::vector<std::string>> ConfigReader::optionalStrings(StringRef key) {
  const Json *value = expect(key, false, /*nullable=*/true, "a list");
  if (!value)
    return std::nullopt;
  std::vector<std::string> texts;
  bool good = value->is_array();
  for (size_t i = 0; good && i < value->size(); ++i) {
    good = (*value)[i].is_string();
    if (good)
      texts.push_back((*value)[i].get<std::string>());
  }
  if (!good) {
    failKey(key, "expected a list of strings, got " + jsonText(*value));
    return std::nullopt;
  }
  consume(key);
  return texts;
}

std::optional<std::vector<int64_t>> ConfigReader::ids(StringRef key, int64_t max) {
  const Json *value = findOrNull(key);
  if (!value)
    return std::nullopt;
  std::vector<int64_t> result;
  if (value->is_array()) {
    for (const Json &element : *value) {
      std::optional<int64_t> id = checkedInteger(key, element, 0, max);
      if (!id)
        return std::nullopt;
      result.push_back(*id);
    }
  } else if (!value->is_null()) {
    std::optional<int64_t> id = checkedInteger(key, *value, 0, max);
    if (!id)
      return std::nullopt;
    result.push_back(*id);
  }
  consume(key);
  return result;
}

bool ConfigReader::occurs(StringRef key, int64_t id, int64_t vocab, std::vector<std::string> &warnings) {
  if (id < vocab)
    return true;
  std::string remark = ("id " + Twine(id) + " is not below vocab_size " + Twine(vocab) + " and never occurs").str();
  warnings.push_back((fileName + ": key '" + prefix + key + "': " + remark).str());
  ledger.amendKey(fileName, prefix + key.str(), remark);
  return false;
}

void ConfigReader::consume(StringRef key, const Twine &became) {
  const Json *value = findOrNull(key);
  if (!value)
    return;
  recorded.insert(key);
  std::string detail = became.str();
  ledger.addKey(fileName, prefix + key.str(), LedgerOutcome::Consumed, detail.empty() ? jsonText(*value) : detail);
}

void ConfigReader::inert(StringRef key, const Twine &reason) {
  if (!findOrNull(key))
    return;
  recorded.insert(key);
  ledger.addKey(fileName, prefix + key.str(), LedgerOutcome::Inert, reason);
}

void ConfigReader::fail(const Twine &what) {
  if (fault.empty())
    fault = what.str();
}

void ConfigReader::failKey(StringRef key, const Twine &what) { fail("key '" + prefix + key + "': " + what); }

void ConfigReader::adopt(ConfigReader &nested) {
  if (!nested.fault.empty())
    fail(nested.fault);
}

void ConfigReader::checkRest(ArrayRef<ArrayRef<InertKey>> lists, const Twine &reader) {
  if (!object.is_object())
    return;
  auto findRow = [&](StringRef key) -> const InertKey * {
    for (ArrayRef<InertKey> list : lists)
      for (const InertKey &row : list)
        if (row.key == key)
          return &row;
    return nullptr;
  };
  for (const auto &[name, value] : object.items()) {
    if (recorded.contains(name))
      continue;
    std::string remedy = "; --ignore-key=" + prefix + name + " compiles the model without it";
    const InertKey *row = findRow(name);
    if (!row) {
      fail("key " + quote(prefix + name) + " is unknown for " + reader + " and might change results" + remedy);
      return;
    }
    SmallVector<StringRef, 4> values;
    row->onlyAt.split(values, '|');
    if (!row->onlyAt.empty() && !is_contained(values, jsonText(value)))
      failKey(name, Twine(row->reason) + "; expected " + join(values, " or ") + ", got " + jsonText(value) + remedy);
    else
      inert(name, row->onlyAt.empty() ? Twine(row->reason) : "no effect at " + jsonText(value));
  }
}

Error ConfigReader::finish() { return fault.empty() ? Error::success() : inputError(fileName, fault); }

} // namespace ingot
