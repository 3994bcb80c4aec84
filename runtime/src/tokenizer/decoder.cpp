// What each decoder does, after the `tokenizers` library's decode_chain
// functions, as a stage of a stream.
#include "tokenizer/decoder.h"

#include "tokenizer/matcher.h"

#include <algorithm>
#include <optional>

namespace ingot::rt {

namespace {

constexpr char replacement[] = "\xef\xbf\xbd";

/// The byte that a token <0xXX> stands for. Like Rust's from_str_radix, which
/// the reference asks, with a plus sign for the first digit too.
std::optional<uint8_t> byteOfToken(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>')
    return std::nullopt;
  auto digit = [](char c) {
    if (c >= '0' && c <= '9')
      return c - '0';
    if (c >= 'a' && c <= 'f')
      return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  const int high = token[3] == '+' ? 0 : digit(token[3]), low = digit(token[4]);
  if (high < 0 || low < 0)
    return std::nullopt;
  return static_cast<uint8_t>(high * 16 + low);
}

/// The bytes that a text in the byte-level alphabet stands for; its own if a
/// character is not in it.
std::string bytesOfByteLevel(std::string_view text) {
  std::string result;
  uint32_t length;
  for (size_t at = 0; at < text.size(); at += length) {
    const uint32_t codePoint = codePointAt(text, at, length);
    uint32_t byte = 0;
    while (byte < 256 && ingot_rt_tok_byte_level(static_cast<uint8_t>(byte)) != codePoint)
      ++byte;
    if (byte == 256)
      return std::string(text);
    result.push_back(static_cast<char>(byte));
  }
  return result;
}

void replaceAll(std::string &text, std::string_view from, std::string_view to) {
  for (size_t at = 0; !from.empty() && (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

} // namespace

DecoderChain::DecoderChain(const uint8_t *base, const ingot_rt_tok_header &header)
    : base(base), bytes(base, header.bytes), automata(base, header.automata) {
  Table<ingot_rt_tok_decoder> steps(base, header.decoders);
  for (uint64_t i = 0; i < steps.count; ++i)
    stages.push_back({steps.data + i});
}

void DecoderChain::push(std::string_view text, std::string &result) {
  out = &result;
  token(0, text);
}

void DecoderChain::finish(std::string &result) {
  out = &result;
  finish(size_t(0));
  checked.finish(result);
}

void DecoderChain::token(size_t stage, std::string_view text) {
  begin(stage);
  part(stage, text);
  end(stage);
}

/// FUSE and BYTE_LEVEL: the one token begins with the first.
void DecoderChain::beginFused(size_t stage) {
  if (!stages[stage].open)
    begin(stage + 1);
  stages[stage].open = true;
}

void DecoderChain::begin(size_t index) {
  if (index == stages.size())
    return;
  Stage &stage = stages[index];
  switch (stage.step->kind) {
  case INGOT_RT_TOK_DECODER_FUSE:
    return beginFused(index);
  case INGOT_RT_TOK_DECODER_BYTE_FALLBACK:
    stage.passing = false;
    stage.held.clear();
    return;
  case INGOT_RT_TOK_DECODER_BYTE_LEVEL:
  case INGOT_RT_TOK_DECODER_PATTERN:
  case INGOT_RT_TOK_DECODER_PREFIX:
    stage.held.clear();
    return;
  case INGOT_RT_TOK_DECODER_SUFFIX:
    if (stage.open) {
      replaceAll(stage.held, poolBytes(bytes, stage.step->text), " ");
      token(index + 1, stage.held);
    }
    stage.held.clear();
    stage.open = true;
    return;
  case INGOT_RT_TOK_DECODER_STRIP:
    stage.held.clear();
    stage.count = stage.step->left;
    stage.passing = false;
    return begin(index + 1);
  case INGOT_RT_TOK_DECODER_JOIN:
    begin(index + 1);
    if (stage.count++)
      part(index + 1, " ");
    return;
  case INGOT_RT_TOK_DECODER_METASPACE:
    ++stage.count;
    return begin(index + 1);
  default:
    return begin(index + 1);
  }
}

void DecoderChain::part(size_t index, std::string_view text) {
  if (text.empty())
    return;
  if (index == stages.size())
    return checked.push(text, *out);
  Stage &stage = stages[index];
  switch (stage.step->kind) {
  case INGOT_RT_TOK_DECODER_BYTE_LEVEL:
  case INGOT_RT_TOK_DECODER_PATTERN:
  case INGOT_RT_TOK_DECODER_PREFIX:
  case INGOT_RT_TOK_DECODER_SUFFIX:
    stage.held += text;
    return;
  case INGOT_RT_TOK_DECODER_BYTE_FALLBACK:
    if (stage.passing)
      return part(index + 1, text);
    stage.held += text;
    if (stage.held.size() <= 6)
      return;
    flushBytes(index);
    stage.passing = true;
    begin(index + 1);
    return part(index + 1, stage.held);
  case INGOT_RT_TOK_DECODER_REPLACE:
    return replacePart(index, text);
  case INGOT_RT_TOK_DECODER_STRIP:
    return stripPart(index, text);
  case INGOT_RT_TOK_DECODER_METASPACE:
    return metaspacePart(index, text);
  default:
    return part(index + 1, text);
  }
}

void DecoderChain::end(size_t index) {
  if (index == stages.size())
    return;
  Stage &stage = stages[index];
  switch (stage.step->kind) {
  case INGOT_RT_TOK_DECODER_FUSE:
  case INGOT_RT_TOK_DECODER_SUFFIX:
    return;
  case INGOT_RT_TOK_DECODER_BYTE_LEVEL: {
    std::string text;
    beginFused(index);
    stage.utf8.push(bytesOfByteLevel(stage.held), text);
    return part(index + 1, text);
  }
  case INGOT_RT_TOK_DECODER_BYTE_FALLBACK:
    if (stage.passing)
      return end(index + 1);
    if (auto byte = byteOfToken(stage.held)) {
      stage.bytes.push_back(static_cast<char>(*byte));
      return;
    }
    flushBytes(index);
    return token(index + 1, stage.held);
  case INGOT_RT_TOK_DECODER_REPLACE:
    part(index + 1, stage.held);
    stage.held.clear();
    return end(index + 1);
  case INGOT_RT_TOK_DECODER_PATTERN:
    return token(index + 1, replaceMatches(*stage.step, stage.held));
  case INGOT_RT_TOK_DECODER_STRIP:
    return endStrip(index);
  case INGOT_RT_TOK_DECODER_PREFIX:
    return endPrefixed(index);
  default:
    return end(index + 1);
  }
}

void DecoderChain::finish(size_t index) {
  if (index == stages.size())
    return;
  Stage &stage = stages[index];
  switch (stage.step->kind) {
  case INGOT_RT_TOK_DECODER_FUSE:
    beginFused(index);
    end(index + 1);
    break;
  case INGOT_RT_TOK_DECODER_BYTE_LEVEL: {
    std::string text;
    beginFused(index);
    stage.utf8.finish(text);
    part(index + 1, text);
    end(index + 1);
    break;
  }
  case INGOT_RT_TOK_DECODER_BYTE_FALLBACK:
    flushBytes(index);
    break;
  case INGOT_RT_TOK_DECODER_SUFFIX:
    if (stage.open) {
      replaceAll(stage.held, poolBytes(bytes, stage.step->text), "");
      token(index + 1, stage.held);
    }
    break;
  default:
    break;
  }
  finish(index + 1);
}

/// Emits the run of bytes that has ended: as text if all of it is UTF-8.
void DecoderChain::flushBytes(size_t index) {
  std::string run;
  run.swap(stages[index].bytes);
  if (run.empty())
    return;
  if (isValidUtf8(run))
    return token(index + 1, run);
  for (size_t i = 0; i < run.size(); ++i)
    token(index + 1, replacement);
}

/// What may still be the start of a match is held.
void DecoderChain::replacePart(size_t index, std::string_view text) {
  Stage &stage = stages[index];
  const std::string_view from = poolBytes(bytes, stage.step->text), to = poolBytes(bytes, stage.step->content);
  if (from.empty())
    return part(index + 1, text);
  stage.held += text;
  std::string ready;
  size_t done = 0;
  for (size_t found; (found = stage.held.find(from, done)) != std::string::npos; done = found + from.size()) {
    ready.append(stage.held, done, found - done);
    ready += to;
  }
  size_t kept = std::min(stage.held.size() - done, from.size() - 1);
  while (kept && !from.starts_with(std::string_view(stage.held).substr(stage.held.size() - kept)))
    --kept;
  ready.append(stage.held, done, stage.held.size() - kept - done);
  stage.held.erase(0, stage.held.size() - kept);
  part(index + 1, ready);
}

std::string DecoderChain::replaceMatches(const ingot_rt_tok_decoder &step, std::string_view text) const {
  const ingot_rt_tok_automaton *automaton = automata.at(step.index);
  if (!automaton)
    return std::string(text);
  std::string result;
  size_t done = 0;
  Matcher(base, *automaton).findAll(text, [&](size_t start, size_t stop) {
    result += text.substr(done, start - done);
    result += poolBytes(bytes, step.content);
    done = stop;
  });
  return result += text.substr(done);
}

/// Characters at the end that may be stripped are held.
void DecoderChain::stripPart(size_t index, std::string_view text) {
  Stage &stage = stages[index];
  const std::string_view content = poolBytes(bytes, stage.step->text);
  if (content.empty())
    return part(index + 1, text);
  while (!stage.passing) {
    if (stage.count && text.starts_with(content)) {
      text.remove_prefix(content.size());
      --stage.count;
      if (text.empty())
        return;
      continue;
    }
    stage.passing = true;
  }
  size_t run = text.size();
  while (stage.step->right && text.substr(0, run).ends_with(content))
    run -= content.size();
  if (run) {
    std::string held;
    held.swap(stage.held);
    part(index + 1, held);
    part(index + 1, text.substr(0, run));
  }
  stage.held += text.substr(run);
}

void DecoderChain::endStrip(size_t index) {
  Stage &stage = stages[index];
  const size_t content = std::max<size_t>(1, stage.step->text.length);
  const size_t stripped = std::min<size_t>(stage.step->right, stage.held.size() / content);
  std::string held;
  held.swap(stage.held);
  part(index + 1, std::string_view(held).substr(0, held.size() - stripped * content));
  end(index + 1);
}

void DecoderChain::metaspacePart(size_t index, std::string_view text) {
  const Stage &stage = stages[index];
  const std::string_view character = poolBytes(bytes, stage.step->text);
  std::string result(text);
  replaceAll(result, character, stage.count == 1 && stage.step->left ? "" : " ");
  part(index + 1, result);
}

void DecoderChain::endPrefixed(size_t index) {
  Stage &stage = stages[index];
  const std::string_view prefix = poolBytes(bytes, stage.step->text);
  std::string text;
  text.swap(stage.held);
  if (stage.count++) {
    if (text.starts_with(prefix))
      text.erase(0, prefix.size());
    else
      text.insert(text.begin(), ' ');
  }
  token(index + 1, text);
}

} // namespace ingot::rt
