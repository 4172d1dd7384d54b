#!/usr/bin/env python3
"""`tenon quantize` from outside. Environment: TENON_E2E_PROGRAM; TENON_E2E_DATA, tests/data; TENON_TEST_MODELS, a folder of
more models laid out alike, or empty; TENON_GREEDY_TOKENS, how long texts are that two backends must agree on (default 60)."""
import json
import math
import os
import pathlib
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = os.environ["TENON_E2E_PROGRAM"]
DATA = pathlib.Path(os.environ["TENON_E2E_DATA"])
MORE = os.environ.get("TENON_TEST_MODELS", "")
FILES = DATA / "models"
GREEDY_TOKENS = int(os.environ.get("TENON_GREEDY_TOKENS", "60"))
# Where two backends may part: two tokens that near to one another.
TIE = 0.002
# Files that a common quantizer made in one mix.
MIXES = {"gemma3/gemma3-Q4_0": "Q4_0", "gemma4/gemma4-Q4_0": "Q4_0", "gemma4e/gemma4e-Q5_K_M": "Q5_K_M",
         "gemma4moe/gemma4moe-Q4_K_M": "Q4_K_M", "qwen3/qwen3-IQ4_NL": "IQ4_NL", "qwen35/qwen35-Q4_K_M": "Q4_K_M",
         "qwen35moe/qwen35moe-Q4_K_M": "Q4_K_M", "step35/step35-Q3_K_M": "Q3_K_M"}
MORE_MIXES = {"llama/llama-Q8_0": "Q8_0", "qwen3/qwen3-Q2_K": "Q2_K", "qwen35moe/qwen35moe-MXFP4_MOE": "MXFP4_MOE"}
# Perplexity of the held-out text over that of the same model in f32, at most. Models of this size are noisy: measured 0.97 to
# 1.003 down to six bits, 1.007 at five, 1.074 at four (MXFP4 1.094), 1.11 at three (Q3_K_S) and 1.26 at two.
RATIOS = {"BF16": 1.002, "F16": 1.002, "Q8_0": 1.006, "Q6_K": 1.01, "Q5_K_M": 1.015, "Q5_K_S": 1.015, "Q5_0": 1.03, "Q5_1": 1.015,
          "Q4_K_M": 1.03, "Q4_K_S": 1.03, "Q4_0": 1.1, "Q4_1": 1.05, "IQ4_NL": 1.07, "IQ4_XS": 1.05, "MXFP4": 1.13,
          "Q3_K_L": 1.06, "Q3_K_M": 1.05, "Q3_K_S": 1.15, "Q2_K": 1.32}


def environment():
    """This process's, without any flag's twin."""
    return {name: value for name, value in os.environ.items()
            if not name.startswith("TENON_") or name == "TENON_PLUGIN_PATH"}


def arrays(path):
    """name -> (shape, bytes) of a safetensors file"""
    blob = pathlib.Path(path).read_bytes()
    begin = 8 + struct.unpack_from("<Q", blob)[0]
    return {name: (info["shape"], blob[begin + info["data_offsets"][0]:begin + info["data_offsets"][1]])
            for name, info in json.loads(blob[8:begin]).items() if name != "__metadata__"}


def floats(blob):
    return struct.unpack(f"<{len(blob) // 4}f", blob)


def text_bytes(text):
    return struct.pack("<Q", len(text)) + text


def plain_gguf(path, tensors):
    """a file of f32 tensors (name, dims, bytes) and the one key that a model must have"""
    key = text_bytes(b"general.architecture") + struct.pack("<I", 8) + text_bytes(b"none")
    head, data = b"GGUF" + struct.pack("<Iqq", 3, len(tensors), 1) + key, b""
    for name, dims, values in tensors:
        head += text_bytes(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}q", *dims)
        head += struct.pack("<IQ", 0, len(data))
        data += values + b"\0" * (-len(values) % 32)
    path.write_bytes(head + b"\0" * (-len(head) % 32) + data)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def tenon(self, *words, status=0, **more):
        done = subprocess.run([PROGRAM, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
                              timeout=1500, **more)
        self.errors = done.stderr.decode("utf-8", errors="replace")
        self.assertEqual(done.returncode, status, self.errors)
        return done.stdout.decode("utf-8")

    def quantize(self, source, kind, name="out.gguf", *words, **more):
        out = self.folder / name
        self.assertEqual(self.tenon("quantize", source, out, "--type", kind, *words, **more), "")
        return out

    def eval(self, model, ids, *words):
        out = self.folder / "eval.safetensors"
        self.tenon("eval", "-m", model, "--tokens", ",".join(map(str, ids)), "--out", out, *words)
        return arrays(out)["logits"]

    def types(self, path):
        report = json.loads(self.tenon("inspect", path, "--json", "--tensors"))
        return {tensor["name"]: tensor["dtype"] for tensor in report["tensors"]}

    def case_ids(self, architecture, name):
        golden = next(path for path in sorted((FILES / architecture / "golden").glob("*.json")) if path.stem != "tokenizer")
        return json.loads(golden.read_text(encoding="utf-8"))["cases"][name]["ids"]


class Same(Case):
    def test_a_file_in_its_own_mix_comes_out_as_it_was(self):
        """which says that the mix, keys and layout are those of the quantizer that made it"""
        for folder, mixes in ((FILES, MIXES), (pathlib.Path(MORE), MORE_MIXES if MORE else {})):
            for name, mix in mixes.items():
                with self.subTest(name):
                    source = folder / (name + ".gguf")
                    out = self.quantize(source, mix, "out.gguf", "--force")
                    self.assertEqual(out.read_bytes(), source.read_bytes())

    def test_threads_change_nothing(self):
        source = FILES / "qwen35moe" / "qwen35moe-Q4_K_M.gguf"
        for kind in ("Q3_K_S", "IQ4_XS"):
            one = self.quantize(source, kind, "one.gguf", "-t", "1", "--force").read_bytes()
            self.assertEqual(self.quantize(source, kind, "many.gguf", "-t", "5", "--force").read_bytes(), one)

    def test_f32_keeps_every_value(self):
        ids = self.case_ids("gemma4e", "count")
        source = FILES / "gemma4e" / "gemma4e-Q5_K_M.gguf"
        out = self.quantize(source, "F32")
        self.assertEqual(set(self.types(out).values()), {"f32"})
        words = ["--rows", "all", "--precision", "exact", "--backend", "reference"]
        self.assertEqual(self.eval(out, ids, *words), self.eval(source, ids, *words))


class Types(Case):
    def perplexity(self, path):
        return json.loads(self.tenon("perplexity", "-m", path, "-f", FILES / "heldout.txt", "--score", "all", "--json",
                                     "--precision", "exact"))["perplexity"]

    def test_every_type_predicts_nearly_as_well(self):
        source = pathlib.Path(MORE) / "qwen3" / "safetensors" if MORE else FILES / "qwen3" / "qwen3-IQ4_NL.gguf"
        full = self.quantize(source, "F32", "full.gguf")
        best = self.perplexity(full)
        for kind, ratio in RATIOS.items():
            with self.subTest(kind):
                found = self.perplexity(self.quantize(full, kind, kind + ".gguf")) / best
                print(f"{kind}: {found:.4f} of {best:.2f}, allowed {ratio}", flush=True)
                self.assertLess(found, ratio)

    def test_what_stays_float(self):
        types = self.types(self.quantize(FILES / "qwen35moe" / "qwen35moe-Q4_K_M.gguf", "Q4_0"))
        for name in ("blk.0.attn_norm.weight", "blk.0.ffn_gate_inp.weight", "blk.0.ssm_conv1d.weight", "blk.0.ssm_a", "blk.0.ssm_dt.bias",
                     "output_norm.weight", "blk.0.ffn_gate_inp_shexp.weight"):
            self.assertEqual(types[name], "f32", name)
        self.assertEqual(types["blk.0.ffn_gate_exps.weight"], "q4_0")
        self.assertEqual(types["output.weight"], "q6_k")
        # Eight experts: what all of them share has more bits.
        self.assertEqual(types["blk.3.attn_v.weight"], "q8_0")

    def test_rows_that_a_type_does_not_fit(self):
        source = FILES / "gemma4moe" / "gemma4moe-Q4_K_M.gguf"  # experts of 96
        for kind, fallback in (("Q2_K", "iq4_nl"), ("Q4_K_S", "q5_0"), ("Q5_K_S", "q5_1"), ("Q6_K", "q8_0"), ("IQ4_XS", "iq4_nl")):
            types = self.types(self.quantize(source, kind, kind + ".gguf"))
            self.assertEqual(types["blk.2.ffn_down_exps.weight"], fallback, kind)


class Bad(Case):
    MODEL = FILES / "gemma3" / "gemma3-Q4_0.gguf"

    def refused(self, named, *words, status, **more):
        self.assertEqual(self.tenon("quantize", *words, status=status, **more), "")
        self.assertIn(named, self.errors)
        self.assertEqual([path.name for path in self.folder.iterdir() if "part" in path.name], [])

    def test_usage(self):
        out = self.folder / "out.gguf"
        self.refused("--type", self.MODEL, out, status=2)
        self.refused("expected IN and OUT.gguf", self.MODEL, status=2)
        self.refused("IQ2_XXS", self.MODEL, out, "--type", "IQ2_XXS", status=2)
        self.assertIn("Q4_K_M", self.errors)
        self.refused("IQ4_XS", self.MODEL, out, "--type", "nonsense", status=2)
        self.refused("out.bin", self.MODEL, self.folder / "out.bin", "--type", "Q8_0", status=2)
        out.write_text("mine")
        self.refused("--force", self.MODEL, out, "--type", "Q8_0", status=2)
        self.assertEqual(out.read_text(), "mine")
        self.tenon("quantize", self.MODEL, out, "--type", "q8_0", "--force")
        self.assertEqual(out.read_bytes()[:4], b"GGUF")

    def test_the_input_is_never_overwritten(self):
        copy = self.folder / "copy.gguf"
        copy.write_bytes(self.MODEL.read_bytes())
        (self.folder / "link.gguf").symlink_to(copy)
        for out in (copy, self.folder / "link.gguf"):
            self.refused("is a file of the model", copy, out, "--type", "Q8_0", "--force", status=2)
        self.assertEqual(copy.read_bytes(), self.MODEL.read_bytes())

    def test_files_that_cannot_be_used(self):
        out = self.folder / "out.gguf"
        self.refused("missing.gguf", self.folder / "missing.gguf", out, "--type", "Q8_0", status=3)
        cut = self.folder / "cut.gguf"
        cut.write_bytes(self.MODEL.read_bytes()[:100000])
        self.refused("cut.gguf", cut, out, "--type", "Q8_0", status=3)
        self.assertFalse(out.exists())

    def test_values_that_cannot_be_written(self):
        source, out = self.folder / "odd.gguf", self.folder / "out.gguf"
        for value, kind in ((math.nan, "Q4_K_S"), (math.inf, "F16"), (1e6, "F16"), (1e9, "Q4_K_S"), (1e30, "Q8_0")):
            values = [1.0] * 512
            values[300] = value
            plain_gguf(source, [(b"blk.0.ffn_up.weight", [256, 2], struct.pack("<512f", *values))])
            self.refused("tensor blk.0.ffn_up.weight", source, out, "--type", kind, status=3)
            self.assertFalse(out.exists())

    def test_places_that_cannot_be_written(self):
        self.refused("No such file", self.MODEL, self.folder / "no" / "out.gguf", "--type", "Q8_0", status=1)
        (self.folder / "folder.gguf").mkdir()
        self.refused("directory", self.MODEL, self.folder / "folder.gguf", "--type", "Q8_0", status=1)
        (self.folder / "full.gguf").symlink_to("/dev/full")
        self.refused("No space", self.MODEL, self.folder / "full.gguf", "--type", "Q8_0", status=1)

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        self.refused("too large", self.MODEL, self.folder / "out.gguf", "--type", "F32", status=1, preexec_fn=limit)
        self.assertFalse((self.folder / "out.gguf").exists())

    def test_ctrl_c_leaves_nothing(self):
        source, out = self.folder / "large.gguf", self.folder / "out.gguf"
        row = struct.pack("<1024f", *[math.sin(i) for i in range(1024)])
        plain_gguf(source, [(b"blk.%d.ffn_up.weight" % i, [1024, 4096], row * 4096) for i in range(8)])
        running = subprocess.Popen([PROGRAM, "quantize", source, out, "--type", "Q2_K", "-t", "1"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=environment())
        deadline = time.monotonic() + 60
        while not list(self.folder.glob("out.gguf.part-*")) and time.monotonic() < deadline:
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=60)
        self.assertEqual(running.returncode, 130, errors)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["large.gguf"])


class Convert(Case):
    """From safetensors folders. The equality that an architecture promises, on the backend that runs by itself."""
    FOLDERS = {"qwen3": "safetensors", "gemma3": "safetensors", "gemma4": "safetensors", "gemma4e": "safetensors",
               "gemma4moe": "safetensors", "step35": "fp8", "llama": "safetensors", "qwen35": "safetensors", "qwen35moe": "safetensors"}
    # Files that order heads or rotary pairs differently: sums of other orders.
    REORDERED = {"llama", "qwen35", "qwen35moe"}

    def compare(self, architecture, folder, kinds):
        ids = self.case_ids(architecture, "text")[:120]
        # Kernels of quantized weights sum in orders of their own; without them every dtype goes the way of f32.
        words = ["--rows", "all", "--precision", "exact", "--forbid", "fp8.,fp4."]
        shape, wanted = self.eval(folder, ids, *words)
        for kind in kinds:
            out = self.quantize(folder, kind, "out.gguf", "--force")
            found_shape, found = self.eval(out, ids, *words)
            self.assertEqual(found_shape, shape)
            if architecture not in self.REORDERED:
                self.assertEqual(found, wanted, f"{folder} as {kind}")
                continue
            a, b = floats(wanted), floats(found)
            error = math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b)) / sum(x * x for x in a))
            self.assertLess(error, 1e-4, f"{folder} as {kind}")

    def check_texts(self, folder, out):
        texts = ["Hello world", "  two spaces\n\nand lines\t", "1234 + 5 = 39", "naïve café — ünïcode 你好 🙂", "<|im_start|>user", ""]
        for text in texts:
            ids = [json.loads(self.tenon("tokenize", "-m", model, "--json", "--", text))["ids"] for model in (folder, out)]
            self.assertEqual(ids[0], ids[1], text)

    def test_a_quantized_folder(self):
        self.compare("qwen35moe", FILES / "qwen35moe" / "nvfp4-modelopt", ["F32"])

    def test_a_folder_without_a_tokenizer_is_written_with_a_warning(self):
        source, folder = FILES / "qwen35moe" / "nvfp4-modelopt", self.folder / "mute"
        self.quantize(source, "F32")
        self.assertNotIn("no tokenizer", self.errors)
        folder.mkdir()
        for path in source.iterdir():
            if path.name != "tokenizer.json":
                (folder / path.name).symlink_to(path)
        self.quantize(folder, "F32", "mute.gguf")
        self.assertIn("has no tokenizer", self.errors)

    def test_every_architecture(self):
        if not MORE:
            self.skipTest("TENON_TEST_MODELS names no folder with safetensors models")
        for architecture, kind in self.FOLDERS.items():
            with self.subTest(architecture):
                folder = pathlib.Path(MORE) / architecture / kind
                self.compare(architecture, folder, ["F32", "BF16"] if kind == "safetensors" else ["F32"])
                self.check_texts(folder, self.folder / "out.gguf")

    def test_mixes_of_folders_run(self):
        if not MORE:
            self.skipTest("TENON_TEST_MODELS names no folder with safetensors models")
        for architecture, kind in (("gemma4moe", "Q4_K_M"), ("qwen35", "Q6_K"), ("llama", "IQ4_XS")):
            with self.subTest(architecture):
                folder = pathlib.Path(MORE) / architecture / "safetensors"
                out = self.quantize(folder, kind, "out.gguf", "--force")
                answer = json.loads(self.tenon("run", "-m", out, "--raw", "--json", "-p", "1 2 3 4 5 6", "-n", "4", "--temp", "0"))
                self.assertEqual(answer["text"].strip().split()[:2], ["7", "8"])


class Greedy(Case):
    """The likeliest tokens of f32 files on two backends, up to the first near tie."""

    def generate(self, model, prompt, backend):
        words = ["--json", "--raw", "--temp", "0", "--ignore-eos", "-n", GREEDY_TOKENS, "--backend", backend, "--tokens",
                 ",".join(map(str, prompt)), "-c", len(prompt) + GREEDY_TOKENS]
        return json.loads(self.tenon("run", "-m", model, *words))["ids"]

    def check(self, architecture, source):
        model = self.quantize(source, "F32", architecture + ".gguf")
        prompt = self.case_ids(architecture, "count")
        cpu, reference = (self.generate(model, prompt, backend) for backend in ("cpu", "reference"))
        self.assertEqual(len(cpu), GREEDY_TOKENS)
        parted = next((i for i in range(GREEDY_TOKENS) if cpu[i] != reference[i]), None)
        if parted is None:
            print(f"{architecture}: {GREEDY_TOKENS} tokens equal", flush=True)
            return
        words = ["--backend", "reference", "--rows", "last"]
        best = sorted(floats(self.eval(model, prompt + reference[:parted], *words)[1]))[-2:]
        print(f"{architecture}: equal up to token {parted}, where the two likeliest are {best[1] - best[0]:.5f} apart", flush=True)
        self.assertLess(best[1] - best[0], TIE)

    def test_two_backends_agree(self):
        for name in (*MIXES, "llama/llama-MIX"):
            with self.subTest(name):
                source = pathlib.Path(MORE or FILES) / name.split("/")[0] / "safetensors"
                self.check(name.split("/")[0], source if MORE and source.is_dir() else FILES / (name + ".gguf"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]], verbosity=2)
