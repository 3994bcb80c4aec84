// What libedit asks of its surroundings, so that it works in an executable that stands alone.
//
// libedit takes characters from the C library's locale and terminals from a terminfo database. Both are files that the
// machine may not have (and a static executable could read only those of its own version of the C library). So its
// archive is linked with these functions in their place; runtime/CMakeLists.txt renames them in a copy of it, as
// libedit.symbols lists. Characters are UTF-8, whatever the locale, by utf8proc's tables; terminals understand ECMA-48
// (as xterm and its like do), since those that do not are told apart before libedit is started.
#include "tokenizer/utf8.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <cwchar>
#include <utf8proc.h>

using namespace ingot::rt;

namespace {
constexpr auto failed = static_cast<size_t>(-1), incomplete = static_cast<size_t>(-2);

bool isCodePoint(wint_t c) { return c <= 0x10ffff && !(c >= 0xd800 && c <= 0xdfff); }

utf8proc_category_t category(wint_t c) {
  return isCodePoint(c) ? utf8proc_category(static_cast<utf8proc_int32_t>(c)) : UTF8PROC_CATEGORY_CN;
}
} // namespace

// The declarations that -Wmissing-prototypes would ask for are libedit's own calls.
extern "C" {

// ------------------------------------------------------------------------------------------------------- characters

size_t ingot_rt_edit_mb_cur_max() { return 4; }

size_t ingot_rt_edit_mbrtowc(wchar_t *to, const char *from, size_t count, mbstate_t *) {
  if (!from)
    return 0;
  if (count == 0)
    return incomplete;
  Utf8Step step = readUtf8(from, from + count);
  if (step.kind == Utf8Step::Kind::Incomplete)
    return incomplete;
  if (step.kind == Utf8Step::Kind::Broken) {
    errno = EILSEQ;
    return failed;
  }
  if (to)
    *to = static_cast<wchar_t>(step.codePoint);
  return step.codePoint == 0 ? 0 : step.length;
}

size_t ingot_rt_edit_wcrtomb(char *to, wchar_t c, mbstate_t *) {
  if (!to)
    return 1;
  if (!isCodePoint(static_cast<wint_t>(c))) {
    errno = EILSEQ;
    return failed;
  }
  std::string text;
  appendUtf8(text, static_cast<uint32_t>(c));
  std::copy(text.begin(), text.end(), to);
  return text.size();
}

int ingot_rt_edit_wctomb(char *to, wchar_t c) {
  return to ? static_cast<int>(ingot_rt_edit_wcrtomb(to, c, nullptr)) : 0;
}

int ingot_rt_edit_wctob(wint_t c) { return c < 0x80 ? static_cast<int>(c) : EOF; }

size_t ingot_rt_edit_mbstowcs(wchar_t *to, const char *from, size_t most) {
  const char *end = from + strlen(from);
  size_t count = 0;
  for (; from < end && (!to || count < most); ++count) {
    Utf8Step step = readUtf8(from, end);
    if (to)
      to[count] = static_cast<wchar_t>(step.codePoint);
    from += step.length;
  }
  if (to && count < most)
    to[count] = 0;
  return count;
}

size_t ingot_rt_edit_wcstombs(char *to, const wchar_t *from, size_t most) {
  size_t size = 0;
  for (; *from; ++from) {
    char bytes[4];
    size_t length = ingot_rt_edit_wcrtomb(bytes, *from, nullptr);
    if (length == failed)
      return failed;
    if (to && size + length > most)
      return size;
    if (to)
      memcpy(to + size, bytes, length);
    size += length;
  }
  if (to && size < most)
    to[size] = 0;
  return size;
}

/// Columns; -1 for what is not shown.
int ingot_rt_edit_wcwidth(wchar_t c) {
  if (c == 0)
    return 0;
  utf8proc_category_t kind = category(static_cast<wint_t>(c));
  if (kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CN || kind == UTF8PROC_CATEGORY_CS)
    return -1;
  return utf8proc_charwidth(static_cast<utf8proc_int32_t>(c));
}

int ingot_rt_edit_iswcntrl(wint_t c) { return category(c) == UTF8PROC_CATEGORY_CC; }
int ingot_rt_edit_iswprint(wint_t c) {
  return isCodePoint(c) && ingot_rt_edit_wcwidth(static_cast<wchar_t>(c)) >= 0 && c != 0;
}
int ingot_rt_edit_iswdigit(wint_t c) { return c >= '0' && c <= '9'; }
int ingot_rt_edit_iswupper(wint_t c) { return category(c) == UTF8PROC_CATEGORY_LU; }
int ingot_rt_edit_iswlower(wint_t c) { return category(c) == UTF8PROC_CATEGORY_LL; }
int ingot_rt_edit_iswspace(wint_t c) {
  utf8proc_category_t kind = category(c);
  return (c >= '\t' && c <= '\r') || kind == UTF8PROC_CATEGORY_ZS || kind == UTF8PROC_CATEGORY_ZL ||
         kind == UTF8PROC_CATEGORY_ZP;
}
int ingot_rt_edit_iswalpha(wint_t c) {
  utf8proc_category_t kind = category(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_ME; // letters and their marks
}
int ingot_rt_edit_iswalnum(wint_t c) { return ingot_rt_edit_iswalpha(c) || category(c) == UTF8PROC_CATEGORY_ND; }
int ingot_rt_edit_iswgraph(wint_t c) { return ingot_rt_edit_iswprint(c) && !ingot_rt_edit_iswspace(c); }
wint_t ingot_rt_edit_towupper(wint_t c) {
  return isCodePoint(c) ? static_cast<wint_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))) : c;
}
wint_t ingot_rt_edit_towlower(wint_t c) {
  return isCodePoint(c) ? static_cast<wint_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))) : c;
}

// --------------------------------------------------------------------------------- terminals, as termcap tells of them

int ingot_rt_edit_tgetent(char *, const char *) { return 1; }

int ingot_rt_edit_tgetflag(const char *name) {
  // Automatic margins, and a cursor that waits behind the last column.
  return strcmp(name, "am") == 0 || strcmp(name, "xn") == 0;
}

/// The size is asked of the terminal itself.
int ingot_rt_edit_tgetnum(const char *name) { return strcmp(name, "co") == 0 ? 80 : strcmp(name, "li") == 0 ? 24 : -1; }

char *ingot_rt_edit_tgetstr(const char *name, char **) {
  static const struct {
    char name[3];
    const char *sequence; ///< ECMA-48; %d stands for a parameter
  } table[] = {
      {"bl", "\a"},       {"cr", "\r"},       {"nd", "\033[C"},        {"up", "\033[A"},   {"ho", "\033[H"},
      {"ce", "\033[K"},   {"cd", "\033[J"},   {"cl", "\033[H\033[2J"}, {"dc", "\033[P"},   {"DC", "\033[%dP"},
      {"IC", "\033[%d@"}, {"al", "\033[L"},   {"dl", "\033[M"},        {"DO", "\033[%dB"}, {"UP", "\033[%dA"},
      {"LE", "\033[%dD"}, {"RI", "\033[%dC"}, {"ku", "\033[A"},        {"kd", "\033[B"},   {"kr", "\033[C"},
      {"kl", "\033[D"},   {"kh", "\033[H"},   {"@7", "\033[F"},        {"kD", "\033[3~"},
  };
  for (const auto &entry : table)
    if (strcmp(entry.name, name) == 0)
      return const_cast<char *>(entry.sequence);
  return nullptr;
}

/// Puts the parameter into a sequence; the result holds until the next call.
char *ingot_rt_edit_tgoto(const char *sequence, int, int parameter) {
  static char text[32];
  const char *place = strstr(sequence, "%d");
  if (!place)
    snprintf(text, sizeof text, "%s", sequence);
  else
    snprintf(text, sizeof text, "%.*s%d%s", static_cast<int>(place - sequence), sequence, parameter, place + 2);
  return text;
}

int ingot_rt_edit_tputs(const char *sequence, int, int (*put)(int)) {
  for (; *sequence; ++sequence)
    put(static_cast<unsigned char>(*sequence));
  return 0;
}

} // extern "C"
