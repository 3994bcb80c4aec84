#!/usr/bin/env python3
"""The verb chat, from a pipe and at a pseudo-terminal, with a model of random weights and a template that drops earlier
thinking. What is asked of it is told by the other verbs: ids by chat-template, answers by generate."""
import json
import os
import pty
import re
import select
import shutil
import signal
import stat
import struct
import termios
import fcntl
import time
import unittest

from support import Failure, case_model, compiled, ids, ok, refused, run, scratch

TEMPLATE = """{%- for m in messages -%}
<|im_start|>{{ m.role }}
{% if m.role == 'assistant' and not loop.last %}{{ m.content.split('</think>')[-1] }}{% else %}{{ m.content }}{% endif %}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% if enable_thinking is defined and enable_thinking is false %}<think>

</think>

{% elif thinks is defined %}<think>
{% endif %}{%- endif -%}"""
CONTEXT = 256


def model(name, template=TEMPLATE):
    """A directory with SmolLM2's tokenizer and this template."""
    path = scratch(name)
    if not os.path.isdir(path):
        shutil.copytree(case_model("tokenizer-smollm2"), path)
        with open(os.path.join(path, "chat_template.jinja"), "w", encoding="utf-8") as f:
            f.write(template)
    return path


def executable(seed=1):
    return compiled(model("templated"), f"--weights=random:{seed}", f"--max-context={CONTEXT}")


def piped(text, *args, exe=None, code=0, **options):
    result = run(exe or executable(), "chat", "--greedy", *args, stdin=text.encode(), **options)
    if result.code != code:
        raise Failure(str(result))
    return result


def stats(text):
    """prompt, from the cache, computed, answer of each turn that /stats tells of."""
    found = re.findall(r"turn \d+: prompt (\d+) tokens, (\d+) from the cache, (\d+) computed.*?; answer (\d+) tokens", text)
    return [tuple(map(int, one)) for one in found]


def saved(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


class Pipe(unittest.TestCase):
    def prompt_ids(self, messages, **variables):
        request = json.dumps({"messages": messages, "add_generation_prompt": True, **variables})
        return [int(i) for i in ok(executable(), "chat-template", "--ids", stdin=request.encode()).text.split(",")]

    def check_turns(self, questions, *args, system=None, **variables):
        """Every turn's answer is that of the whole conversation rendered anew, and computes what the last turn had not."""
        path = scratch("turns.json")
        out = piped("".join(q + "\n" for q in questions) + f"/stats\n/save {path}\n", "-n", 12, *args).text
        first = [{"role": "system", "content": system}] if system else []
        messages, computed, expected, answers = [], [], [], ""
        for question, told in zip(questions, saved(path)["messages"][1::2]):
            messages.append({"role": "user", "content": question})
            prompt = self.prompt_ids(first + messages, **variables)
            answer = ok(executable(), "generate", "--greedy", "--json", "-n", 12, "--tokens", ids(prompt)).json
            self.assertEqual(answer["text"], told["content"])
            messages.append({"role": "assistant", "content": answer["text"]})
            common = 0
            while common < min(len(computed), len(prompt) - 1) and computed[common] == prompt[common]:
                common += 1
            expected.append((len(prompt), common, len(prompt) - common, len(answer["tokens"])))
            computed = (prompt + answer["tokens"])[:-1]
            answers += answer["text"] + "\n"
        self.assertEqual(saved(path)["messages"], messages)
        self.assertEqual(stats(out), expected)
        self.assertTrue(out.startswith(answers), "no prompts, no colours")
        self.assertNotIn("\033", out)
        self.assertGreater(expected[-1][1], 0)

    def test_turns(self):
        self.check_turns(["What is 2+2?", "And the capital of Italy?", "Why?"])
        self.check_turns(["What is 2+2?", "Why?"], "--system", "Answer briefly.", system="Answer briefly.")

    def test_a_template_that_drops_thinking(self):
        self.check_turns(["Think </think> of <|im_end|> this.", "And that?"], "--no-think", enable_thinking=False)
        self.check_turns(["Think.", "More?"], "--template-arg", "thinks=1", thinks=1)

    def test_lines_and_commands(self):
        path = scratch("lines.json")
        piped('one\\\ntwo\n"""\nthree\n\n  four\n"""\n//five\n\n/system be brief\n' + f"/save {path}\n", "-n", 2)
        got = saved(path)
        self.assertEqual([m["content"] for m in got["messages"][::2]], ["one\ntwo", "three\n\n  four", "/five"])
        self.assertEqual(got["system"], "be brief")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        piped(f"/load {path}\n/undo\n/undo\nsix\n/regenerate\n/system none\n/save {path}\n", "-n", 2)
        again = saved(path)
        self.assertEqual([m["content"] for m in again["messages"][::2]], ["one\ntwo", "six"])
        self.assertEqual(again["messages"][:2], got["messages"][:2])
        self.assertIsNone(again["system"])
        piped(f"/load {path}\n/clear\n/save {path}\n", "-n", 2, "--system", "x")
        self.assertEqual(saved(path)["messages"], [])
        self.assertIn("/regenerate", piped("/help\n").text)

    def test_regenerate_draws_anew(self):
        path = scratch("again.json")
        texts = []
        for command in ("", "/regenerate\n", "/regenerate\n"):
            result = run(executable(), "chat", "--seed", "3", "--temperature", "5", "-n", 8,
                         stdin=f"hello\n{command}/save {path}\n".encode())
            self.assertEqual(result.code, 0, str(result))
            texts.append(saved(path)["messages"][1]["content"])
        self.assertEqual(texts[1], texts[2], "a session with a seed is always the same")
        self.assertNotEqual(texts[0], texts[1])

    def test_set(self):
        path = scratch("set.json")
        text = f"/set n 3\nhello\n/set max_new_tokens 5\nhello\n/set n default\nhello\n/stats\n/save {path}\n"
        self.assertEqual([t[3] for t in stats(piped(text, "-n", 2, "--ignore-eos").text)], [3, 5, 2])
        whole = saved(path)["messages"][1]["content"]
        cut = whole[len(whole) // 2:]
        piped(f"/set n 3\n/set stop {cut}\nhello\n/save {path}\n", "--ignore-eos")
        if cut.strip() == cut:
            self.assertEqual(saved(path)["messages"][1]["content"], whole[:whole.index(cut)])
        thinking = piped("/set think false\nhello\n/set think default\n/clear\nhello\n/stats\n", "-n", 2)
        with_tags, without = (t[0] for t in stats(thinking.text))
        self.assertGreater(with_tags, without)

    def test_errors_are_told_and_the_rest_goes_on(self):
        path = scratch("errors.json")
        for line, words in (("/nothing", "unknown command"), ("/stat", "/stats"), ("/undo", "no question"), ("/regenerate", "no answer"),
                            ("/set", "KEY VALUE"), ("/set tempratur 1", "temperature"), ("/set temperature -1", "at least 0"),
                            ("/set greedy maybe", "true, false"), ("/set ctx 5", "unknown key"), ("/set think 3", "think"),
                            ("/save", "file"), ("/load /nonexistent", "/nonexistent"), ("/save /nonexistent/x", "/nonexistent/x")):
            result = piped(f"{line}\nhello\n/save {path}\n", "-n", 2, code=1)
            self.assertIn(words, result.err)
            self.assertEqual(len(saved(path)["messages"]), 2)

    def test_another_models_session(self):
        path = scratch("other.json")
        piped(f"hello\n/save {path}\n", "-n", 2, exe=executable(2))
        result = piped(f"/load {path}\n/save {path}.not\n", code=1)
        self.assertIn("another model", result.err)
        self.assertEqual(saved(path + ".not")["messages"], [])
        with open(path, "w", encoding="utf-8") as f:
            f.write("{")
        self.assertIn(path, piped(f"/load {path}\n", code=1).err)

    def test_what_is_no_file_is_not_replaced(self):
        pipe = scratch("pipe.json")
        if not os.path.exists(pipe):
            os.mkfifo(pipe)
        self.assertIn("expected a file", piped(f"hello\n/save {pipe}\n", "-n", 2, code=1).err)
        self.assertTrue(stat.S_ISFIFO(os.stat(pipe).st_mode))

    def test_a_full_context(self):
        long = "word " * 40
        text = f"{long}\n{long}\n{long}\n/stats\n"
        result = piped(text, "-n", 8, "--ctx", 128, "--ignore-eos", code=1)
        self.assertRegex(result.err, r"error: the context is full: the conversation has \d+ tokens, the context 128")
        self.assertEqual(len(stats(result.text)), 2)
        result = piped(text, "-n", 8, "--ctx", 128, "--ignore-eos", "--on-full=drop-oldest")
        self.assertIn("forgot the oldest 2 messages", result.err)
        self.assertEqual(len(stats(result.text)), 3)
        self.assertIn("forgot", result.text)
        result = piped("hello\n", "--ctx", 64, "--ignore-eos")
        self.assertIn("the answer is cut", result.err)
        result = piped("word " * 300 + "\nhello\n", "-n", 2, "--on-full=drop-oldest", code=1)
        self.assertIn("the context is full", result.err)
        refused(executable(), "chat", "--on-full=never", codes=(2,), words=("on-full", "never"))

    def test_without_a_verb(self):
        exe = executable()
        self.assertEqual(ok(exe, stdin=b"hello").text, ok(exe, "generate", "-p", "hello").text, "text piped in is a prompt")
        refused(compiled("tokenizer-smollm2", "--weights=random:1"), "chat", words=("template",))
        refused(compiled("llama-gqa-tied"), "chat", words=("tokenizer",))
        for bad in (("--temperature", "-1"), ("--stop", ""), ("-n", "x")):
            refused(exe, "chat", *bad)


class Terminal:
    """An executable at a pseudo-terminal."""

    def __init__(self, *args, env=None, exe=None):
        self.state = scratch("state")
        variables = {"TERM": "xterm-256color", "XDG_STATE_HOME": self.state, "PATH": os.environ["PATH"]}
        variables.update(env or {})
        program = exe or executable()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(program, [program, *map(str, args)], {k: v for k, v in variables.items() if v is not None})
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        self.all = ""
        self.raw = b""
        self.at = 0

    def read(self, wait):
        if not select.select([self.fd], [], [], wait)[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            data = b""
        self.raw += data
        self.all = self.raw.decode("utf-8", "replace")
        return bool(data)

    def until(self, text, seconds=120):
        """Waits until `text` stands in what came since the last wait; returns all of that."""
        end = time.monotonic() + seconds
        while text not in self.all[self.at:]:
            if time.monotonic() > end or (not self.read(1) and self.ended()):
                raise Failure(f"no {text!r} on the terminal: {self.all[self.at:][-400:]!r}")
        stop = self.all.index(text, self.at) + len(text)
        part, self.at = self.all[self.at:stop], stop
        return part

    def editing(self, seconds=60):
        """Waits until the line editor has the terminal, which it takes after it has drawn the prompt; the settings then."""
        end = time.monotonic() + seconds
        while (settings := termios.tcgetattr(self.fd))[3] & termios.ICANON:
            if time.monotonic() > end:
                raise Failure(f"the terminal still edits lines itself: {self.all[-400:]!r}")
            time.sleep(0.01)
        return settings

    def type(self, text):
        os.write(self.fd, text.encode())

    def ended(self):
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self.status = os.waitstatus_to_exitcode(status)
        return bool(pid)

    def close(self, keys="\x04"):
        """Ends the program; its exit code."""
        self.type(keys)
        end = time.monotonic() + 60
        while not self.ended():
            self.read(0.2)
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
                raise Failure("the program does not end")
        while self.read(0.1):
            pass
        self.settings = termios.tcgetattr(self.fd)
        os.close(self.fd)
        return self.status


class AtATerminal(unittest.TestCase):
    def setUp(self):
        shutil.rmtree(scratch("state"), ignore_errors=True)
        self.history = os.path.join(scratch("state"), "ingot", "chat_history")

    def entries(self):
        with open(self.history, encoding="utf-8") as f:
            return f.read().splitlines()

    def test_editing_and_history(self):
        path = scratch("edited.json")
        t = Terminal("chat", "--greedy", "-n", 2)
        t.until("> ")
        t.type("wörld\x01hello \x05!\x7f?")  # to the beginning, to the end, one back
        t.type("\x1b[D\x1b[D\x1b[D日\r")  # left three times
        t.until("> ")
        t.type("\x1b[200~two\rlines\x1b[201~\r")  # a paste is one message
        t.until("> ")
        t.type(f"/save {path}\r")
        t.until("4 messages saved")
        t.until("> ")
        self.assertEqual(t.close(), 0)
        self.assertEqual([m["content"] for m in saved(path)["messages"][::2]], ["hello wör日ld?", "two\nlines"])
        self.assertEqual(self.entries(), ["hello wör日ld?", "two\\nlines", f"/save {path}"])
        self.assertEqual(stat.S_IMODE(os.stat(self.history).st_mode), 0o600)
        again = Terminal("chat", "--greedy", "-n", 2)
        again.until("> ")
        again.type("\x1b[A\x1b[A\x1b[A\r")  # three up: the first question
        again.until("> ")
        again.type(f"/save {path}\r")
        again.until("2 messages saved")
        again.until("> ")
        again.type("/exit\r")
        self.assertEqual(again.close(""), 0)
        self.assertEqual(saved(path)["messages"][0]["content"], "hello wör日ld?")

    def test_interrupt_stops_the_answer_only(self):
        # An answer without an end: thousands of tokens, of which a few have come when it is stopped.
        t = Terminal("chat", "--greedy", "--ignore-eos", "--no-history", exe=compiled(model("templated"), "--weights=random:1"))
        t.until("> ")
        t.type("hello\r")
        t.until("\r\n")
        t.until(" ")
        t.type("\x03")
        t.until("stopped")
        t.until("> ")
        t.type("half a line\x03")
        t.until("Ctrl-D")
        t.until("> ")
        t.type("/set n 3\r/stats\r")
        self.assertIn("end: cancelled", t.until("context: "))
        t.until("> ")
        t.type("again\r/stats\r")
        shown = t.until("context: ")
        t.until("> ")
        self.assertIn("end: length", shown)
        first, second = stats(shown)
        self.assertGreaterEqual(second[1], first[0] - 1, "what was computed before the interrupt is kept")
        self.assertEqual(t.close(), 0)
        self.assertFalse(os.path.exists(self.history))

    def test_the_end_may_be_typed_ahead(self):
        t = Terminal("chat", "--greedy", "--ignore-eos", "--no-history", "-n", 40)
        t.until("> ")
        t.type("hello\r")
        t.until("\r\n")
        self.assertEqual(t.close(), 0)
        self.assertEqual(t.settings[6][termios.VEOF], b"\x04", "the terminal is left as it was found")

    def test_stopped_and_continued(self):
        t = Terminal("chat", "-n", 2, "--ignore-eos")
        t.until("> ")
        editing = t.editing()
        t.type("hel")
        t.until("hel")
        os.kill(t.pid, signal.SIGSTOP)
        cooked = termios.tcgetattr(t.fd)
        cooked[3] |= termios.ICANON | termios.ECHO  # as a shell does, which has the terminal meanwhile
        termios.tcsetattr(t.fd, termios.TCSANOW, cooked)
        os.kill(t.pid, signal.SIGCONT)
        t.until("> hel")  # drawn anew
        self.assertEqual(t.editing()[:4], editing[:4])
        t.type("lo\n")
        t.until("> ")
        self.assertEqual(t.close(), 0)
        self.assertEqual(self.entries(), ["hello"])

    def test_terminated(self):
        t = Terminal("chat")
        found = termios.tcgetattr(t.fd)
        t.until("> ")
        self.assertNotEqual(t.editing()[3], found[3])
        os.kill(t.pid, signal.SIGTERM)
        self.assertEqual(t.close(""), -signal.SIGTERM)
        self.assertEqual(t.settings[3], found[3], "the terminal is left as it was found")
        self.assertTrue(t.all.endswith("\033[?2004l"), "pastes have marks still")

    def test_colours(self):
        for env, dims in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"TERM": None}, False)):
            with self.subTest(env):
                t = Terminal("chat", "--greedy", "-n", 3, "--template-arg", "thinks=1", "--no-history", env=env)
                t.until("> ")
                t.type("think\r")
                t.until("\n")
                t.until("> ")
                self.assertEqual(t.close(), 0)
                self.assertEqual("\x1b[2m" in t.all, dims)
                self.assertEqual("\x1b[0m" in t.all, dims)
                if "TERM" in env:
                    self.assertNotIn("\x1b", t.all)

    def test_alone_at_a_terminal(self):
        t = Terminal()
        t.until("/help lists the commands")
        t.until("> ")
        self.assertEqual(t.close(), 0)
        t = Terminal(exe=compiled("llama-gqa-tied"))
        t.until("usage:")
        t.close("")
        self.assertEqual(t.status, 2)

    def test_hostile_text_moves_no_cursor(self):
        t = Terminal("chat", "--no-history", "--greedy", "-n", 1, "--system", "\x1b]0;title\x07\x1b[2J")
        t.until("> ")
        t.type("/system\r")
        t.until("title")
        t.until("> ")
        self.assertEqual(t.close(), 0)
        self.assertNotIn("\x1b[2J", t.all)
        self.assertNotIn("\x1b]0", t.all)


if __name__ == "__main__":
    unittest.main(verbosity=2)
