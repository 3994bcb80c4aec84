// Parsing of command lines and of lists of ids.
#include "cli/arguments.h"

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <numeric>

namespace ingot::rt {

namespace {
/// Calls function(spelling) for each of an option's names until it returns true.
template <typename Function>
bool anyName(const OptionSpec &option, Function function) {
  std::string_view names = option.names;
  while (!names.empty()) {
    size_t end = std::min(names.find(' '), names.size());
    if (function(names.substr(0, end)))
      return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

std::string firstName(const OptionSpec &option) {
  std::string_view names = option.names;
  return std::string(names.substr(0, std::min(names.find(' '), names.size())));
}

size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t(0));
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      size_t replace = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replace, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}
} // namespace

std::string spelled(std::string_view name) { return (name.size() == 1 ? "-" : "--") + std::string(name); }

const OptionSpec *findOption(const VerbSpec &verb, std::string_view name) {
  for (const OptionSpec &option : verb.options)
    if (anyName(option, [&](std::string_view spelling) { return spelling == name; }))
      return &option;
  return nullptr;
}

std::string nearest(std::string_view word, const std::vector<std::string> &candidates) {
  std::string best;
  size_t least = SIZE_MAX;
  for (const std::string &candidate : candidates)
    if (size_t distance = editDistance(word, candidate); distance < least) {
      least = distance;
      best = candidate;
    }
  return least <= std::max<size_t>(2, word.size() / 3) ? best : "";
}

Result<Arguments> Arguments::parse(const VerbSpec &verb, std::span<const char *const> words) {
  Arguments arguments;
  for (size_t i = 0; i < words.size(); ++i) {
    std::string_view word = words[i];
    if (word == "-" && verb.positionals) {
      arguments.sawDash = true;
      continue;
    }
    if (word.size() < 2 || word[0] != '-')
      return makeUsageError("%s: unexpected argument '%s'", verb.name, words[i]);
    std::string_view name = word.substr(word[1] == '-' ? 2 : 1), value;
    size_t equals = name.find('=');
    bool attached = equals != std::string_view::npos;
    if (attached) {
      value = name.substr(equals + 1);
      name = name.substr(0, equals);
    }
    const OptionSpec *option = findOption(verb, name);
    // One dash for single letters, two for words.
    if (option && (name.size() == 1) != (word[1] != '-'))
      option = nullptr;
    if (!option) {
      std::vector<std::string> candidates;
      for (const OptionSpec &candidate : verb.options)
        anyName(candidate, [&](std::string_view spelling) {
          candidates.push_back(spelled(spelling));
          return false;
        });
      std::string given(word.substr(0, word.find('='))), suggestion = nearest(given, candidates);
      if (suggestion.empty())
        return makeUsageError("%s: unknown option '%s' (see %s --help)", verb.name, given.c_str(), verb.name);
      return makeUsageError("%s: unknown option '%s'; did you mean '%s'?", verb.name, given.c_str(),
                            suggestion.c_str());
    }
    if (!option->value && attached)
      return makeUsageError("%s: option '%s' takes no value", verb.name, spelled(name).c_str());
    if (option->value && !attached) {
      if (i + 1 == words.size())
        return makeUsageError("%s: option '%s' needs a value: %s", verb.name, spelled(name).c_str(), option->value);
      value = words[++i];
    }
    arguments.given.push_back({option, std::string(value)});
  }
  return arguments;
}

std::string optionName(const VerbSpec &verb, std::string_view spelling) {
  std::string dashed(spelling);
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  const OptionSpec *option = findOption(verb, dashed);
  return option ? firstName(*option) : "";
}

Error Arguments::add(const VerbSpec &verb, std::string_view name, std::string_view value) {
  const OptionSpec *option = findOption(verb, name);
  if (!option)
    return makeUsageError("unknown option '%s'", std::string(name).c_str());
  given.push_back({option, std::string(value)});
  return {};
}

void Arguments::remove(std::string_view name) {
  std::erase_if(given, [&](const Given &one) { return firstName(*one.option) == name; });
}

bool Arguments::has(std::string_view name) const {
  return std::any_of(given.begin(), given.end(), [&](const Given &one) { return firstName(*one.option) == name; });
}

std::string Arguments::text(std::string_view name, std::string_view absent) const {
  std::string value(absent);
  for (const Given &one : given)
    if (firstName(*one.option) == name)
      value = one.value;
  return value;
}

std::vector<std::string> Arguments::texts(std::string_view name) const {
  std::vector<std::string> values;
  for (const Given &one : given)
    if (firstName(*one.option) == name)
      values.push_back(one.value);
  return values;
}

Result<uint64_t> parseWhole(std::string_view text, const char *what, uint64_t least, uint64_t most) {
  uint64_t value = 0;
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || value < least || value > most)
    return makeUsageError("%s: expected a whole number from %" PRIu64 " to %" PRIu64 ", got '%s'", what, least, most,
                          std::string(text).c_str());
  return value;
}

Result<float> parseReal(std::string_view text, const char *what) {
  float value = 0;
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || value != value)
    return makeUsageError("%s: expected a number, got '%s'", what, std::string(text).c_str());
  return value;
}

Result<uint64_t> Arguments::number(std::string_view name, uint64_t absent, uint64_t least, uint64_t most) const {
  if (!has(name))
    return absent;
  return parseWhole(text(name), spelled(name).c_str(), least, most);
}

Result<std::vector<uint64_t>> Arguments::numbers(std::string_view name, std::vector<uint64_t> absent, uint64_t least,
                                                 uint64_t most) const {
  if (!has(name))
    return absent;
  std::vector<uint64_t> list;
  std::string value = text(name);
  for (size_t at = 0; at <= value.size();) {
    size_t comma = std::min(value.find(',', at), value.size());
    Result<uint64_t> one =
        parseWhole(std::string_view(value).substr(at, comma - at), spelled(name).c_str(), least, most);
    if (!one)
      return one.takeError();
    list.push_back(*one);
    at = comma + 1;
  }
  return list;
}

Result<float> Arguments::real(std::string_view name, float absent) const {
  if (!has(name))
    return absent;
  return parseReal(text(name), spelled(name).c_str());
}

Result<std::vector<std::vector<int32_t>>> parseTokenLists(std::string_view text, const char *what) {
  std::vector<std::vector<int32_t>> lists(1);
  auto space = [](char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; };
  auto fail = [&](size_t at) {
    size_t end = std::min(text.find_first_of(",; \n\t\r", at), text.size());
    return makeUsageError("%s: expected ids separated by commas (';' between sequences), got '%s' as item %zu of "
                          "sequence %zu",
                          what, std::string(text.substr(at, std::min<size_t>(end - at, 40))).c_str(),
                          lists.back().size() + 1, lists.size());
  };
  bool wantId = false; // after a comma
  for (size_t at = 0; at < text.size();) {
    if (space(text[at])) {
      ++at;
    } else if (text[at] == ';') {
      if (wantId)
        return fail(at);
      lists.emplace_back();
      ++at;
    } else if (text[at] == ',') {
      if (wantId || lists.back().empty())
        return fail(at);
      wantId = true;
      ++at;
    } else {
      int32_t id = 0;
      auto [end, status] = std::from_chars(text.data() + at, text.data() + text.size(), id);
      size_t next = static_cast<size_t>(end - text.data());
      bool separated = next == text.size() || space(text[next]) || text[next] == ',' || text[next] == ';';
      if (status != std::errc() || !separated)
        return fail(at);
      lists.back().push_back(id);
      wantId = false;
      at = next;
    }
  }
  if (wantId)
    return makeUsageError("%s: the list of ids ends with a comma", what);
  if (lists.size() > 1 && lists.back().empty())
    lists.pop_back(); // a ';' at the end
  return lists;
}

std::string verbHelp(const VerbSpec &verb, std::string_view program) {
  std::string name(program), text = std::string(verb.summary) + "\n\nusage: " + name + " " + verb.name + " " +
                                    verb.usage + "\nexample: " + name + " " + verb.name + " " + verb.example +
                                    "\n\noptions:\n";
  for (const OptionSpec &option : verb.options) {
    std::string left;
    anyName(option, [&](std::string_view spelling) {
      left += (left.empty() ? "  " : ", ") + spelled(spelling);
      return false;
    });
    if (option.value)
      left += " " + std::string(option.value);
    if (left.size() < 34)
      left.resize(34, ' ');
    else
      left += "\n" + std::string(34, ' ');
    text += left + option.help + "\n";
  }
  return text;
}

} // namespace ingot::rt
