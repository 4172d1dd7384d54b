#!/usr/bin/env python3
"""The program as several processes, as mpirun starts them. Environment as for launcher_test.py; ends with 77 where there is no
mpirun."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = os.environ["TENON_E2E_PROGRAM"]
MODELS = pathlib.Path(os.environ["TENON_E2E_DATA"]) / "models"
MPIRUN = shutil.which("mpirun")
# More processes than cores may wait for each other here, and none is bound to a core that another one needs.
FLAGS = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-q"]
LIMIT = 3


def model(name):
    return str(sorted((MODELS / name).glob("*.gguf"))[0])


GEMMA, QWEN, RECURRENT = model("gemma3"), model("qwen3"), model("qwen35")


def environment():
    return {name: value for name, value in os.environ.items()
            if name == "TENON_PLUGIN_PATH" or not name.startswith(("TENON_", "OMPI_", "PMIX_", "PMI_"))}


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """The recurrent model in a type of short blocks, which can be cut."""
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.recurrent = folder.name + "/recurrent.gguf"
        subprocess.run([PROGRAM, "quantize", RECURRENT, cls.recurrent, "--type", "Q8_0"], check=True, capture_output=True, env=environment())

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def tenon(self, n, *words, status=0, stdin=None):
        """Of n processes, or the program alone for n = 0."""
        start = [MPIRUN, *FLAGS, "-n", str(n)] if n else []
        done = subprocess.run([*start, PROGRAM, *map(str, words)], capture_output=True, env=environment(), input=stdin, timeout=120)
        self.errors = done.stderr.decode("utf-8", errors="replace")
        self.assertEqual(done.returncode, status, self.errors)
        return done.stdout.decode("utf-8")


class Same(Case):
    def test_the_text_of_one_process_printed_once(self):
        for n, path in ((2, GEMMA), (2, self.recurrent), (4, QWEN)):
            words = ["run", "-m", path, "--tokens", ",".join(map(str, range(5, 105))), "-n", "24", "--temp", "0", "--ignore-eos"]
            alone = self.tenon(0, *words, "--sum-parts", n)
            self.assertTrue(alone)
            self.assertEqual(self.tenon(n, *words), alone)
            self.assertEqual(len(re.findall(" on cpu: ", self.errors)), 1, self.errors)
            self.assertIn(f"in {n} ranks", self.errors)
            self.assertEqual(len(re.findall("ended by length", self.errors)), 1, self.errors)

    def test_stages_and_owners_over_processes(self):
        for n, plan in ((2, ["--pipeline-parallel", "2"]), (3, ["--pipeline-parallel", "3"]), (4, ["--tensor-parallel", "2", "--pipeline-parallel", "2"])):
            words = ["run", "-m", QWEN, "--tokens", ",".join(map(str, range(5, 105))), "-n", "24", "--temp", "0", "--ignore-eos", "--sum-parts", "2"]
            self.assertEqual(self.tenon(n, *words, *plan), self.tenon(0, *words))
        words = ["run", "-m", model("gemma4moe"), "--tokens", "5,6,7", "-n", "12", "--temp", "0", "--ignore-eos"]
        self.assertEqual(self.tenon(2, *words, "--expert-parallel", "2"), self.tenon(0, *words))

    def test_the_bits_of_one_process(self):
        for path in (GEMMA, self.recurrent):
            outputs = {}
            for n in (0, 2):
                outputs[n] = self.folder / f"out{n}"
                common = ["eval", "-m", path, "--tokens", ",".join(map(str, range(5, 155))), "--rows", "all", "--taps", "hidden",
                          "--copies", "2", "--chunk", "64", "--out", outputs[n]]
                self.assertEqual(self.tenon(n, *common, "--sum-parts", 2), "")
            self.assertEqual(outputs[0].read_bytes(), outputs[2].read_bytes(), path)
            self.assertEqual(len(list(self.folder.iterdir())), 2)  # each written once, and nothing left over
            for output in outputs.values():
                output.unlink()

    def test_the_bits_of_a_draft(self):
        for plan in ([], ["--pipeline-parallel", "2"]):
            outputs = []
            for n in (0, 2):
                outputs.append(self.folder / f"draft{n}")
                words = ["eval", "-m", self.recurrent, "--entry", "draft.0", "--tokens", ",".join(map(str, range(5, 155))), "--rows", "0,70,148",
                         "--taps", "draft", "--out", outputs[-1], "--sum-parts", 2]
                self.tenon(n, *words, *(plan if n else []))
            self.assertEqual(outputs[0].read_bytes(), outputs[1].read_bytes(), plan)
            for output in outputs:
                output.unlink()

    def test_a_conversation_from_standard_input(self):
        words = ["chat", "-m", QWEN, "-n", "8", "--temp", "0"]
        lines = b"one two\n/retry\nthree\n"
        alone = self.tenon(0, *words, "--sum-parts", "2", stdin=lines)
        self.assertEqual(alone.count("\n"), 3)
        self.assertEqual(self.tenon(2, *words, stdin=lines), alone)

    def test_ranks_of_one_process_where_a_flag_says_so(self):
        words = ["run", "-m", GEMMA, "--raw", "-p", "1 2 3", "-n", "8", "--temp", "0", "--collective", "threads", "--tensor-parallel", "2"]
        self.assertEqual(self.tenon(2, *words), self.tenon(0, *words))

    def test_a_score_and_speeds(self):
        text = self.folder / "text"
        text.write_text("one two three four five six seven eight nine ten " * 20)
        words = ["perplexity", "-m", GEMMA, "-f", text, "-c", "64", "--json", "--sum-parts", "2"]
        self.assertEqual(self.tenon(2, *words), self.tenon(0, *words))
        speeds = json.loads(self.tenon(2, "bench", "-m", GEMMA, "-p", "64", "-n", "8", "-r", "1", "--json"))
        plan = json.loads(self.tenon(2, "inspect", GEMMA, "--plan", "--json"))["plan"]["ranks"]
        self.assertEqual((speeds["ranks"], plan["number"]), (2, 2))
        self.assertEqual(speeds["decode"]["sent_bytes_per_token"], sum(rank["sent_bytes_a_row"] for rank in plan["each"]))


class Verbs(Case):
    def test_those_without_a_model_s_ranks_are_rank_0_s(self):
        for words in (["tokenize", "-m", GEMMA, "--json", "--", "a b"], ["inspect", GEMMA], ["plugins", "list"], ["--version"], ["run", "--help"]):
            self.assertEqual(self.tenon(2, *words), self.tenon(0, *words))
        out = self.folder / "out.gguf"
        self.assertEqual(self.tenon(2, "quantize", GEMMA, out, "--type", "Q8_0"), "")
        self.assertEqual([path.name for path in self.folder.iterdir()], ["out.gguf"])
        messages = self.folder / "messages.json"
        messages.write_text('[{"role": "user", "content": "a"}]')
        words = ["chat", "-m", QWEN, "--messages", messages, "--render"]
        self.assertEqual(self.tenon(2, *words), self.tenon(0, *words))

    def refused_once(self, named, status, *words):
        self.assertEqual(self.tenon(2, *words, status=status), "")
        said = [line for line in self.errors.splitlines() if line.startswith("tenon:")]
        self.assertEqual(len(said), 1, self.errors)
        self.assertIn(named, said[0])

    def test_what_is_wrong_is_said_once(self):
        self.refused_once("--colour", 2, "run", "-m", GEMMA, "--colour", "red")
        self.refused_once("--prompt", 2, "run", "-m", GEMMA)
        self.refused_once("the plan has 4 ranks, but 2 processes were started", 2, "run", "-m", GEMMA, "-p", "a", "--tensor-parallel", "4")
        self.refused_once("missing.gguf", 3, "run", "-m", self.folder / "missing.gguf", "-p", "a")
        self.refused_once("cannot be cut in 2", 2, "run", "-m", RECURRENT, "-p", "a")
        self.refused_once("no collective", 2, "run", "-m", GEMMA, "-p", "a", "--collective", "nope")

    def test_a_manifest_is_rank_0_s(self):
        script = self.folder / "start"
        script.write_text(f'#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" = 0 ] || cd /\nexec {PROGRAM} "$@"\n')
        script.chmod(0o755)
        (self.folder / "models.txtpb").write_text(f'model {{ name: "small" model: "{QWEN}" pipeline_parallel: 2 }}\n')
        words = ["run", "--manifest", "models.txtpb", "-m", "small", "--raw", "-p", "a", "-n", "4", "--temp", "0"]
        done = subprocess.run([MPIRUN, *FLAGS, "-n", "2", script, *words], capture_output=True, env=environment(), cwd=self.folder, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertIn("in 2 ranks", done.stderr.decode())

    def test_a_rank_that_has_no_model_is_named(self):
        # Each process sees a path of its own: a link that only rank 0 has.
        script = self.folder / "start"
        script.write_text(f'#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" = 0 ] && HOME=/ || cd /\nexec {PROGRAM} "$@"\n')
        script.chmod(0o755)
        done = subprocess.run([MPIRUN, *FLAGS, "-n", "2", script, "run", "-m", "here.gguf", "-p", "a", "--raw", "-n", "1"], capture_output=True,
                              env=environment(), cwd=self.linked(), timeout=120)
        self.assertEqual(done.returncode, 3, done.stderr.decode())
        self.assertEqual(done.stderr.decode().count("tenon:"), 1, done.stderr.decode())
        self.assertIn("rank 1: model file 'here.gguf'", done.stderr.decode())

    def linked(self):
        folder = self.folder / "work"
        folder.mkdir()
        (folder / "here.gguf").symlink_to(GEMMA)
        return folder


class Unlike(Case):
    """Processes that were started together, but not alike."""

    def both(self, first, second, status, environment_of_second=""):
        script = self.folder / "start"
        script.write_text(f'#!/bin/sh\nif [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then exec {PROGRAM} {first}; fi\n{environment_of_second} exec {PROGRAM} {second}\n')
        script.chmod(0o755)
        done = subprocess.run([MPIRUN, *FLAGS, "-n", "2", script], capture_output=True, env=environment(), timeout=60)
        said = done.stderr.decode("utf-8", errors="replace")
        self.assertEqual(done.returncode, status, said)
        return [line for line in said.splitlines() if line.startswith("tenon:")]

    def test_one_that_never_joins_is_waited_for_as_long_as_was_said(self):
        run = f"run -m {QWEN} --tokens 5 -n 1 --rank-timeout {LIMIT}"
        for other in (f"inspect {QWEN}", f"{run} --collective threads"):
            said = self.both(run, other, 1)
            self.assertEqual(len(said), 1, said)
            self.assertIn(f"not all processes that were started together came within {LIMIT} s", said[0])
        said = self.both(f"tokenize -m {QWEN} a", run, 1)
        self.assertEqual(len(said), 1, said)
        self.assertIn("rank 1: ", said[0])

    def test_what_only_another_rank_refuses_that_rank_says(self):
        run = f"run -m {QWEN} --tokens 5 -n 1"
        self.assertEqual(self.both(run, run + " --colour", 2), ["tenon: rank 1: unknown flag --colour; `tenon run --help` lists the flags"])
        self.assertEqual(self.both(run, run, 2, "TENON_THREADS=abc"), ["tenon: rank 1: TENON_THREADS: expected a whole number, found 'abc'"])

    def test_a_place_that_only_the_environment_names(self):
        done = subprocess.run([PROGRAM, "run", "-m", QWEN, "--tokens", "5"], capture_output=True, timeout=60,
                              env={**environment(), "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"})
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"tenon: rank 1: this process is to follow another one, but collective mpi has it as rank 0 of 1", done.stderr)


class Failures(Case):
    """Rank 1 or 0 dies or stops in the middle of a text."""

    def start(self, *flags):
        process = subprocess.Popen([MPIRUN, *FLAGS, *flags, "-n", "2", PROGRAM, "run", "-m", GEMMA, "--raw", "-p", "1 2 3", "-n", "-1", "-c", "8000",
                                    "--temp", "0", "--ignore-eos", "--rank-timeout", str(LIMIT), "--forbid", "gemma."], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=environment())
        self.assertTrue(process.stdout.read(8))
        return process

    def rank(self, process, number):
        for child in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            if f"OMPI_COMM_WORLD_RANK={number}".encode() in pathlib.Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
                return int(child)
        self.fail(f"rank {number} is not there")

    def ended(self, process, seconds):
        begin = time.monotonic()
        out, errors = process.communicate(timeout=60)
        self.assertLess(time.monotonic() - begin, seconds)
        return errors.decode("utf-8", errors="replace")

    def test_a_dead_rank_ends_the_others(self):
        process = self.start("--enable-recovery")  # else mpirun ends them itself
        os.kill(self.rank(process, 1), signal.SIGKILL)
        self.assertIn("rank 1 did not answer", self.ended(process, 3 * LIMIT + 5))

    def test_without_rank_0_the_others_end_and_say_why(self):
        process = self.start("--enable-recovery")
        os.kill(self.rank(process, 0), signal.SIGKILL)
        self.assertIn("tenon: rank 1: ", self.ended(process, 3 * LIMIT + 5))

    def test_mpirun_s_own_end_of_all(self):
        process = self.start()
        os.kill(self.rank(process, 1), signal.SIGKILL)
        self.ended(process, 3 * LIMIT + 5)
        self.assertNotEqual(process.returncode, 0)

    def test_a_stopped_rank_is_named_and_the_status_is_1(self):
        process = self.start()
        stopped = self.rank(process, 1)
        os.kill(stopped, signal.SIGSTOP)
        try:
            self.assertIn("rank 1 did not answer within 3 s", self.ended(process, 3 * LIMIT + 5))
        finally:
            try:
                os.kill(stopped, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.assertEqual(process.returncode, 1)

    def test_rank_0_stopped_in_a_prompt_is_named_too(self):
        # A large message is on its way then, whose memory nobody may touch any more.
        for plan in ([], ["--pipeline-parallel", "2"]):
            process = subprocess.Popen([MPIRUN, *FLAGS, "-n", "2", PROGRAM, "run", "-m", QWEN, "--tokens", ",".join(["5", "6"] * 4000), "-n", "1", "-c", "8192",
                                        "--rank-timeout", str(LIMIT), "-v", *plan], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
            line = b""
            while b" in 2 ranks" not in line:
                line = process.stderr.readline()
                self.assertTrue(line)
            time.sleep(0.3)
            stopped = self.rank(process, 0)
            os.kill(stopped, signal.SIGSTOP)
            self.assertRegex(self.ended(process, 3 * LIMIT + 5), f"tenon: rank 1: .*rank 0 did not answer within {LIMIT} s")
            self.assertEqual(process.returncode, 1)

    def test_an_interruption_ends_all(self):
        process = self.start()
        os.kill(self.rank(process, 0), signal.SIGINT)
        errors = self.ended(process, LIMIT + 5)
        self.assertEqual(process.returncode, 130, errors)
        self.assertIn("interrupted", errors)


if __name__ == "__main__":
    if not MPIRUN:
        print("no mpirun here: processes cannot be started")
        sys.exit(77)
    unittest.main()
