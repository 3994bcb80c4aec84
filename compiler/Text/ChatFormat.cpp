// Where templates may lie, and which of them wins.
#include "compiler/Text/ChatFormat.h"
#include "compiler/Import/InputError.h"
#include "compiler/Import/MappedFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace llvm;
using namespace ingot;

static constexpr StringLiteral specialNames[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                 "pad_token", "cls_token", "mask_token"};

namespace {

class FormatReader {
public:
  FormatReader(ArrayRef<std::string> ignoredKeys, Ledger &ledger) : ignoredKeys(ignoredKeys), ledger(ledger) {}

  Error readDirectory(const TokenizerSource &source) {
    Json config, map;
    if (Error error = readObject(source.tokenizerConfigJson, config))
      return error;
    // special_tokens_map.json is what older versions wrote; it counts only without the newer table.
    if (!config.contains("added_tokens_decoder"))
      if (Error error = readObject(source.specialTokensMapJson, map))
        return error;
    for (StringRef name : specialNames) {
      const Json &from = map.contains(name) ? map : config;
      StringRef file = map.contains(name) ? source.specialTokensMapJson : source.tokenizerConfigJson;
      if (from.contains(name))
        if (Error error = addSpecial(name, from[name.str()], file))
          return error;
    }
    if (Error error = readFiles(source))
      return error;
    bool hasFiles = !format.templates.empty();
    if (!config.contains("chat_template") || config["chat_template"].is_null())
      return Error::success();
    if (hasFiles) {
      ledger.addKey(source.tokenizerConfigJson, "chat_template", LedgerOutcome::Inert,
                    "the templates in files of their own come first");
      return Error::success();
    }
    return readConfigTemplate(config["chat_template"], source.tokenizerConfigJson);
  }

  Error readGguf(const GgufTokenizer &metadata, StringRef path) {
    std::pair<StringRef, std::optional<int64_t>> ids[] = {
        {"bos_token", metadata.bosId},       {"eos_token", metadata.eosId},     {"unk_token", metadata.unknownId},
        {"sep_token", metadata.separatorId}, {"pad_token", metadata.paddingId}, {"cls_token", metadata.clsId},
        {"mask_token", metadata.maskId}};
    for (auto [name, id] : ids)
      if (id && *id >= 0 && uint64_t(*id) < metadata.tokens.size())
        format.specials.emplace_back(name.str(), metadata.tokens[*id].str());
    if (metadata.chatTemplate && !isIgnored("tokenizer.chat_template"))
      add("default", metadata.chatTemplate->str(), path, "tokenizer.chat_template");
    for (const auto &[name, text] : metadata.namedChatTemplates) {
      std::string key = ("tokenizer.chat_template." + name).str();
      if (!isIgnored(key))
        add(name, text.str(), path, key);
    }
    return Error::success();
  }

  ChatFormat format;

private:
  bool isIgnored(StringRef key) const {
    return any_of(ignoredKeys, [&](const std::string &ignored) { return ignored == key; });
  }

  void add(StringRef name, std::string text, StringRef file, StringRef key) {
    std::string where = (file + (key.empty() ? "" : ": ") + key).str();
    auto same = find_if(format.templates, [&](const TemplateText &other) { return other.name == name; });
    if (same != format.templates.end())
      *same = {name.str(), std::move(text), where}; // as in a dictionary
    else
      format.templates.push_back({name.str(), std::move(text), where});
  }

  static Error readObject(StringRef path, Json &object) {
    object = Json::object();
    if (path.empty())
      return Error::success();
    Expected<Json> parsed = readJsonFile(path);
    if (!parsed)
      return parsed.takeError();
    if (!parsed->is_object())
      return inputError(path, "is " + Twine(parsed->type_name()) + "; expected an object");
    object = std::move(*parsed);
    return Error::success();
  }

  /// A special token is its text, or an object with it.
  Error addSpecial(StringRef name, const Json &value, StringRef file) {
    if (value.is_null())
      return Error::success();
    const Json *content = &value;
    if (value.is_object() && value.contains("content"))
      content = &value["content"];
    if (!content->is_string())
      return inputError(file,
                        name + ": expected a string or an object with content, got " + Twine(content->type_name()));
    format.specials.emplace_back(name.str(), content->get<std::string>());
    return Error::success();
  }

  Error readFile(StringRef name, StringRef path) {
    if (isIgnored("chat_template")) {
      ledger.addKey(path, "chat_template", LedgerOutcome::IgnoredKey, "");
      return Error::success();
    }
    std::string text;
    uint64_t size = 0;
    if (std::error_code code = sys::fs::file_size(path, size))
      return inputError(path, code.message());
    if (size != 0) {
      Expected<std::shared_ptr<MappedFile>> file = MappedFile::open(path);
      if (!file)
        return file.takeError();
      text = (*file)->text().str();
    }
    ledger.addKey(path, "chat_template", LedgerOutcome::Consumed, "the chat template '" + name + "'");
    add(name, std::move(text), path, "");
    return Error::success();
  }

  Error readFiles(const TokenizerSource &source) {
    if (!source.chatTemplate.empty())
      if (Error error = readFile("default", source.chatTemplate))
        return error;
    for (const std::string &path : source.additionalChatTemplates)
      if (Error error = readFile(sys::path::stem(path), path))
        return error;
    return Error::success();
  }

  /// A template, or a list of named ones.
  Error readConfigTemplate(const Json &value, StringRef file) {
    if (isIgnored("chat_template")) {
      ledger.addKey(file, "chat_template", LedgerOutcome::IgnoredKey, "");
      return Error::success();
    }
    std::string names;
    auto take = [&](StringRef name, std::string text, StringRef key) {
      names += (names.empty() ? "'" : ", '") + name.str() + "'";
      add(name, std::move(text), file, key);
    };
    if (value.is_string()) {
      take("default", value.get<std::string>(), "chat_template");
    } else if (value.is_array() || value.is_object()) {
      for (const auto &[key, entry] : value.items()) {
        bool named = value.is_array() && entry.is_object() && entry.contains("name") && entry["name"].is_string() &&
                     entry.contains("template") && entry["template"].is_string();
        if (!named && !(value.is_object() && entry.is_string()))
          return inputError(file, "chat_template: expected a string, or a list of objects with name and template");
        std::string name = named ? entry["name"].get<std::string>() : key;
        take(name, (named ? entry["template"] : entry).get<std::string>(), "chat_template '" + name + "'");
      }
    } else {
      return inputError(file, "chat_template: expected a string, or a list of objects with name and template, got " +
                                  Twine(value.type_name()));
    }
    ledger.addKey(file, "chat_template", LedgerOutcome::Consumed, "the chat template " + names);
    return Error::success();
  }

  ArrayRef<std::string> ignoredKeys;
  Ledger &ledger;
};

} // namespace

Expected<ChatFormat> ingot::readChatFormat(const TokenizerSource &source, StringRef modelPath,
                                           ArrayRef<std::string> ignoredKeys, Ledger &ledger) {
  FormatReader reader(ignoredKeys, ledger);
  Error error = source.kind == TokenizerSource::Kind::Gguf          ? reader.readGguf(*source.gguf, modelPath)
                : source.kind == TokenizerSource::Kind::HuggingFace ? reader.readDirectory(source)
                                                                    : Error::success();
  if (error)
    return std::move(error);
  return std::move(reader.format);
}
