// The history of a chat: entries in a file, one a line.
#ifndef INGOT_RUNTIME_TERMINAL_HISTORY_FILE_H
#define INGOT_RUNTIME_TERMINAL_HISTORY_FILE_H

#include "support/error.h"

#include <string>
#include <string_view>
#include <vector>

namespace ingot::rt {

/// Where the history lies: $XDG_STATE_HOME/ingot/chat_history, by default ~/.local/state/ingot/chat_history (XDG Base
/// Directory Specification: a relative path counts as unset). Empty where there is no home.
std::string historyPath();

/// An entry as a line of the file, without its end: line feeds and backslashes are escaped.
std::string historyLine(std::string_view entry);
std::string historyEntry(std::string_view line);

/// The newest entries, at most `most`, oldest first. A file that is not there has none.
Result<std::vector<std::string>> readHistory(const std::string &path, size_t most);
/// Adds an entry; makes the file and its folders, readable by their owner only, where they are not there.
Error addHistory(const std::string &path, std::string_view entry);
/// Leaves the newest `most` entries where there are more than twice as many.
Error trimHistory(const std::string &path, size_t most);

} // namespace ingot::rt
#endif // INGOT_RUNTIME_TERMINAL_HISTORY_FILE_H
