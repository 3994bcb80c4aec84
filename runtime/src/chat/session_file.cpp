// Sessions as JSON.
#include "chat/session_file.h"

#include "support/json.h"
#include "support/output.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>

namespace ingot::rt {

namespace {

void write(JsonWriter &json, const Conversation &conversation, const ChatModel &model) {
  json.beginObject();
  json.key("ingot_chat");
  json.number(uint64_t(1));
  json.key("model");
  json.text(model.name);
  json.key("identity");
  json.text(model.identity);
  json.key("system");
  if (conversation.system)
    json.text(*conversation.system);
  else
    json.null();
  json.key("messages");
  json.beginArray();
  for (const ChatMessage &message : conversation.turns()) {
    json.beginObject();
    json.key("role");
    json.text(message.role);
    json.key("content");
    json.text(message.content);
    json.endObject();
  }
  json.endArray();
  json.endObject();
}

Result<std::string> readFile(const std::string &path) {
  FILE *file = fopen(path.c_str(), "rbe");
  if (!file)
    return makeError("%s: %s", path.c_str(), strerror(errno));
  std::string text;
  char buffer[65536];
  while (size_t count = fread(buffer, 1, sizeof buffer, file))
    text.append(buffer, count);
  int code = ferror(file) ? errno : 0;
  fclose(file);
  if (code != 0)
    return makeError("%s: %s", path.c_str(), strerror(code));
  return text;
}

/// The string at `key`, or an error.
Result<std::string> stringAt(const JsonValue &object, const char *key) {
  const JsonValue *value = object.find(key);
  if (!value || value->kind != JsonValue::Kind::String)
    return makeError("key '%s': expected a string", key);
  return value->text;
}

Error read(const JsonValue &root, Conversation &conversation, const ChatModel &model) {
  const JsonValue *format = root.find("ingot_chat");
  if (root.kind != JsonValue::Kind::Object || !format)
    return makeError("expected a saved chat, an object with the key 'ingot_chat'");
  if (format->text != "1")
    return makeError("key 'ingot_chat': expected format 1, got %s", format->text.c_str());
  Result<std::string> name = stringAt(root, "model"), identity = stringAt(root, "identity");
  if (!name)
    return name.takeError();
  if (!identity)
    return identity.takeError();
  if (*identity != model.identity)
    return makeError("a chat with another model: expected %s (%s), got %s (%s)", model.name.c_str(),
                     model.identity.c_str(), name->c_str(), identity->c_str());
  const JsonValue *system = root.find("system"), *list = root.find("messages");
  bool given = system && system->kind == JsonValue::Kind::String;
  if (!given && (!system || system->kind != JsonValue::Kind::Null))
    return makeError("key 'system': expected a string or null");
  if (!list || list->kind != JsonValue::Kind::Array)
    return makeError("key 'messages': expected a list");
  std::vector<ChatMessage> messages;
  for (size_t i = 0; i < list->items.size(); ++i) {
    Result<std::string> role = stringAt(list->items[i], "role"), content = stringAt(list->items[i], "content");
    if (!role || !content)
      return makeError("message %zu: expected an object with the strings 'role' and 'content'", i);
    messages.push_back({std::move(*role), std::move(*content)});
  }
  if (Error error = conversation.restore(std::move(messages)))
    return error;
  conversation.system = given ? std::optional(system->text) : std::nullopt;
  return {};
}

} // namespace

Error saveConversation(const std::string &path, const Conversation &conversation, const ChatModel &model) {
  // The file is put in place whole; a device or a pipe must not be replaced by one.
  struct stat status;
  if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
    return makeError("%s: expected a file, got a device, a pipe or a socket", path.c_str());
  std::string temporary = path + ".XXXXXX";
  int descriptor = mkstemp(temporary.data()); // readable by its owner only
  if (descriptor < 0)
    return makeError("%s: %s", path.c_str(), strerror(errno));
  Output output(descriptor);
  JsonWriter json(output);
  write(json, conversation, model);
  output.write("\n");
  output.flush();
  int code = output.failed();
  if (close(descriptor) != 0 && code == 0)
    code = errno;
  if (code == 0 && rename(temporary.c_str(), path.c_str()) != 0)
    code = errno;
  if (code == 0)
    return {};
  unlink(temporary.c_str());
  return makeError("%s: %s", path.c_str(), strerror(code));
}

Error loadConversation(const std::string &path, Conversation &conversation, const ChatModel &model) {
  Result<std::string> text = readFile(path);
  if (!text)
    return text.takeError();
  Result<JsonValue> root = parseJson(*text);
  Error error = root ? read(*root, conversation, model) : root.takeError();
  return error ? makeError("%s: %s", path.c_str(), error.message().c_str()) : Error();
}

} // namespace ingot::rt
