// A chat without a terminal or a model: turns, what fits, input, thinking, files.
#include "chat/conversation.h"
#include "chat/input.h"
#include "chat/session_file.h"
#include "chat/thinking.h"
#include "terminal/history_file.h"

#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace ingot::rt;

namespace {

std::string folder() {
  static const std::string made = [] {
    std::string path = testing::TempDir() + "ingot-chat-XXXXXX";
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    return path;
  }();
  return made;
}

/// A token for each byte of what a message says, and one for each message: lengths that are easy to count.
Result<std::vector<int32_t>> byBytes(std::span<const ChatMessage> messages) {
  std::vector<int32_t> ids;
  for (const ChatMessage &message : messages) {
    ids.push_back(256);
    ids.insert(ids.end(), message.content.begin(), message.content.end());
  }
  return ids;
}

std::string told(const Conversation &conversation) {
  std::string text;
  for (const ChatMessage &message : conversation.all())
    text += message.role.substr(0, 1) + ":" + message.content + " ";
  return text;
}

TEST(Conversation, TurnsComeAndGo) {
  Conversation chat;
  EXPECT_FALSE(chat.undo());
  EXPECT_FALSE(chat.reopen());
  chat.system = "be kind";
  chat.ask("1");
  EXPECT_FALSE(chat.reopen()) << "not answered yet";
  chat.answer("one");
  chat.ask("2");
  EXPECT_EQ(told(chat), "s:be kind u:1 a:one u:2 ");
  EXPECT_TRUE(chat.undo()) << "a question without its answer";
  EXPECT_EQ(told(chat), "s:be kind u:1 a:one ");
  EXPECT_TRUE(chat.reopen());
  EXPECT_EQ(told(chat), "s:be kind u:1 ");
  chat.answer("uno");
  EXPECT_TRUE(chat.undo());
  EXPECT_TRUE(chat.empty());
  chat.ask("3");
  EXPECT_FALSE(chat.dropOldest()) << "the last question stays";
}

TEST(Conversation, AFullContextIsAnErrorOrForgets) {
  for (OnFull policy : {OnFull::Stop, OnFull::DropOldest})
    for (uint64_t context = 1; context < 30; ++context) {
      SCOPED_TRACE(testing::Message() << context << (policy == OnFull::Stop ? " stop" : " drop"));
      Conversation chat;
      for (const char *text : {"aaa", "bbb", "ccc"}) { // 4 tokens each, 8 a turn
        chat.ask(text);
        chat.answer("xyz");
      }
      chat.ask("ddd");
      Result<ChatPrompt> prompt = fitPrompt(chat, byBytes, context, 5, policy);
      if (policy == OnFull::Stop) {
        ASSERT_EQ(bool(prompt), context > 28) << "one token must have room";
        if (!prompt) {
          std::string message = prompt.takeError().message();
          EXPECT_NE(message.find("28"), std::string::npos) << message;
          EXPECT_NE(message.find(std::to_string(context)), std::string::npos) << message;
        } else
          EXPECT_EQ(prompt->dropped, 0u);
        continue;
      }
      if (context <= 4) { // the question alone
        EXPECT_FALSE(prompt);
        continue;
      }
      ASSERT_TRUE(prompt);
      uint64_t turns = std::min<uint64_t>(3, context < 9 ? 0 : (context - 9) / 8);
      EXPECT_EQ(prompt->ids.size(), 4 + 8 * turns);
      EXPECT_EQ(prompt->dropped, 2 * (3 - turns));
      EXPECT_EQ(chat.turns().size(), 1 + 2 * turns);
      EXPECT_EQ(chat.turns().back().content, "ddd");
    }
}

TEST(Conversation, AnErrorOfTheTemplateIsPassedOn) {
  Conversation chat;
  chat.ask("x");
  auto raise = [](std::span<const ChatMessage>) -> Result<std::vector<int32_t>> {
    return makeError("no system, please");
  };
  Result<ChatPrompt> prompt = fitPrompt(chat, raise, 10, 1, OnFull::DropOldest);
  ASSERT_FALSE(prompt);
  EXPECT_EQ(prompt.takeError().message(), "no system, please");
}

std::vector<std::string> messages(std::initializer_list<const char *> lines) {
  MessageReader reader;
  std::vector<std::string> list;
  for (const char *line : lines)
    if (reader.push(line))
      list.push_back(reader.take());
  if (reader.pending())
    list.push_back("..." + reader.take());
  return list;
}

TEST(MessageReader, OneLineOrSeveral) {
  using List = std::vector<std::string>;
  EXPECT_EQ(messages({"a", "", "b\r"}), (List{"a", "", "b"}));
  EXPECT_EQ(messages({"a\\", "b\\", "c", "d"}), (List{"a\nb\nc", "d"}));
  EXPECT_EQ(messages({"\"\"\"", "a\\", " b", "\"\"\"", "c"}), (List{"a\\\n b", "c"}));
  EXPECT_EQ(messages({"\"\"\"a", "", "b\"\"\""}), (List{"a\n\nb"}));
  EXPECT_EQ(messages({"\"\"\"one line\"\"\""}), (List{"one line"}));
  EXPECT_EQ(messages({"\"\"\"", "\"\"\""}), (List{""}));
  EXPECT_EQ(messages({"say \"\"\"", "x"}), (List{"say \"\"\"", "x"}));
  EXPECT_EQ(messages({"\"\"\"never", "ended"}), (List{"...never\nended\n"}));
  EXPECT_EQ(messages({"a\\"}), (List{"...a\n"}));
}

TEST(ChatInput, CommandsAndTexts) {
  auto parsed = [](const char *text) {
    ChatInput input = parseChatInput(text);
    return input.command + "|" + input.text;
  };
  EXPECT_EQ(parsed("hello /stats"), "|hello /stats");
  EXPECT_EQ(parsed("/stats"), "stats|");
  EXPECT_EQ(parsed("/set  top-k  5 "), "set|top-k  5");
  EXPECT_EQ(parsed("/system two\nlines"), "system|two\nlines");
  EXPECT_EQ(parsed("//etc/passwd"), "|/etc/passwd");
  EXPECT_EQ(parsed("/"), "/|");
}

/// Every way of cutting a text gives the same parts, once neighbours are joined.
TEST(Thinking, IsToldFromTheAnswer) {
  using Kind = ThinkingSplitter::Kind;
  auto split = [](const std::string &text, size_t size, bool inside) {
    ThinkingSplitter splitter(inside);
    std::string all;
    auto add = [&](const std::vector<ThinkingSplitter::Part> &parts) {
      for (const auto &part : parts)
        for (char c : part.text)
          all += std::string(1, part.kind == Kind::Answer ? 'a' : part.kind == Kind::Thinking ? 't' : '#') + c;
    };
    for (size_t at = 0; at < text.size(); at += size)
      add(splitter.push(text.substr(at, size)));
    add(splitter.finish());
    return all;
  };
  auto marked = [](std::initializer_list<std::pair<char, const char *>> parts) {
    std::string all;
    for (const auto &[kind, text] : parts)
      for (const char *c = text; *c; ++c)
        all += std::string(1, kind) + *c;
    return all;
  };
  for (size_t size = 1; size < 40; ++size) {
    EXPECT_EQ(split("<think>hm <b</think>yes <thin <think>", size, false),
              marked({{'#', "<think>"}, {'t', "hm <b"}, {'#', "</think>"}, {'a', "yes <thin "}, {'#', "<think>"}}));
    EXPECT_EQ(split("so</think>ok</think>", size, true), marked({{'t', "so"}, {'#', "</think>"}, {'a', "ok</think>"}}));
    EXPECT_EQ(split("a < b</thin", size, false), marked({{'a', "a < b</thin"}}));
    EXPECT_EQ(split("a<think>b</thin", size, false), marked({{'a', "a"}, {'#', "<think>"}, {'t', "b</thin"}}));
  }
  ThinkingSplitter eager;
  EXPECT_EQ(eager.push("a < b"), (std::vector<ThinkingSplitter::Part>{{Kind::Answer, "a < b"}})) << "nothing waits";
  EXPECT_TRUE(opensThinking("assistant\n<think>\n"));
  EXPECT_FALSE(opensThinking("assistant\n<think>\n\n</think>\n\n"));
  EXPECT_FALSE(opensThinking("<think> is a tag\nassistant\n"));
  EXPECT_FALSE(opensThinking(""));
}

TEST(Terminal, GetsTextAndNothingElse) {
  EXPECT_EQ(withoutControls("a\tb\nc é\xc2\xa0日"), "a\tb\nc é\xc2\xa0日");
  EXPECT_EQ(withoutControls("\033[2Jx\r\x7f\xc2\x9b"), "\ufffd[2Jx\ufffd\ufffd\ufffd");
}

TEST(SessionFile, ComesBackAsItWas) {
  std::string path = folder() + "/chat.json";
  Conversation chat;
  chat.system = "a \"quoted\" system\n";
  chat.ask("日本\t\x01");
  chat.answer("<think>no</think>\\");
  ChatModel model{"tiny", "1234"};
  Error error = saveConversation(path, chat, model);
  ASSERT_FALSE(error) << error.message();
  struct stat status;
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  Conversation back;
  error = loadConversation(path, back, model);
  ASSERT_FALSE(error) << error.message();
  EXPECT_EQ(told(back), told(chat));
  chat.system.reset();
  ASSERT_FALSE(saveConversation(path, chat, model));
  ASSERT_FALSE(loadConversation(path, back, model));
  EXPECT_FALSE(back.system) << "replaced as a whole";
}

TEST(SessionFile, RefusesWhatIsNotOne) {
  std::string path = folder() + "/bad.json";
  ChatModel model{"tiny", "1234"};
  auto refused = [&](const std::string &text) {
    std::ofstream(path) << text;
    Conversation chat;
    chat.ask("kept");
    Error error = loadConversation(path, chat, model);
    EXPECT_TRUE(error) << text;
    EXPECT_EQ(told(chat), "u:kept ");
    return error ? error.message() : "";
  };
  auto contains = [](const std::string &text, const char *part) { return text.find(part) != std::string::npos; };
  std::string head = R"({"ingot_chat": 1, "model": "other", "identity": "1234", "system": null, "messages": )";
  std::string other =
      refused(R"({"ingot_chat": 1, "model": "other", "identity": "99", "system": null, "messages": []})");
  EXPECT_TRUE(contains(other, "another model") && contains(other, "tiny") && contains(other, "other")) << other;
  EXPECT_TRUE(contains(refused(""), "bad.json"));
  EXPECT_TRUE(contains(refused("[]"), "ingot_chat"));
  EXPECT_TRUE(contains(refused(R"({"ingot_chat": 2})"), "format 1"));
  EXPECT_TRUE(contains(refused(R"({"ingot_chat": 1, "model": 3})"), "'model'"));
  EXPECT_TRUE(contains(refused(head + "3}"), "'messages'"));
  EXPECT_TRUE(contains(refused(head + R"([{"role": "user"}]})"), "message 0"));
  EXPECT_TRUE(contains(refused(head + R"([{"role": "user", "content": "x"}]})"), "no answer"));
  EXPECT_TRUE(contains(refused(head + R"([{"role": "assistant", "content": "x"}]})"), "'user'"));
  EXPECT_TRUE(contains(refused(R"({"ingot_chat": 1, "model": "m", "identity": "1234", "system": 5, "messages": []})"),
                       "'system'"));
  Conversation chat;
  EXPECT_TRUE(contains(loadConversation(folder() + "/absent", chat, model).message(), "absent"));
  EXPECT_TRUE(contains(saveConversation(folder() + "/no/such", chat, model).message(), "no/such"));
}

TEST(History, IsAFileOfLines) {
  std::string path = folder() + "/state/ingot/history";
  EXPECT_EQ(readHistory(path, 9)->size(), 0u);
  std::vector<std::string> entries = {"one", "two\nlines", "back\\slash \\n", "日本"};
  for (const std::string &entry : entries)
    ASSERT_FALSE(addHistory(path, entry));
  EXPECT_EQ(*readHistory(path, 9), entries);
  EXPECT_EQ(*readHistory(path, 2), (std::vector<std::string>{entries[2], entries[3]}));
  struct stat status;
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  ASSERT_FALSE(trimHistory(path, 2)) << "not more than twice as many";
  EXPECT_EQ(readHistory(path, 9)->size(), 4u);
  ASSERT_FALSE(addHistory(path, "five"));
  ASSERT_FALSE(trimHistory(path, 2));
  EXPECT_EQ(*readHistory(path, 9), (std::vector<std::string>{"日本", "five"}));
  EXPECT_TRUE(addHistory("/proc/nothing/here", "x"));
}

TEST(History, LiesWhereXdgSays) {
  setenv("HOME", "/home", 1);
  setenv("XDG_STATE_HOME", "/state", 1);
  EXPECT_EQ(historyPath(), "/state/ingot/chat_history");
  setenv("XDG_STATE_HOME", "relative", 1);
  EXPECT_EQ(historyPath(), "/home/.local/state/ingot/chat_history");
  unsetenv("XDG_STATE_HOME");
  EXPECT_EQ(historyPath(), "/home/.local/state/ingot/chat_history");
  unsetenv("HOME");
  EXPECT_EQ(historyPath(), "");
}

} // namespace
