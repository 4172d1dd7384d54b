#!/usr/bin/env python3
"""Model files and arguments that want to do harm, given to the program from outside: each ends with the status of the
contract and a message that names the file or flag. Environment: TENON_E2E_PROGRAM; TENON_E2E_DATA, tests/data."""
import fcntl
import json
import os
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from gguf_file import ARRAY, F32, Gguf, STRING, U32, text_bytes

PROGRAM = os.environ["TENON_E2E_PROGRAM"]
DATA = pathlib.Path(os.environ["TENON_E2E_DATA"])
MODEL = DATA / "models" / "gemma3" / "gemma3-Q4_0.gguf"
EXPERT_MODEL = DATA / "models" / "qwen35moe" / "qwen35moe-Q4_K_M.gguf"
SCALED_MODEL = DATA / "models" / "llama" / "llama-MIX.gguf"
RECURRENT_MODEL = DATA / "models" / "qwen35" / "qwen35-Q4_K_M.gguf"
SAFETENSORS_MODEL = DATA / "models" / "qwen35moe" / "nvfp4-modelopt"


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def tenon(self, *words, status=0, **how):
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith("TENON_") or name == "TENON_PLUGIN_PATH"}
        how = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}
        done = subprocess.run([PROGRAM, *map(str, words)], env=clean, timeout=250, **how)
        self.errors = done.stderr.decode("utf-8", errors="replace")
        self.assertEqual(done.returncode, status, (words, self.errors))
        return (done.stdout or b"").decode("utf-8")


class Files(Case):
    def setUp(self):
        super().setUp()
        self.path = self.folder / "odd.gguf"

    def refused(self, named, *words):
        """Status 3, the file's name and what is wrong."""
        self.tenon(*words, status=3)
        self.assertIn("odd.gguf", self.errors)
        self.assertIn(named, self.errors)

    def eval(self):
        return "eval", "-m", self.path, "--tokens", "5,6", "--out", self.folder / "o"

    def test_values_that_make_no_sense_are_refused_with_file_and_key(self):
        cases = {
            "block_count": [(U32, 0), (U32, 513), (STRING, b"7"), (5, -1)],
            "embedding_length": [(U32, 0), (U32, 2**32 - 1), (F32, 256.0)],
            "attention.head_count": [(U32, 0), (U32, 5000), (ARRAY, (U32, [2] * 7))],
            "attention.head_count_kv": [(U32, 0), (U32, 3), (ARRAY, (U32, [1] * 6))],
            "attention.key_length": [(U32, 0), (U32, 1), (U32, 1 << 20)],
            "attention.value_length": [(U32, 0), (U32, 64), (STRING, b"")],
            "attention.sliding_window": [(U32, 0), (11, -5)],
            "attention.layer_norm_rms_epsilon": [(F32, 0.0), (F32, -1.0), (F32, float("nan")), (F32, float("inf"))],
            "rope.freq_base": [(F32, 0.0), (F32, float("nan")), (12, 1e300), (STRING, b"big")],
            "context_length": [(STRING, b"long"), (11, -1)],
        }
        for key, values in cases.items():
            for value in values:
                file = Gguf(MODEL)
                file.keys["gemma3." + key] = value
                file.write(self.path)
                self.refused("gemma3." + key, *self.eval())

    def test_numbers_of_experts_that_make_no_sense_are_refused_with_file_and_key(self):
        cases = {
            "expert_count": [(U32, 0), (U32, 2**31), (U32, 2**32 - 1), (STRING, b"8")],
            "expert_used_count": [(U32, 0), (U32, 9), (U32, 2**31), (5, -1)],
            "expert_feed_forward_length": [(U32, 0), (U32, 2**32 - 1), (F32, 128.0)],
            "expert_shared_feed_forward_length": [(U32, 0), (U32, 2**31)],
            "expert_weights_scale": [(F32, -1.0), (F32, float("nan")), (F32, float("inf"))],
        }
        for key, values in cases.items():
            for value in values:
                file = Gguf(EXPERT_MODEL)
                file.keys["qwen35moe." + key] = value
                file.write(self.path)
                self.refused("qwen35moe." + key, *self.eval())

    def test_experts_of_another_shape_are_refused_with_file_and_tensor(self):
        name = b"blk.1.ffn_down_exps.weight"
        for dims in ((128, 2048, 1), (128, 128, 16), (256, 128, 8), (128, 64, 32)):  # as many elements each
            file = Gguf(EXPERT_MODEL)
            at = file.infos.index(text_bytes(name)) + len(text_bytes(name)) + 4
            file.infos = file.infos[:at] + struct.pack("<QQQ", *dims) + file.infos[at + 24:]
            file.write(self.path)
            self.refused("blk.1.ffn_down_exps.weight", *self.eval())
        for key, named in (("expert_count", "ffn_gate_inp"), ("expert_feed_forward_length", "ffn_gate_exps")):
            file = Gguf(EXPERT_MODEL)
            file.keys["qwen35moe." + key] = U32, 64  # the tensors have another number
            file.write(self.path)
            self.refused(named, *self.eval())

    def test_faults_of_the_tokenizer_name_the_file(self):
        cases = {
            "tokenizer.ggml.model": [(U32, 1), (STRING, b"t5")],
            "tokenizer.ggml.tokens": [(ARRAY, (U32, [1])), (ARRAY, (STRING, []))],
            "tokenizer.ggml.scores": [(ARRAY, (F32, [0.0] * 1023)), (ARRAY, (F32, [float("nan")] * 1024)), (U32, 1)],
            "tokenizer.ggml.token_type": [(ARRAY, (5, [1] * 1023)), (ARRAY, (5, [9] * 1024)), (U32, 1)],
            "tokenizer.ggml.bos_token_id": [(STRING, b"2")],
        }
        for key, values in cases.items():
            for value in values:
                file = Gguf(MODEL)
                file.keys[key] = value
                file.write(self.path)
                self.refused(key, "tokenize", "-m", self.path, "--", "text")
                self.refused(key, "run", "-m", self.path, "-p", "text", "-n", "1")

    def test_more_tokens_than_the_model_has_rows_are_refused(self):
        for model in (MODEL, RECURRENT_MODEL):
            file = Gguf(model)
            for key, extra in (("tokens", b"a token too many"), ("token_type", 1), ("scores", 0.0)):
                if "tokenizer.ggml." + key in file.keys:
                    file.keys["tokenizer.ggml." + key][1][1].append(extra)
            file.write(self.path)
            self.refused("1025 tokens", "run", "-m", self.path, "-p", "text", "-n", "1")

    def test_names_in_a_file_cannot_command_the_terminal(self):
        file = Gguf(MODEL)
        file.keys["general.name"] = STRING, b"evil\x1b]0;title\x07\xc2\x9b31m"
        file.write(self.path)
        self.tenon("run", "-m", self.path, "-p", "a", "-n", "1")
        self.assertIn("evil?]0;title??31m", self.errors)
        file.keys["general.architecture"] = STRING, b"\x1b[2J"
        file.write(self.path)
        self.refused("?[2J", *self.eval())
        self.assertNotIn("\x1b", self.errors)

    def test_json_stays_json_whatever_bytes_a_file_has(self):
        file = Gguf(MODEL)
        file.keys["general.name"] = STRING, b"\xff\xfe\x00\xc3"
        file.keys["gemma3.rope.freq_base"] = F32, float("nan")
        tokens = file.keys["tokenizer.ggml.tokens"][1][1]
        tokens[500:600] = [b"\xff%d" % i for i in range(100)]
        file.write(self.path)
        self.assertIn("general.name", json.loads(self.tenon("inspect", self.path, "--json"))["file"]["metadata"])
        ids = ",".join(map(str, range(500, 600)))
        json.loads(self.tenon("tokenize", "-m", self.path, "--decode", ids, "--json"))

    def test_many_keys_are_reported_in_time(self):
        file = Gguf(MODEL)
        for i in range(60000):
            file.keys[f"x.{i}"] = 0, 1
        file.write(self.path)
        begin = time.monotonic()
        self.tenon("inspect", self.path, "--json")
        self.assertLess(time.monotonic() - begin, 15)  # a walk over all keys for each takes minutes

    def test_rotary_divisors_that_are_no_positive_numbers_are_refused(self):
        begin = struct.pack("<f", 1.0) * 4
        for bad in (0.0, -1.0, float("nan")):
            file = Gguf(SCALED_MODEL)
            at = file.data.index(begin)  # the divisors of fast pairs are 1
            file.data = file.data[:at + 4] + struct.pack("<f", bad) + file.data[at + 8:]
            file.write(self.path)
            self.refused("tensor rope_freqs.weight: entry 1 is", *self.eval())

    def test_logits_that_are_not_finite_are_status_1(self):
        file = Gguf(MODEL)
        file.data = b"\xff" * len(file.data)
        file.write(self.path)
        self.tenon(*self.eval(), status=1)
        self.assertIn("position 1 are not finite", self.errors)


class Folders(Case):
    """Safetensors folders: a sound one, of which one file is changed or taken away."""

    def setUp(self):
        super().setUp()
        self.model = self.folder / "model"
        shutil.copytree(SAFETENSORS_MODEL, self.model)

    def refused(self, *named, words=None):
        self.tenon(*(words or ("eval", "-m", self.model, "--tokens", "5,6", "--out", self.folder / "o")), status=3)
        for text in named:
            self.assertIn(text, self.errors)

    def test_a_cache_takes_types_that_the_models_format_does_not_have(self):
        self.tenon("eval", "-m", self.model, "--tokens", "5,6", "--out", self.folder / "o", "--cache-type-k", "q8_0", "--cache-type-v", "q4_0")

    def tensors(self):
        blob = (self.model / "model.safetensors").read_bytes()
        begin = 8 + struct.unpack_from("<Q", blob)[0]
        return json.loads(blob[8:begin]), blob[begin:]

    def write(self, header, data):
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        (self.model / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)

    def test_a_sound_folder_runs_also_by_the_name_of_its_file(self):
        for name in (self.model, self.model / "model.safetensors"):
            self.tenon("eval", "-m", name, "--tokens", "5,6", "--out", self.folder / "o")

    def test_a_file_that_is_cut_or_longer_is_refused_with_what_and_where(self):
        header, data = self.tensors()
        self.write(header, data[:-1])
        self.refused("'model.safetensors': tensor", "leave the data", "is the file complete?")
        self.write(header, data + b"x")
        self.refused("'model.safetensors': the data at byte", "1 bytes behind the last tensor")
        (self.model / "model.safetensors").write_bytes(struct.pack("<Q", 2**62) + b"{}")
        self.refused("the header's length at byte 0", "expected at most 100000000")

    def test_a_header_that_is_no_json_or_names_a_tensor_twice_is_refused(self):
        header, data = self.tensors()
        text = json.dumps(header).encode()
        self.write(b"[" * 1000000, data)
        self.refused("nested more than 64 deep")
        self.write(text[:-1], data)
        self.refused("'model.safetensors': JSON at byte")
        self.write(text[:-1] + b', "lm_head.weight": {}}', data)
        self.refused("'lm_head.weight' stands in one object twice")

    def test_a_scale_that_is_missing_or_misshapen_is_named(self):
        header, data = self.tensors()
        scale = next(name for name in header if name.endswith(".weight_scale_2"))
        header["other"] = header.pop(scale)
        self.write(header, data)
        self.refused("1 companion tensor", scale)

    def test_missing_weights_are_all_named_and_other_configurations_refused(self):
        header, data = self.tensors()
        for name in ("lm_head.weight", "model.language_model.norm.weight"):
            header["x." + name] = header.pop(name)
        self.write(header, data)
        self.refused("2 tensors are missing", "lm_head.weight", "model.language_model.norm.weight")

    def test_out_never_replaces_a_file_of_the_folder(self):
        for name in "model.safetensors", "config.json", "tokenizer.json":
            before = (self.model / name).read_bytes()
            for model in self.model, self.model / "model.safetensors":
                self.tenon("eval", "-m", model, "--tokens", "5,6", "--out", self.model / name, status=2)
                self.assertIn("of the model" if model == self.model or name != "model.safetensors" else "is the model file", self.errors)
                self.assertEqual((self.model / name).read_bytes(), before, name)

    def test_configurations_that_are_broken_are_refused_with_file_and_byte(self):
        config = json.loads((self.model / "config.json").read_text())
        (self.model / "config.json").write_text("{")
        self.refused("'config.json': JSON at byte 1")
        config["text_config"]["num_attention_heads"] = 0
        (self.model / "config.json").write_text(json.dumps(config))
        self.refused("text_config.num_attention_heads")
        (self.model / "config.json").unlink()
        self.refused("name no architecture", "config.json")

    def test_a_tokenizer_that_is_broken_or_of_another_kind_is_refused(self):
        words = ("tokenize", "-m", self.model, "--", "text")
        tokenizer = json.loads((self.model / "tokenizer.json").read_text())
        (self.model / "tokenizer.json").write_text('{"model": ')
        self.refused("tokenizer.json: at byte", words=words)
        tokenizer["model"]["type"] = "Unigram"
        (self.model / "tokenizer.json").write_text(json.dumps(tokenizer))
        self.refused("tokenizer.json: model 'Unigram' is not served", words=words)

    def test_a_part_of_a_set_that_is_missing_is_named(self):
        index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
        (self.model / "model.safetensors.index.json").write_text(json.dumps(index))
        self.refused("2 files ('model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors') missing, with 2 tensors")


class Use(Case):
    def refused(self, named, *words, status=2, **how):
        self.tenon(*words, status=status, **how)
        self.assertIn(named, self.errors)

    def test_threads_that_cannot_be_had_are_an_answer(self):
        def few_threads():
            resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))

        words = "run", "-m", MODEL, "-p", "a", "-n", "1"
        self.refused("worker thread", *words, "-t", "1024", status=4, preexec_fn=few_threads)
        self.refused("expected 1 to 1024", *words, "-t", "1025")

    def test_sizes_beyond_all_memory_are_an_answer(self):
        def little_memory():
            resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

        out = "--out", self.folder / "o"
        self.tenon("eval", "-m", MODEL, "--tokens", "5,6", *out, "--chunk", "999999936", preexec_fn=little_memory)
        self.refused("K/V pages", "eval", "-m", MODEL, "--tokens", "5,6", *out, "-c", "1000000000", "--copies", "1024",
                     status=4, preexec_fn=little_memory)
        self.refused("a smaller --ctx-size takes less", "eval", "-m", MODEL, "--tokens", "5,6", *out, "-c", "100000000", status=4,
                     preexec_fn=little_memory)
        self.refused("a smaller --prefix-cache takes less", "chat", "-m", MODEL, "--prefix-cache", "64G", status=4,
                     preexec_fn=little_memory)

    def test_a_file_larger_than_all_address_space_is_no_fault_of_the_file(self):
        model = self.folder / "large.gguf"
        model.write_bytes(MODEL.read_bytes())
        os.truncate(model, 1 << 40)  # sparse
        self.refused("large.gguf': cannot be mapped", "inspect", model, status=4,
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30)))

    def test_devices_without_end_are_refused(self):
        self.refused("1 GiB", "perplexity", "-m", MODEL, "-f", "/dev/zero", status=3)

    def test_a_pipe_as_out_file_is_refused_at_once(self):
        os.mkfifo(self.folder / "pipe")
        self.refused("seek", "eval", "-m", MODEL, "--tokens", "5", "--out", self.folder / "pipe", status=1)

    def test_out_files_are_whole_or_not_there(self):
        words = "eval", "-m", MODEL, "--tokens", ",".join(map(str, range(1024))), "--rows", "all", "--out"
        limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10000, 10000))}
        self.refused("File too large", *words, self.folder / "o", status=1, **limit)
        for numbers in [signal.SIGTERM], [signal.SIGINT, signal.SIGTERM], [signal.SIGINT, signal.SIGINT]:
            # One slow thread and many rows: the program is in the middle of its work when the file is there.
            with subprocess.Popen([PROGRAM, *map(str, words), str(self.folder / "o"), "--backend", "reference"],
                                  stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
                self.assertIn(b" on reference", process.stderr.readline())
                self.assertEqual(len(list(self.folder.iterdir())), 1)
                for number in numbers:
                    process.send_signal(number)
                    time.sleep(0.05)
                process.wait(timeout=60)
                self.assertIn(process.returncode, [130, -numbers[-1]])
            self.assertEqual(list(self.folder.iterdir()), [], numbers)

    def test_out_writes_where_a_link_points_to_and_never_over_the_model(self):
        words = "eval", "-m", MODEL, "--tokens", "5", "--out"
        link, target = self.folder / "link", self.folder / "target"
        link.symlink_to(target)
        self.refused("No such file", *words, link, status=1)
        target.write_bytes(b"")
        self.tenon(*words, link)
        self.assertTrue(link.is_symlink() and target.stat().st_size > 1024)
        model = self.folder / "model.gguf"
        model.symlink_to(MODEL)
        self.refused("is the model file", *words, model)

    def test_ctrl_c_ends_waiting_for_a_pipe(self):
        os.mkfifo(self.folder / "pipe")
        for words in ("perplexity", "-f", self.folder / "pipe"), ("run", "--tokens", f"@{self.folder / 'pipe'}"):
            with subprocess.Popen([PROGRAM, *map(str, words), "-m", str(MODEL)], stdin=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE) as process:
                time.sleep(0.5)  # it waits by then
                process.send_signal(signal.SIGINT)
                self.assertEqual(process.wait(timeout=60), 130)
                self.assertIn(b"interrupted", process.stderr.read())

    def test_json_nested_without_end_is_refused(self):
        deep = self.folder / "deep.json"
        for text in '[' * 1000000 + ']' * 1000000, '{"messages": [], "x": ' + '{"a":' * 500000 + '1' + '}' * 500001:
            deep.write_text(text)
            self.refused("deep.json: no valid JSON: ", "chat", "-m", MODEL, "--messages", deep, "--render", status=3)
            self.assertIn("nested deeper", self.errors)
        arguments = '{"a":' + '[' * 50000 + ']' * 50000 + '}'
        self.refused("--template-args", "run", "-m", MODEL, "-p", "a", "--template-args", arguments)
        self.assertLess(len(self.errors), 400)

    def test_a_line_without_end_is_refused(self):
        with open("/dev/zero", "rb") as zeros:
            self.refused("16 MiB", "chat", "-m", MODEL, status=1, stdin=zeros)

    def test_a_model_that_shrinks_while_it_is_used_is_an_answer(self):
        model = self.folder / "model.gguf"
        model.write_bytes(MODEL.read_bytes())
        # The reference reads its weights in the file's own pages.
        with subprocess.Popen([PROGRAM, "chat", "-m", str(model), "--backend", "reference"], stdin=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            self.assertIn(b" on reference", process.stderr.readline())
            os.truncate(model, 4096)
            _, errors = process.communicate(b"1 2 3\n", timeout=60)
            self.assertEqual(process.returncode, 3, errors)
            self.assertIn(b"shrunk", errors)

    def test_what_the_user_forbids_is_wrong_usage(self):
        words = "run", "-m", MODEL, "-p", "a", "-n", "1"
        self.refused("forbidden by the user", *words, "--forbid", "cpu")
        self.refused("--cache-type-k", *words, "--cache-type-k", "q4_k")
        self.refused('--forbid: no kernel\'s name begins with "cqu"', *words, "--forbid", "cqu", status=0)
        self.refused("--tokens", "run", "-m", MODEL, "--tokens", "@")

    def test_a_slow_reader_that_does_not_block_gets_everything(self):
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETFL, os.O_NONBLOCK)
        clean = {name: value for name, value in os.environ.items() if not name.startswith("TENON_E2E")}
        with subprocess.Popen([PROGRAM, "inspect", str(RECURRENT_MODEL), "--kernels", "--json"], stdout=writer,
                              stderr=subprocess.PIPE, env=clean) as process:
            os.close(writer)
            time.sleep(1)  # the pipe is full by then
            with os.fdopen(reader, "rb") as pipe:
                json.loads(pipe.read())
            self.assertEqual(process.wait(timeout=60), 0, process.stderr.read())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]], verbosity=2)
