#!/usr/bin/env python3
"""Tests of the program from outside. Environment: TENON_E2E_PROGRAM, the program; TENON_E2E_DATA, tests/data."""
import json
import math
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
from golden import arrays

PROGRAM = os.environ["TENON_E2E_PROGRAM"]
DATA = pathlib.Path(os.environ["TENON_E2E_DATA"])
MODEL = str(DATA / "models" / "gemma3" / "gemma3-Q4_0.gguf")
RECURRENT_MODEL = str(DATA / "models" / "qwen35" / "qwen35-Q4_K_M.gguf")
CASES = json.loads((DATA / "models" / "gemma3" / "golden" / "gemma3-Q4_0.json").read_text(encoding="utf-8"))["cases"]
VOCABULARY = 1024
COUNT = ",".join(map(str, CASES["count"]["ids"]))


def environment(extra=None):
    """This process's, without any flag's twin."""
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith("TENON_") or name == "TENON_PLUGIN_PATH"}
    return {**clean, **(extra or {})}


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def tenon(self, *words, status=0, extra=None, stdout=subprocess.PIPE):
        done = subprocess.run([PROGRAM, *map(str, words)], stdout=stdout, stderr=subprocess.PIPE, env=environment(extra),
                              timeout=250)
        self.errors = done.stderr.decode("utf-8", errors="replace")
        self.assertEqual(done.returncode, status, self.errors)
        return (done.stdout or b"").decode("utf-8")

    def refused(self, named, *words, status=2, extra=None):
        self.assertEqual(self.tenon(*words, status=status, extra=extra), "")
        self.assertIn(named, self.errors)


class Usage(Case):
    def test_help_and_version_go_to_standard_output(self):
        self.assertIn("perplexity", self.tenon("--help"))
        self.assertIn("--top-p", self.tenon("run", "--help"))
        self.assertIn("TENON_TOP_P", self.tenon("help", "run"))
        self.assertIn("TENON_TOP_P", self.tenon("run", "-vh"))
        self.assertRegex(self.tenon("--version"), r"^tenon \d+\.\d+\.\d+ ")

    def test_wrong_usage_is_status_2_and_names_the_flag(self):
        self.refused("Usage")
        self.refused("sing", "sing")
        self.refused("extra", "help", "run", "extra")
        self.refused("--colour", "run", "--colour", "red")
        self.refused("--threads", "run", "-m", MODEL, "-p", "a", "-t", "many")
        self.refused("--prompt", "run", "-m", MODEL)
        self.refused("--prompt", "run", "-m", MODEL, "-p")
        self.refused("--model", "run", "-p", "a")
        self.refused("--prompt and --tokens", "run", "-m", MODEL, "-p", "a", "--tokens", "1")
        self.refused("--prefer x and --forbid x", "run", "-m", MODEL, "-p", "a", "--prefer", "x", "--forbid", "x")
        self.refused("--file", "perplexity", "-m", MODEL)
        self.refused("--out", "eval", "-m", MODEL, "--tokens", "1")
        self.refused("--tokens", "eval", "-m", MODEL, "--tokens", "1,two", "--out", self.folder / "o")
        self.refused("TENON_CTX_SIZE", "run", "-m", MODEL, "-p", "a", extra={"TENON_CTX_SIZE": "huge"})

    def test_what_this_build_cannot_serve_is_status_2(self):
        self.refused('no collective "warp"', "eval", "-m", MODEL, "--tokens", "1", "--out", self.folder / "o", "--ranks", "2", "--collective", "warp")
        self.refused("no entry draft.0; there are main", "eval", "-m", MODEL, "--tokens", "1,2", "--out", self.folder / "o", "--entry", "draft.0")
        self.refused("serve", "serve", "-m", MODEL)
        self.refused("warp", "run", "-m", MODEL, "-p", "a", "--backend", "warp")

    def test_files_that_cannot_be_used_are_status_3(self):
        self.refused("missing.gguf", "run", "-m", self.folder / "missing.gguf", "-p", "a", status=3)
        text = self.folder / "text.gguf"
        text.write_text("This is no model.")
        self.refused("text.gguf", "run", "-m", text, "-p", "a", status=3)
        self.refused("text.gguf", "inspect", text, status=3)
        cut = self.folder / "cut.gguf"
        cut.write_bytes(pathlib.Path(MODEL).read_bytes()[:100000])
        self.refused("cut.gguf", "run", "-m", cut, "-p", "a", status=3)
        self.refused("ids.txt", "run", "-m", MODEL, "--tokens", "@" + str(self.folder / "ids.txt"), status=3)
        self.refused("missing.txt", "perplexity", "-m", MODEL, "-f", self.folder / "missing.txt", status=3)


class Tokenize(Case):
    def test_text_to_ids_and_back(self):
        answer = json.loads(self.tenon("tokenize", "-m", MODEL, "--json", "--", "Hello world"))
        self.assertEqual(set(answer), {"ids", "pieces"})
        self.assertEqual(len(answer["ids"]), len(answer["pieces"]))
        bare = json.loads(self.tenon("tokenize", "-m", MODEL, "--json", "--no-bos", "--", "Hello world"))
        self.assertEqual(answer["ids"][1:], bare["ids"])
        ids = ",".join(map(str, answer["ids"]))
        self.assertEqual(self.tenon("tokenize", "-m", MODEL, "--decode", ids), "Hello world\n")

    def test_empty_and_dashed_texts(self):
        self.assertEqual(json.loads(self.tenon("tokenize", "-m", MODEL, "--json", "--", ""))["ids"], [2])
        self.assertEqual(json.loads(self.tenon("tokenize", "-m", MODEL, "--json", "--no-bos", "--", ""))["ids"], [])
        dashed = json.loads(self.tenon("tokenize", "-m", MODEL, "--json", "--no-bos", "--", "--json"))
        self.assertEqual("".join(dashed["pieces"]), "--json")

    def test_table_has_a_line_for_each_token(self):
        lines = self.tenon("tokenize", "-m", MODEL, "--", "one two\nthree").splitlines()
        ids = json.loads(self.tenon("tokenize", "-m", MODEL, "--json", "--", "one two\nthree"))["ids"]
        self.assertEqual([int(line.split()[0]) for line in lines], ids)

    def test_refusals(self):
        self.refused("TEXT", "tokenize", "-m", MODEL)
        self.refused("--decode", "tokenize", "-m", MODEL, "--decode", "1", "--", "text")
        self.refused("99999", "tokenize", "-m", MODEL, "--decode", "99999")


class Run(Case):
    def run_json(self, *words):
        return json.loads(self.tenon("run", "-m", MODEL, "--json", "--raw", *words))

    def test_prints_only_what_was_generated(self):
        answer = self.run_json("-p", "1 2 3 4 5", "-n", "12", "--temp", "0")
        text = self.tenon("run", "-m", MODEL, "-p", "1 2 3 4 5", "-n", "12", "--temp", "0", "--raw")
        self.assertEqual(text, answer["text"])
        self.assertIn("t/s", self.errors)
        self.assertNotIn("chat template", self.errors)

    def test_json_tells_ids_text_reason_and_timings(self):
        answer = self.run_json("--tokens", COUNT, "-n", "5", "--temp", "0", "--ignore-eos")
        self.assertLessEqual({"ids", "text", "finish_reason", "timings"}, set(answer))
        self.assertEqual(answer["ids"], CASES["count"]["greedy_ids"][:5])
        self.assertEqual(answer["finish_reason"], "length")
        self.assertEqual(answer["timings"]["generated_tokens"], 5)
        self.assertEqual(self.run_json("--tokens", COUNT, "-n", "0")["ids"], [])

    def test_stops_where_the_text_ends_unless_told_not_to(self):
        # The reference's continuation of this case holds <end_of_turn>, which ends a text.
        stopped = self.run_json("--tokens", COUNT, "-n", "48", "--temp", "0")
        self.assertEqual(stopped["finish_reason"], "stop")
        self.assertLess(len(stopped["ids"]), 48)
        going_on = self.run_json("--tokens", COUNT, "-n", "48", "--temp", "0", "--ignore-eos")
        self.assertEqual((going_on["finish_reason"], len(going_on["ids"])), ("length", 48))
        self.assertEqual(going_on["ids"][:len(stopped["ids"])], stopped["ids"])

    def test_a_seed_repeats_and_another_differs(self):
        words = ["-p", "The", "-n", "24", "--temp", "1.5", "--top-k", "0", "--top-p", "1", "--min-p", "0", "--ignore-eos"]
        first = self.run_json(*words, "--seed", "11")["ids"]
        self.assertEqual(first, self.run_json(*words, "--seed", "11")["ids"])
        self.assertNotEqual(first, self.run_json(*words, "--seed", "12")["ids"])

    def test_the_context_ends_a_text_and_refuses_a_prompt(self):
        answer = self.run_json("--tokens", COUNT, "-n", "-1", "-c", "64", "--temp", "0", "--ignore-eos")
        self.assertEqual(answer["finish_reason"], "context")
        self.assertEqual(len(answer["ids"]), 64 - len(CASES["count"]["ids"]) + 1)
        self.refused("takes 9000 tokens", "run", "-m", MODEL, "--tokens", ",".join(["5"] * 9000), "-c", "64", status=4)
        self.assertIn("64", self.errors)

    def test_an_empty_prompt_begins_with_the_model_s_own_token(self):
        self.assertEqual(len(self.run_json("-p", "", "-n", "3", "--temp", "0", "--ignore-eos")["ids"]), 3)
        self.refused("--prompt is empty", "run", "-m", RECURRENT_MODEL, "-p", "", "--raw")

    def test_ids_outside_the_vocabulary_are_refused(self):
        self.refused("1024", "run", "-m", MODEL, "--tokens", "5,1024", "--raw")

    def test_failing_output_is_status_1(self):
        with open("/dev/full", "wb") as full:
            self.tenon("run", "-m", MODEL, "-p", "1 2 3", "-n", "4", "--temp", "0", status=1, stdout=full)
        self.assertIn("standard output", self.errors)
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "wb") as closed:
            self.tenon("run", "-m", MODEL, "-p", "1 2 3", "-n", "4", "--temp", "0", status=1, stdout=closed)


class Interrupt(Case):
    def test_ctrl_c_keeps_what_was_generated_and_ends_with_130(self):
        for words in ([], ["--json"]):
            process = subprocess.Popen([PROGRAM, "run", "-m", MODEL, "-p", "1 2 3 4", "-n", "-1", "-c", "8192", "--temp", "0",
                                        "--ignore-eos", "--raw", "-t", "1", *words],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
            if words:
                self.assertIn(b" on ", process.stderr.readline())  # the line that says the model is loaded
                time.sleep(0.5)
                start = b""
            else:
                start = process.stdout.read(8)
                self.assertEqual(len(start), 8)
            process.send_signal(signal.SIGINT)
            rest, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 130, errors.decode())
            self.assertIn("interrupted", errors.decode())
            if words:
                self.assertTrue(json.loads(rest)["ids"])
            else:
                (start + rest).decode("utf-8")  # whole characters only


class Eval(Case):
    def eval(self, *words, status=0, tokens=COUNT):
        out = self.folder / "out.safetensors"
        self.assertEqual(self.tenon("eval", "-m", MODEL, "--tokens", tokens, "--out", out, *words, status=status), "")
        return arrays(out) if status == 0 else None

    def test_rows_come_in_the_order_asked(self):
        n_tokens = len(CASES["count"]["ids"])
        shape, every = self.eval("--rows", "all")["logits"]
        self.assertEqual(shape, [n_tokens, VOCABULARY])
        shape, some = self.eval("--rows", "5,0,5")["logits"]
        self.assertEqual(shape, [3, VOCABULARY])
        for place, row in enumerate([5, 0, 5]):
            self.assertEqual(some[place * VOCABULARY:(place + 1) * VOCABULARY],
                             every[row * VOCABULARY:(row + 1) * VOCABULARY])
        shape, last = self.eval()["logits"]
        self.assertEqual((shape, last), ([1, VOCABULARY], every[-VOCABULARY:]))

    def test_steps_of_every_width_are_equal(self):
        reference = self.eval("--rows", "all", "--step", "1")["logits"]
        for step in (2, 5, 15):
            self.assertEqual(self.eval("--rows", "all", "--step", step)["logits"], reference, step)

    def test_chunks_and_threads_and_copies_are_equal(self):
        tokens = ",".join(map(str, CASES["text"]["ids"]))
        reference = self.eval("--rows", "0,63,64,200,482", tokens=tokens)["logits"]
        for words in (["--chunk", "64"], ["--chunk", "128"], ["-t", "1"], ["-t", "3"], ["--copies", "3"]):
            self.assertEqual(self.eval("--rows", "0,63,64,200,482", *words, tokens=tokens)["logits"], reference, words)

    def test_taps_hold_what_enters_each_layer(self):
        found = self.eval("--rows", "3,1", "--taps", "hidden")
        layers, rows, width = found["hidden"][0]
        self.assertEqual((layers, rows, width), (8, 2, 256))
        self.assertTrue(all(map(math.isfinite, found["hidden"][1])))
        again = self.eval("--rows", "1", "--taps", "hidden")["hidden"][1]
        for layer in range(layers):
            row = found["hidden"][1][(layer * 2 + 1) * width:(layer * 2 + 2) * width]
            self.assertEqual(row, again[layer * width:(layer + 1) * width])

    def test_refusals_leave_no_file(self):
        self.eval("--rows", "99", status=2)
        self.eval("--chunk", "65", status=2)
        self.eval("--chunk", "64", "--step", "1", status=2)
        self.eval("--step", "16", status=2)
        self.eval(tokens="5,1024", status=2)
        self.eval(tokens=",", status=2)
        self.eval("--taps", "nonsense", status=2)
        self.assertIn("there are hidden", self.errors)
        self.eval("-c", "8", status=4)
        self.assertEqual(list(self.folder.iterdir()), [])
        self.refused("--out", "eval", "-m", MODEL, "--tokens", "1", "--out", self.folder / "no" / "o", status=1)


def write_arrays(path, found):
    """name -> (dtype, shape, values) as a safetensors file"""
    header, data = {}, b""
    for name, (dtype, shape, values) in found.items():
        blob = struct.pack(f"<{len(values)}{ {'F32': 'f', 'I32': 'i', 'I64': 'q'}[dtype] }", *values)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(blob)]}
        data += blob
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class Overlay(Case):
    """eval --overlay: rows in place of embeddings"""

    def setUp(self):
        super().setUp()
        self.overlay = self.folder / "overlay.safetensors"
        self.out = self.folder / "out.safetensors"
        self.ids = CASES["text"]["ids"][:200]

    def eval(self, *words, model=MODEL, ids=None):
        self.tenon("eval", "-m", model, "--tokens", ",".join(map(str, ids or self.ids)), "--out", self.out, "--rows", "all",
                   "--precision", "exact", *words)
        return arrays(self.out)

    def write_image(self, width, begin, n, span=None):
        values = [math.sin(i * 0.7 + begin) for i in range(n * width)]
        found = {"rows": ("F32", [n, width], values), "positions": ("I64", [n], list(range(begin, begin + n)))}
        if span is not None:
            found["spans"] = ("I32", [n], [span] * n)
        write_arrays(self.overlay, found)

    def test_the_models_own_rows_give_the_plain_run(self):
        for model in (MODEL, RECURRENT_MODEL, str(DATA / "models" / "gemma4" / "gemma4-Q4_0.gguf")):
            plain = self.eval("--taps", "hidden", model=model)
            (_, n, width), hidden = plain["hidden"]
            positions = [p for p in range(n) if p % 4]
            rows = [x for p in positions for x in hidden[p * width:(p + 1) * width]]
            write_arrays(self.overlay, {"rows": ("F32", [len(positions), width], rows),
                                        "positions": ("I32", [len(positions)], positions)})
            others = [0 if p % 4 else token for p, token in enumerate(self.ids)]
            self.assertEqual(self.eval("--overlay", self.overlay, model=model, ids=others)["logits"], plain["logits"], model)
            self.assertNotEqual(self.eval(model=model, ids=others)["logits"], plain["logits"], model)

    def test_chunks_and_copies_and_steps_are_equal(self):
        self.write_image(256, 20, 100, span=0)
        words = ["--overlay", self.overlay]
        reference = self.eval(*words)["logits"]
        for more in (["--chunk", "64"], ["--chunk", "128"], ["-t", "1"], ["--copies", "3"]):
            self.assertEqual(self.eval(*words, *more)["logits"], reference, more)
        short = self.ids[:14]
        self.write_image(256, 3, 6, span=0)
        reference = self.eval(*words, ids=short)["logits"]
        for more in (["--step", "6"], ["--step", "15"], ["--copies", "2"]):
            self.assertEqual(self.eval(*words, *more, ids=short)["logits"], reference, more)
        self.refused("a span of 6 rows does not fit into decode steps of 5", "eval", "-m", MODEL, "--tokens",
                     ",".join(map(str, short)), "--out", self.folder / "o", *words, "--step", "5")

    def test_spans_change_what_an_image_sees(self):
        self.write_image(256, 20, 100)
        causal = self.eval("--overlay", self.overlay)["logits"][1]
        self.write_image(256, 20, 100, span=3)
        both = self.eval("--overlay", self.overlay)["logits"][1]
        self.assertEqual(causal[:20 * VOCABULARY], both[:20 * VOCABULARY])
        self.assertNotEqual(causal[20 * VOCABULARY:21 * VOCABULARY], both[20 * VOCABULARY:21 * VOCABULARY])

    def test_refusals_name_what_is_wrong_and_leave_no_file(self):
        words = ["eval", "--tokens", "1,2,3,4,5", "--out", self.folder / "o", "--overlay", self.overlay]
        self.refused("overlay.safetensors': No such file", *words, "-m", MODEL, status=3)
        self.write_image(256, 3, 3)
        self.refused("tensor positions: entry 2 is 5, expected a position of the 5 tokens", *words, "-m", MODEL, status=3)
        self.write_image(255, 0, 3)
        self.refused("tensor rows: 255 columns, but the model's embeddings have 256", *words, "-m", MODEL, status=3)
        self.write_image(256, 0, 3, span=1)
        self.refused("no attention of this model sees them both ways", *words, "-m", RECURRENT_MODEL)
        self.refused("this gemma4 model takes no overlay rows", *words, "-m", DATA / "models" / "gemma4e" / "gemma4e-Q5_K_M.gguf")
        self.refused("--overlay is for the main entry", *words, "-m", RECURRENT_MODEL, "--entry", "draft.0")
        self.refused("is the overlay file", *[self.overlay if word == self.folder / "o" else word for word in words], "-m", MODEL)
        self.assertEqual(list(self.folder.iterdir()), [self.overlay])


class Perplexity(Case):
    def test_json_and_text_agree(self):
        heldout = DATA / "models" / "heldout.txt"
        answer = json.loads(self.tenon("perplexity", "-m", MODEL, "-f", heldout, "-c", "256", "--json"))
        self.assertEqual(set(answer), {"nll", "perplexity", "tokens"})
        self.assertAlmostEqual(math.exp(answer["nll"]), answer["perplexity"], places=6)
        tokens = json.loads(self.tenon("tokenize", "-m", MODEL, "--json", "--", heldout.read_text(encoding="utf-8")))["ids"]
        self.assertEqual(answer["tokens"], len(tokens) // 256 * 127)
        self.assertIn(f"{answer['perplexity']:.4f}", self.tenon("perplexity", "-m", MODEL, "-f", heldout, "-c", "256"))

    def test_half_is_what_eval_gives_for_a_window(self):
        text = self.folder / "text.txt"
        text.write_text("The quick brown fox jumps over the lazy dog. " * 3)
        ids = json.loads(self.tenon("tokenize", "-m", MODEL, "--json", "--", text.read_text()))["ids"][:32]
        answer = json.loads(self.tenon("perplexity", "-m", MODEL, "-f", text, "-c", "32", "--json"))
        windows = len(json.loads(self.tenon("tokenize", "-m", MODEL, "--json", "--", text.read_text()))["ids"]) // 32
        self.assertEqual(answer["tokens"], windows * 15)
        if windows == 1:
            out = self.folder / "o.safetensors"
            self.tenon("eval", "-m", MODEL, "--tokens", ",".join(map(str, ids)), "--rows", "all", "--out", out)
            logits = arrays(out)["logits"][1]
            total = 0.0
            for position in range(16, 31):
                row = logits[position * VOCABULARY:(position + 1) * VOCABULARY]
                total += math.log(sum(map(math.exp, row))) - row[ids[position + 1]]
            self.assertAlmostEqual(total / 15, answer["nll"], places=6)

    def test_a_text_that_is_too_short_is_refused(self):
        text = self.folder / "text.txt"
        text.write_text("short")
        self.refused("a window takes 512", "perplexity", "-m", MODEL, "-f", text)
        text.write_text("")
        self.refused("text.txt: the text has 1 tokens, at least 2", "perplexity", "-m", MODEL, "-f", text, "--score",
                     "all")


class Bench(Case):
    def test_json_has_the_figures_scripts_read(self):
        answer = json.loads(self.tenon("bench", "-m", MODEL, "-p", "64", "-n", "8", "-r", "3", "-t", "2", "--json"))
        for part, tokens in (("prefill", 64), ("decode", 8)):
            rate = answer[part]["tokens_per_second"]
            self.assertTrue(0 < rate["min"] <= rate["median"] <= rate["max"])
            self.assertEqual(answer[part]["tokens"], tokens)
        self.assertGreater(answer["decode"]["bytes_per_token"], 0)
        self.assertGreater(answer["decode"]["gigabytes_per_second"], 0)
        self.assertGreater(answer["decode"]["launches_per_layer"], 0)
        self.assertIn("barriers_per_layer", answer["decode"])
        self.assertIs(answer["decode"]["captured"], False)
        self.assertEqual((answer["model"], answer["threads"]), (MODEL, 2))

    def test_a_device_that_can_records_decode_steps(self):
        if all(plugin["name"] != "far" for plugin in json.loads(self.tenon("plugins", "list", "--json"))["plugins"]):
            self.skipTest("the far-memory backend is not built")
        answer = json.loads(self.tenon("bench", "-m", MODEL, "--backend", "far", "-p", "16", "-n", "4", "-r", "1", "--json"))
        self.assertIs(answer["decode"]["captured"], True)
        self.assertEqual(answer["threads"], 1)

    def test_table_and_refusal(self):
        table = self.tenon("bench", "-m", MODEL, "-p", "16", "-n", "2", "-r", "1")
        self.assertIn("prefill 16", table)
        self.assertIn("decode 2", table)
        self.refused("--n-prompt", "bench", "-m", MODEL, "-p", "0", "-n", "0")


class Reports(Case):
    def test_inspect_tells_what_each_rank_has(self):
        whole = json.loads(self.tenon("inspect", RECURRENT_MODEL, "--plan", "--json"))["plan"]
        ranks = json.loads(self.tenon("inspect", RECURRENT_MODEL, "--plan", "--json", "--pipeline-parallel", "2", "--devices", "0,0"))["plan"]["ranks"]
        each = ranks["each"]
        self.assertEqual([rank["rank"] for rank in each], [0, 1])
        first, last = (rank["layers"].split("-") for rank in each)
        self.assertEqual((first[0], int(first[-1]) + 1), ("0", int(last[0])), "stages follow one another")
        self.assertLessEqual(whole["weight_bytes"], sum(rank["weight_bytes"] for rank in each))
        self.assertEqual(sum(rank["sent_bytes_a_row"] for rank in each), sum(rank["received_bytes_a_row"] for rank in each))
        for rank in each:
            self.assertEqual(rank["sent_bytes_a_row"], sum(one["sent_bytes_a_row"] for one in rank["crossings"]))
            self.assertGreater(rank["decode_bytes_a_row"], 0)
            self.assertGreater(rank["state_bytes_a_sequence"], 0)
        self.assertAlmostEqual(ranks["most_decode_rows_a_second"] * sum(rank["decode_seconds_a_row"] for rank in each), 1, delta=1e-6)

    def test_inspect_tells_what_is_in_a_file(self):
        self.assertIn("gemma3", self.tenon("inspect", MODEL))
        for view in ("--tensors", "--plan", "--kernels", "--graph"):
            self.assertTrue(self.tenon("inspect", MODEL, view).strip(), view)
            json.loads(self.tenon("inspect", MODEL, view, "--json"))

    def test_plugins_are_listed_verified_and_described(self):
        listed = self.tenon("plugins", "list")
        plugins = json.loads(self.tenon("plugins", "list", "--json"))["plugins"]
        self.assertIn("gguf", listed)
        self.tenon("plugins", "verify")
        self.assertIn("gguf", self.tenon("plugins", "info", "gguf"))
        self.refused("nobody", "plugins", "info", "nobody")
        self.refused("dance", "plugins", "dance")
        self.refused("missing.so", "plugins", "test", self.folder / "missing.so", status=3)
        gguf = next(plugin["library"] for plugin in plugins if plugin["name"] == "gguf")
        self.assertIn("pass  library: exports", self.tenon("plugins", "test", gguf, "--only", "library: exports"))
        self.refused("no check of this plugin", "plugins", "test", gguf, "--only", "juggles")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]], verbosity=2)
