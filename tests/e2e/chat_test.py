#!/usr/bin/env python3
"""Chat templates in the program, from outside. Environment: TENON_E2E_PROGRAM and TENON_E2E_DATA as for launcher_test.py."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import launcher_test
from gguf_file import Gguf, STRING
from launcher_test import DATA, MODEL, PROGRAM, RECURRENT_MODEL, environment

MODELS = sorted(str(path) for path in (DATA / "models").glob("*/*.gguf"))
QUESTION = [{"role": "user", "content": "1 2 3 4 5"}]


class Case(launcher_test.Case):
    def file(self, value, name="messages.json"):
        path = self.folder / name
        path.write_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), encoding="utf-8")
        return path

    def render(self, value, *words, model=MODEL):
        return self.tenon("chat", "-m", model, "--messages", self.file(value), "--render", *words)

    def without_template(self, model=MODEL):
        """The same model, its chat template under a name that nobody looks for."""
        path = self.folder / "bare.gguf"
        blob = pathlib.Path(model).read_bytes()
        self.assertEqual(blob.count(b"tokenizer.chat_template"), 1)
        path.write_bytes(blob.replace(b"tokenizer.chat_template", b"tokenizer.chat_ttemplat"))
        return path

    def with_template(self, source, model=MODEL):
        """The same model with another template."""
        file = Gguf(model)
        file.keys["tokenizer.chat_template"] = STRING, source.encode()
        path = self.folder / "other.gguf"
        file.write(path)
        return path


class Render(Case):
    def test_prints_the_prompt_and_nothing_else(self):
        text = self.render(QUESTION)
        self.assertIn("1 2 3 4 5", text)
        self.assertEqual(self.errors, "")
        self.assertEqual(text, self.render({"messages": QUESTION}))
        self.assertEqual(text, self.render({"messages": QUESTION, "add_generation_prompt": True, "tools": None}))
        self.assertTrue(text.startswith(self.render({"messages": QUESTION, "add_generation_prompt": False})))

    def test_takes_variables_from_the_file_and_the_command_line(self):
        model = self.with_template("{{ messages[0].content }}|{{ tools | length if tools }}|{{ x }}|{{ y }}|{{ bos_token }}")
        value = {"messages": QUESTION, "tools": [{}, {}], "x": [1, {"a": None}], "y": "file"}
        self.assertEqual(self.render(value, model=model), "1 2 3 4 5|2|[1, {'a': None}]|file|<bos>")
        self.assertEqual(self.render(value, "--template-args", '{"y": 2.0}', model=model), "1 2 3 4 5|2|[1, {'a': None}]|2.0|<bos>")

    def test_refusals(self):
        self.refused("--messages", "chat", "-m", MODEL, "--render")
        self.refused("contradict", "chat", "-m", MODEL, "--messages", self.file(QUESTION), "--system", "x")
        self.refused("--template-args", "chat", "-m", MODEL, "--messages", self.file(QUESTION), "--template-args", "[]")
        self.refused("cannot be given here", "run", "-m", MODEL, "-p", "a", "--template-args", '{"messages": []}')
        self.refused("no valid JSON", "chat", "-m", MODEL, "--messages", self.file("{"), "--render", status=3)
        self.refused("messages", "chat", "-m", MODEL, "--messages", self.file({"a": 1}), "--render", status=3)
        self.refused("missing.json", "chat", "-m", MODEL, "--messages", self.folder / "missing.json", "--render", status=3)
        self.refused("messages.json: messages[0]", "chat", "-m", MODEL, "--messages", self.file([5]), "--render")
        self.refused("no chat template", "chat", "-m", self.without_template(), "--messages", self.file(QUESTION), "--render", status=3)

    def test_what_the_template_refuses_is_usage_and_a_broken_template_a_file_error(self):
        model = self.with_template("\n{{ raise_exception('only haiku') }}")
        self.refused("line 2: only haiku", "chat", "-m", model, "--messages", self.file(QUESTION), "--render")
        model = self.with_template("{% if x %}")
        self.refused("line 1", "chat", "-m", model, "--messages", self.file(QUESTION), "--render", status=3)
        self.refused("--raw", "run", "-m", self.with_template("{{ x.y }}"), "-p", "a", status=1)


class Run(Case):
    def run_json(self, *words, model=MODEL):
        return json.loads(self.tenon("run", "-m", model, "--json", "--temp", "0", *words))

    def test_a_text_is_asked_with_the_template(self):
        rendered = self.render(QUESTION)
        ids = json.loads(self.tenon("tokenize", "-m", MODEL, "--json", "--no-bos", "--", rendered))["ids"]
        asked = self.run_json("-p", "1 2 3 4 5", "-n", "8")
        self.assertEqual(asked["timings"]["prompt_tokens"], len(ids))
        self.assertEqual(asked["ids"], self.run_json("--tokens", ",".join(map(str, ids)), "-n", "8")["ids"])
        self.assertNotIn("chat template", self.errors)

    def test_the_beginning_of_text_is_there_once(self):
        bos = json.loads(self.tenon("tokenize", "-m", MODEL, "--json", "--", ""))["ids"]
        self.assertEqual(len(bos), 1)
        for source in ("{{ bos_token }}{{ messages[0].content }}", "{{ messages[0].content }}"):
            model = self.with_template(source)
            plain = self.run_json("-p", "1 2 3 4 5", "-n", "4", "--raw")
            self.assertEqual(self.run_json("-p", "1 2 3 4 5", "-n", "4", model=model)["ids"], plain["ids"], source)

    def test_without_a_template_the_text_is_completed_and_said_so(self):
        bare = self.without_template()
        completed = self.run_json("-p", "1 2 3 4 5", "-n", "8", model=bare)
        self.assertIn("no chat template", self.errors)
        raw = self.run_json("-p", "1 2 3 4 5", "-n", "8", "--raw", model=bare)
        self.assertNotIn("chat template", self.errors)
        self.assertEqual(completed["ids"], raw["ids"])

    def test_template_arguments_reach_the_template(self):
        model = self.with_template("{{ messages[0].content if how == 'plainly' else raise_exception('how?') }}")
        self.run_json("-p", "1", "-n", "1", "--template-args", '{"how": "plainly"}', model=model)
        self.refused("how?", "run", "-m", model, "-p", "1", "-n", "1")


class Chat(Case):
    def chat(self, text, *words, model=MODEL, status=0):
        done = subprocess.run([PROGRAM, "chat", "-m", str(model), "--temp", "0", *map(str, words)], input=text.encode(), capture_output=True,
                              env=environment(), timeout=250)
        self.errors = done.stderr.decode("utf-8", errors="replace")
        self.assertEqual(done.returncode, status, self.errors)
        return done.stdout.decode("utf-8")

    def answers(self, model, turns, system=None):
        """What `chat --messages` answers to each of the turns, with the answers before in the conversation."""
        messages = [{"role": "system", "content": system}] if system else []
        found = []
        for turn in turns:
            messages.append({"role": "user", "content": turn})
            text = self.tenon("chat", "-m", model, "--messages", self.file(messages), "-n", "6", "--temp", "0", "--ignore-eos")
            found.append(text)
            messages.append({"role": "assistant", "content": text[:-1]})
        return found

    def test_answers_with_the_history_as_if_it_were_given_at_once(self):
        for model in (MODEL, RECURRENT_MODEL):
            turns = ["1 2 3", "Once upon a time"]
            text = self.chat("\n".join(turns) + "\n", "-n", "6", "--ignore-eos", model=model)
            self.assertEqual(text, "".join(self.answers(model, turns)), model)

    def test_commands(self):
        once = self.chat("1 2 3", "-n", "6", "--ignore-eos")
        self.assertEqual(self.chat("1 2 3\n/clear\n\n1 2 3\n", "-n", "6", "--ignore-eos"), once + once)
        self.assertEqual(self.chat("/exit\n1 2 3\n", "-n", "6"), "")
        self.assertIn("/clear", self.chat("/help\n"))
        self.assertEqual(self.chat("/dance\n"), "")
        self.assertIn("/dance", self.errors)

    def test_a_system_message_comes_first(self):
        model = self.with_template("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
        self.assertEqual(self.chat("1 2\n3\n", "-n", "6", "--ignore-eos", "--system", "Count.", model=model),
                         "".join(self.answers(model, ["1 2", "3"], "Count.")))

    def test_a_message_that_cannot_be_answered_is_dropped(self):
        model = self.with_template("{{ raise_exception('no') if 'bad' in messages[-1].content }}{{ messages[-1].content }}{{ messages | length }}")
        text = self.chat("bad\n1 2 3\n", "-n", "6", "--ignore-eos", model=model)
        self.assertIn("no; the message is dropped", self.errors)
        self.assertEqual(text, self.chat("1 2 3\n", "-n", "6", "--ignore-eos", model=model))

    def test_control_c_ends_waiting_for_a_line(self):
        process = subprocess.Popen([PROGRAM, "chat", "-m", MODEL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=environment())
        self.assertIn(b"gemma3", process.stderr.readline())  # loaded
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, errors.decode())

    def test_a_file_without_a_template_is_refused(self):
        self.refused("instruction-tuned", "chat", "-m", self.without_template(), status=3)


class Reuse(Case):
    """What later turns compute. Counted by the program itself, with -v."""
    PROMPT = re.compile(r"prompt (\d+) tokens(?:, (\d+) of them new,)? in .*, generated (\d+) in")
    KNOWN = re.compile(r"reused (\d+) of (\d+) tokens, known up to token (\d+)(.*?);")

    def chat(self, lines, *words, model=MODEL):
        """Answers' text, and for each of them (prompt, computed, generated, known) in tokens."""
        done = subprocess.run([PROGRAM, "chat", "-m", str(model), "--temp", "0", "--ignore-eos", "-v", *map(str, words)],
                              input="".join(line + "\n" for line in lines).encode(), capture_output=True, env=environment(), timeout=250)
        self.errors = done.stderr.decode("utf-8", errors="replace")
        self.assertEqual(done.returncode, 0, self.errors)
        turns = [(int(n), int(new or n), int(made)) for n, new, made in self.PROMPT.findall(self.errors)]
        known = [(int(reused), int(n), int(up_to)) for reused, n, up_to, _ in self.KNOWN.findall(self.errors)]
        self.assertEqual([(n, n - new) for n, new, _ in turns], [(n, reused) for reused, n, _ in known], self.errors)
        return done.stdout.decode("utf-8", errors="replace"), [(*turn, up_to) for turn, (_, _, up_to) in zip(turns, known)]

    @staticmethod
    def lines(n):
        return [" ".join(str(7 * turn + word) for word in range(5 + turn * 5 % 23)) for turn in range(n)]

    def expect_little(self, turns, first=1):
        """At most a grid step and the least prefill beside what was not known."""
        for prompt, computed, _, known in turns[first:]:
            self.assertLessEqual(computed, prompt - known + 80, turns)

    def test_later_turns_compute_only_what_is_new(self):
        for path in MODELS:
            with self.subTest(model=path):
                _, turns = self.chat(self.lines(10), "-n", "30", model=path)
                self.assertEqual(len(turns), 10)
                self.assertGreater(turns[-1][0], 400)
                self.expect_little(turns)
                if "gemma4" in path:
                    continue  # its template drops parts of what was said
                # The others repeat it word for word: what is new is what follows the answer before.
                for before, (prompt, computed, _, _) in zip(turns, turns[1:]):
                    self.assertLessEqual(computed, prompt - (before[0] + before[2]) + 80, turns)

    def test_earlier_turns_may_be_rewritten(self):
        # As templates do that drop what was thought.
        source = "{% for m in messages %}<{{ m.role }}>{{ m.content if m.role == 'user' else '.' }}\n{% endfor %}<assistant>"
        for path in (MODEL, RECURRENT_MODEL):
            with self.subTest(model=path):
                _, turns = self.chat(self.lines(10), "-n", "90", model=self.with_template(source, path))
                self.expect_little(turns)
                for before, (prompt, computed, _, _) in zip(turns, turns[1:]):
                    self.assertLessEqual(computed, prompt - before[0] + 80, turns)

    def test_going_back_computes_little(self):
        for path in (MODEL, RECURRENT_MODEL):
            with self.subTest(model=path):
                lines = self.lines(4)
                text, turns = self.chat([*lines, "/retry", "/undo", lines[3], "/undo", "/undo", lines[2], "/clear", lines[0]], "-n", "70", model=path)
                self.assertEqual([turn[0] for turn in turns], [turns[i][0] for i in (0, 1, 2, 3, 3, 3, 2, 0)])
                self.expect_little(turns)
                self.assertLessEqual(turns[4][1], 80, "the same prompt again")
                self.assertEqual(text.count("\n") >= 8, True)

    def test_undo_and_retry_give_the_answers_again(self):
        def said(*lines):
            return self.chat(lines, "-n", "6", "--recompute")[0]
        first, other, second = said("1 2 3"), said("1 2 3", "x y"), said("1 2 3", "4 5")
        self.assertTrue(other.startswith(first) and second.startswith(first))
        second = second[len(first):]
        self.assertEqual(said("1 2 3", "x y", "/undo", "4 5", "/retry"), other + second + second)
        for command in ("/undo", "/retry"):
            self.assertEqual(self.chat([command])[0], "")
            self.assertIn("there is no", self.errors.replace("there is nothing", "there is no"))

    def test_recomputed_answers_equal_those_to_the_whole_conversation(self):
        for path in (MODEL, RECURRENT_MODEL):
            with self.subTest(model=path):
                lines = self.lines(5)
                cached = self.chat(lines, "-n", "40", "--recompute", model=path)
                self.assertNotIn("made by decode steps", self.errors)
                self.assertIn("as a cold run computes them", self.errors)
                self.assertEqual(cached[0], self.chat(lines, "-n", "40", "--recompute", "--prefix-cache", "0", model=path)[0])
                for before, (prompt, computed, _, _) in zip(cached[1], cached[1][1:]):
                    self.assertLessEqual(computed, prompt - before[0] + 80, cached[1])

    def test_the_cache_has_a_limit(self):
        lines = self.lines(6)
        for path in (MODEL, RECURRENT_MODEL):
            for limit in ("0", "1", "300K"):
                _, turns = self.chat(lines, "-n", "30", "--prefix-cache", limit, model=path)
                self.assertEqual(len(turns), 6)
                plan = json.loads(self.tenon("inspect", path, "--plan", "--json", "--prefix-cache", limit))["plan"]
                self.assertLessEqual(plan["prefix_cache"]["bytes"], plan["prefix_cache"]["limit_bytes"])
                self.assertEqual(plan["prefix_cache"]["limit_bytes"], {"0": 0, "1": 1, "300K": 300 << 10}[limit])
        self.chat(lines[:1], "-n", "1", "--prefix-cache", "1", model=RECURRENT_MODEL)
        self.assertIn("--prefix-cache 1 is less than", self.errors)
        whole = json.loads(self.tenon("inspect", RECURRENT_MODEL, "--plan", "--json"))["plan"]
        none = json.loads(self.tenon("inspect", RECURRENT_MODEL, "--plan", "--json", "--prefix-cache", "0"))["plan"]
        cache = whole["prefix_cache"]
        self.assertEqual(whole["store_bytes"] - none["store_bytes"], cache["bytes"])
        self.assertEqual(cache["bytes"], cache["pages"] * cache["page_bytes"] + cache["checkpoints"] * cache["checkpoint_bytes"])
        self.assertGreater(cache["checkpoints"], 1)
        self.refused("--prefix-cache", "chat", "-m", MODEL, "--prefix-cache", "much")

    def test_a_full_context_ends_the_answer_and_not_the_chat(self):
        _, turns = self.chat([*self.lines(3), "/clear", "1 2"], "-n", "60", "-c", "120", model=RECURRENT_MODEL)
        self.assertIn("ended by context", self.errors)
        self.assertIn("the message is dropped", self.errors)
        self.assertLess(turns[-1][0], 60)


if __name__ == "__main__":
    import unittest
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]], verbosity=2)
