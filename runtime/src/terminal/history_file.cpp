// Reading, adding, trimming.
#include "terminal/history_file.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ingot::rt {

std::string historyPath() {
  const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
  std::string folder;
  if (state && state[0] == '/')
    folder = state;
  else if (home && home[0] == '/')
    folder = std::string(home) + "/.local/state";
  return folder.empty() ? "" : folder + "/ingot/chat_history";
}

std::string historyLine(std::string_view entry) {
  std::string line;
  for (char c : entry)
    if (c == '\n')
      line += "\\n";
    else if (c == '\\')
      line += "\\\\";
    else
      line += c;
  return line;
}

std::string historyEntry(std::string_view line) {
  std::string entry;
  for (size_t i = 0; i < line.size(); ++i)
    if (line[i] == '\\' && i + 1 < line.size())
      entry += line[++i] == 'n' ? '\n' : line[i];
    else
      entry += line[i];
  return entry;
}

Result<std::vector<std::string>> readHistory(const std::string &path, size_t most) {
  std::vector<std::string> entries;
  FILE *file = fopen(path.c_str(), "rbe");
  if (!file) {
    if (errno == ENOENT || errno == ENOTDIR)
      return entries;
    return makeError("%s: %s", path.c_str(), strerror(errno));
  }
  std::string text;
  char buffer[65536];
  while (size_t count = fread(buffer, 1, sizeof buffer, file))
    text.append(buffer, count);
  int code = ferror(file) ? errno : 0;
  fclose(file);
  if (code != 0)
    return makeError("%s: %s", path.c_str(), strerror(code));
  size_t start = 0;
  for (size_t end; (end = text.find('\n', start)) != std::string::npos; start = end + 1)
    if (end != start)
      entries.push_back(historyEntry(std::string_view(text).substr(start, end - start)));
  if (entries.size() > most)
    entries.erase(entries.begin(), entries.end() - static_cast<ptrdiff_t>(most));
  return entries;
}

static Error makeFolders(const std::string &path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    std::string folder = path.substr(0, slash);
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
      return makeError("%s: %s", folder.c_str(), strerror(errno));
  }
  return {};
}

static Error writeAll(int descriptor, const std::string &path, std::string_view text) {
  while (!text.empty()) {
    ssize_t count = write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return makeError("%s: %s", path.c_str(), strerror(errno));
    text.remove_prefix(static_cast<size_t>(count));
  }
  return {};
}

Error addHistory(const std::string &path, std::string_view entry) {
  if (Error error = makeFolders(path))
    return error;
  // One write at the end of the file: chats at the same time do not cut each other's entries.
  int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (descriptor < 0)
    return makeError("%s: %s", path.c_str(), strerror(errno));
  Error error = writeAll(descriptor, path, historyLine(entry) + "\n");
  close(descriptor);
  return error;
}

Error trimHistory(const std::string &path, size_t most) {
  Result<std::vector<std::string>> entries = readHistory(path, 2 * most + 1);
  if (!entries)
    return entries.takeError();
  if (entries->size() <= 2 * most)
    return {};
  std::string text, temporary = path + ".XXXXXX";
  for (size_t i = entries->size() - most; i < entries->size(); ++i)
    text += historyLine((*entries)[i]) + "\n";
  int descriptor = mkstemp(temporary.data());
  if (descriptor < 0)
    return makeError("%s: %s", temporary.c_str(), strerror(errno));
  Error error = writeAll(descriptor, temporary, text);
  close(descriptor);
  if (!error && rename(temporary.c_str(), path.c_str()) != 0)
    error = makeError("%s: %s", path.c_str(), strerror(errno));
  if (error)
    unlink(temporary.c_str());
  return error;
}

} // namespace ingot::rt
