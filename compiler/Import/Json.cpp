// Builds a Json from nlohmann's event parser, which is where duplicate keys,
// depth and positions can be seen. The parser reports by a callback and never
// throws here, so that code compiled without exceptions may share its
// templates.
#include "compiler/Import/Json.h"
#include "compiler/Import/InputError.h"
#include "compiler/Import/MappedFile.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;
using namespace ingot;

namespace {

/// Where the parser is in the text.
struct Cursor {
  const char *at;
};

/// Walks the text and tells the cursor, so that events know their position.
class CountingIterator {
public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char *;
  using reference = const char &;

  CountingIterator(const char *at, Cursor *cursor) : at(at), cursor(cursor) {}
  reference operator*() const { return *at; }
  CountingIterator &operator++() {
    cursor->at = ++at;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const CountingIterator &other) const { return at == other.at; }
  bool operator!=(const CountingIterator &other) const { return at != other.at; }

private:
  const char *at;
  Cursor *cursor;
};

/// Receives the events; on a fault it keeps the message and stops the parser by
/// returning false.
class Builder : public nlohmann::json_sax<Json> {
public:
  Builder(StringRef text, StringRef file) : text(text), file(file), cursor{text.data()} {}

  Expected<Json> run() {
    CountingIterator first(text.begin(), &cursor), last(text.end(), &cursor);
    if (!Json::sax_parse(first, last, this))
      return inputError(file, message);
    return std::move(root);
  }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t &) override { return add(value); }
  bool string(string_t &value) override { return add(std::move(value)); }
  bool binary(binary_t &) override { return fail("binary data"); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t &name) override {
    Level &level = levels.back();
    if (!level.keys.insert(name).second)
      return fail("the key " + quote(name) + " is there twice in one object");
    level.key = std::move(name);
    return true;
  }

  bool parse_error(std::size_t, const std::string &lastToken, const nlohmann::detail::exception &error) override {
    StringRef what = error.what();
    if (error.id == 406)
      return fail("the number " + quote(lastToken) + " does not fit a 64-bit float");
    if (text.ltrim().empty())
      return fail("not JSON: nothing but white space");
    char last = cursor.at > text.begin() ? cursor.at[-1] : ' ';
    bool atToken = what.contains("invalid literal") || what.contains("invalid number");
    if (atToken && (last == 'N' || last == 'I'))
      return fail("not JSON: NaN and Infinity are no JSON numbers");
    // nlohmann: "[json.exception...] parse error at line 1, column 2: REASON;
    // last read: '...'; expected ...".
    size_t reason = what.find(": ");
    std::string shown = quote(reason == StringRef::npos ? what : what.substr(reason + 2));
    return fail("not JSON: " + StringRef(shown).drop_front().drop_back());
  }

private:
  /// An object or array being filled. `value` is its place in the tree, which
  /// stays put while it is open because its parent gets no other element
  /// meanwhile.
  struct Level {
    Json *value;
    std::string key;
    StringSet<> keys;
  };

  bool fail(const Twine &what) {
    StringRef before(text.data(), size_t(cursor.at - text.data()));
    size_t line = before.count('\n') + 1;
    size_t column = before.size() - (before.rfind('\n') == StringRef::npos ? 0 : before.rfind('\n') + 1);
    message =
        ("line " + Twine(line) + ", column " + Twine(column) + " (byte " + Twine(before.size()) + "): " + what).str();
    return false;
  }

  /// Puts a value into the open object or array, and returns its place.
  Json *place(Json &&value) {
    if (levels.empty()) {
      root = std::move(value);
      return &root;
    }
    Level &level = levels.back();
    if (level.value->is_array()) {
      auto &elements = level.value->get_ref<Json::array_t &>();
      elements.push_back(std::move(value));
      return &elements.back();
    }
    // emplace_back of the underlying vector: the keys are known to differ, a
    // search would cost quadratic time.
    auto &members = level.value->get_ref<Json::object_t &>();
    using Container = Json::object_t::Container;
    static_cast<Container &>(members).emplace_back(std::move(level.key), std::move(value));
    return &members.back().second;
  }

  bool add(Json value) {
    place(std::move(value));
    return true;
  }

  bool open(Json value) {
    if (levels.size() == maxJsonDepth)
      return fail("nested more than " + Twine(maxJsonDepth) + " deep");
    levels.push_back({place(std::move(value)), {}, {}});
    return true;
  }

  bool close() {
    levels.pop_back();
    return true;
  }

  StringRef text;
  StringRef file;
  Cursor cursor;
  Json root;
  std::vector<Level> levels;
  std::string message;
};

} // namespace

Expected<Json> ingot::parseJson(StringRef text, StringRef file) { return Builder(text, file).run(); }

Expected<Json> ingot::readJsonFile(StringRef path) {
  Expected<std::shared_ptr<MappedFile>> map = MappedFile::open(path);
  if (!map)
    return map.takeError();
  if (Error error = checkForStandIn(path, (*map)->text()))
    return std::move(error);
  return parseJson((*map)->text(), path);
}
