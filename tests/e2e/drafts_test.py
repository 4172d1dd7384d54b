#!/usr/bin/env python3
"""Draft entries from outside: in the model's file, in files of their own, with heads of fewer tokens; and files that do not
fit. Environment: TENON_E2E_PROGRAM; TENON_E2E_DATA, tests/data."""
import math
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest

for folder in "support", "golden":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / folder))
from gguf_file import ARRAY, BOOL, f32_tensor, GgufTensors, STRING, Tensor, TYPE_F32, TYPE_I32, TYPE_I64, U32
from golden import arrays

PROGRAM = os.environ["TENON_E2E_PROGRAM"]
MODELS = pathlib.Path(os.environ["TENON_E2E_DATA"]) / "models"
QWEN35 = MODELS / "qwen35" / "qwen35-Q4_K_M.gguf"
STEP35 = MODELS / "step35" / "step35-Q3_K_M.gguf"
GEMMA4 = MODELS / "gemma4" / "gemma4-Q4_0.gguf"
GEMMA3 = MODELS / "gemma3" / "gemma3-Q4_0.gguf"
VOCABULARY = 1024
TOKENS = [(7 * i * i + 3) % VOCABULARY for i in range(150)]


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def eval(self, model, *words, tokens=TOKENS, status=0):
        out = self.folder / "out.safetensors"
        ids = ",".join(map(str, tokens))
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith("TENON_") or name == "TENON_PLUGIN_PATH"}
        done = subprocess.run([PROGRAM, "eval", "-m", str(model), "--tokens", ids, "--out", str(out), *map(str, words)], env=clean,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=250)
        self.errors = done.stderr.decode("utf-8", errors="replace")
        self.assertEqual(done.returncode, status, (words, self.errors))
        return arrays(out) if status == 0 else None

    def refused(self, status, *named_and_words):
        *named, model, words = named_and_words
        self.eval(model, *words, tokens=TOKENS[:20], status=status)
        for text in named:
            self.assertIn(text, self.errors)

    def short_blocks(self, path):
        """the file in a type whose blocks are short enough for the cuts of so small a model"""
        out = self.folder / f"short-{path.name}"
        subprocess.run([PROGRAM, "quantize", str(path), str(out), "--type", "Q8_0"], check=True, capture_output=True)
        return out

    def spreads(self, model, *words, tokens=TOKENS, plans=((2, 1), (1, 2), (2, 2))):
        """over ranks it is what one device gives with as many parts of sums"""
        for tensor, stages in plans:
            wanted = self.eval(model, *words, "--sum-parts", tensor, tokens=tokens)
            ranks = ("--tensor-parallel", tensor, "--pipeline-parallel", stages)
            self.assertEqual(self.eval(model, *words, *ranks, tokens=tokens), wanted, ranks)

    def split(self, path, n_trunk):
        """the trunk and the drafts of a file, apart"""
        trunk, drafts = GgufTensors(path), GgufTensors(path)
        is_draft = lambda name: name.startswith("blk.") and int(name.split(".")[1]) >= n_trunk
        trunk.tensors = {name: t for name, t in trunk.tensors.items() if not is_draft(name)}
        drafts.tensors = {name: t for name, t in drafts.tensors.items() if is_draft(name) or not name.startswith("blk.")}
        return trunk, drafts


class Entries(Case):
    def test_chunks_and_steps_of_every_width_are_equal(self):
        for model in (QWEN35, STEP35):
            for words in (("--step", "1"), ()):
                ways = [("--step", "5"), ("--step", "15"), ("-t", "3")] if words else [("--chunk", "64"), ("--chunk", "128")]
                wanted = self.eval(model, "--entry", "draft.0", "--rows", "0,63,64,130,148", *words)["logits"]
                self.assertEqual(wanted[0], [5, VOCABULARY])
                for way in ways:
                    found = self.eval(model, "--entry", "draft.0", "--rows", "0,63,64,130,148", *way, *(words if "-t" in way else ()))
                    self.assertEqual(found["logits"], wanted, (model, way))

    def test_rows_pair_neighbours_so_the_last_token_has_none(self):
        every = self.eval(QWEN35, "--entry", "draft.0", "--rows", "all", tokens=TOKENS[:40])["logits"]
        self.assertEqual(every[0], [39, VOCABULARY])
        last = self.eval(QWEN35, "--entry", "draft.0", "--rows", "last", tokens=TOKENS[:40])["logits"]
        self.assertEqual(last[1], every[1][-VOCABULARY:])
        self.refused(2, "--rows", QWEN35, ("--entry", "draft.0", "--rows", "19"))
        self.eval(QWEN35, "--entry", "draft.0", tokens=TOKENS[:1], status=2)
        self.assertIn("draft.0 needs 2 or more", self.errors)

    def test_taps_are_the_drafts_own(self):
        found = self.eval(STEP35, "--entry", "draft.0", "--rows", "3,100", "--taps", "hidden,draft")
        self.assertEqual(found["hidden"][0], [2, 2, 256])
        self.assertEqual(found["draft.hidden"][0], [2, 256])
        self.assertNotEqual(found["draft.hidden"][1], found["hidden"][1][512:])  # before and after the norm
        found = self.eval(QWEN35, "--entry", "draft.0", "--rows", "3,100", "--taps", "hidden,draft")
        self.assertEqual(found["draft.hidden"][1], found["hidden"][1][512:])

    def three_blocks(self):
        file = GgufTensors(STEP35)
        for name in [name for name in file.tensors if name.startswith("blk.5.")]:
            for block in (6, 7):
                file.tensors[f"blk.{block}." + name[6:]] = file.tensors[name]
        file.keys["step35.block_count"], file.keys["step35.nextn_predict_layers"] = (U32, 8), (U32, 3)
        for key, value in (("attention.head_count", 6), ("attention.head_count_kv", 2), ("attention.sliding_window_pattern", True)):
            kind, (element, values) = file.keys["step35." + key]
            file.keys["step35." + key] = kind, (element, values + [value] * 2)
        return file, file.write(self.folder / "three.gguf")

    def test_a_chain_hands_hidden_rows_on(self):
        """Three blocks of equal weights: the second sees the first one's rows, each a token further on."""
        file, path = self.three_blocks()
        for k in range(3):
            rows = f"0,5,{148 - k}"
            found = self.eval(path, "--entry", f"draft.{k}", "--rows", rows)["logits"]
            self.assertEqual(self.eval(path, "--entry", f"draft.{k}", "--rows", rows, "--chunk", "64")["logits"], found)
            if k == 0:
                self.assertEqual(found, self.eval(STEP35, "--entry", "draft.0", "--rows", rows)["logits"])
                first = found
            self.assertNotEqual(found[1][:VOCABULARY], first[1][:VOCABULARY] if k else None)
        self.refused(2, "no entry draft.3; there are main, draft.0, draft.1, draft.2", path, ("--entry", "draft.3"))
        # A hole in the chain stops it where it is, not before.
        del file.tensors["blk.6.nextn.hnorm.weight"], file.tensors["blk.6.ffn_up.weight"]
        file.write(path)
        self.eval(path, "--entry", "draft.0")
        self.assertIn("entry draft.1 cannot be used", self.errors)
        self.refused(3, "three.gguf", "2 tensors are missing", "blk.6.nextn.hnorm.weight", "blk.6.ffn_up.weight", path, ("--entry", "draft.1"))


    def test_a_chain_over_ranks(self):
        words = ("--entry", "draft.2", "--rows", "0,5,130,146", "--taps", "draft")
        self.spreads(self.short_blocks(self.three_blocks()[1]), *words)
        wanted = self.eval(self.three_blocks()[1], *words)
        for plan in (("--expert-parallel", 2), ("--expert-parallel", 3), ("--pipeline-parallel", 3), ("--expert-parallel", 2, "--pipeline-parallel", 2)):
            self.assertEqual(self.eval(self.three_blocks()[1], *words, *plan), wanted, plan)


class DraftFiles(Case):
    def test_a_split_export_equals_the_whole(self):
        for model, n_trunk, head in ((QWEN35, 8, None), (STEP35, 5, "output.weight")):
            trunk, drafts = self.split(model, n_trunk)
            trunk_path, draft_path = trunk.write(self.folder / "trunk.gguf"), drafts.write(self.folder / "drafts.gguf")
            rows = ("--rows", "0,70,148")
            wanted = self.eval(model, "--entry", "draft.0", *rows)
            self.assertEqual(self.eval(trunk_path, "--draft", draft_path, "--entry", "draft.0", *rows), wanted)
            self.assertEqual(self.eval(trunk_path, "--draft", model, "--entry", "draft.0", *rows), wanted)  # from a whole file
            self.assertEqual(self.eval(trunk_path, *rows), self.eval(model, *rows))
            # Either alone says what it is.
            self.eval(trunk_path)
            self.assertIn("announces 1 draft block", self.errors)
            self.refused(2, "no entry draft.0; there are main", trunk_path, ("--entry", "draft.0"))
            self.refused(3, "drafts.gguf", "draft blocks alone (draft.0", "--draft", draft_path, ())
            # Embedding, norm and head may be left to the model.
            for name in ("token_embd.weight", "output_norm.weight", "output.weight"):
                drafts.tensors.pop(name, None)
            drafts.write(draft_path)
            self.assertEqual(self.eval(trunk_path, "--draft", draft_path, "--entry", "draft.0", *rows), wanted)

    def test_files_of_drafts_over_ranks(self):
        for model, n_trunk in ((QWEN35, 8), (STEP35, 5)):
            trunk, drafts = self.split(model, n_trunk)
            trunk_path = self.short_blocks(trunk.write(self.folder / f"trunk-{n_trunk}.gguf"))
            draft_path = self.short_blocks(drafts.write(self.folder / f"drafts-{n_trunk}.gguf"))
            words = ("--entry", "draft.0", "--rows", "0,70,148")
            self.spreads(trunk_path, "--draft", draft_path, *words)
            self.spreads(trunk_path, "--draft", model, *words, plans=((1, 2), (1, 3)))
            if model == STEP35:
                continue
            # What its types do not allow is said of the draft, whose weights may be called as the model's are.
            self.refused(2, "entry draft.0: weight blk.8.ffn_down.weight, columns: 256 cannot be cut in 2",
                         trunk_path, ("--draft", model, "--entry", "draft.0", "--tensor-parallel", 2))

    def trimmed(self, ids, kind=TYPE_I32, form="i"):
        _, drafts = self.split(STEP35, 5)
        head = "blk.5.nextn.shared_head_head.weight"
        drafts.tensors[head] = drafts.tensors[head].rows([int(i) % VOCABULARY for i in ids])
        drafts.tensors["d2t"] = Tensor([len(ids)], kind, struct.pack(f"<{len(ids)}{form}", *ids))
        return drafts.write(self.folder / "trimmed.gguf")

    def test_a_head_of_fewer_tokens_lists_their_ids(self):
        ids = [5, 1023, 0, 77] + list(range(200, 300))
        whole = self.eval(STEP35, "--entry", "draft.0", "--rows", "0,148")["logits"][1]
        for kind, form in ((TYPE_I32, "i"), (TYPE_I64, "q")):
            found = self.eval(STEP35, "--draft", self.trimmed(ids, kind, form), "--entry", "draft.0", "--rows", "0,148")
            self.assertEqual(found["ids"], ([len(ids)], tuple(ids)))
            self.assertEqual(found["logits"][0], [2, len(ids)])
            self.assertEqual(found["logits"][1], tuple(whole[row * VOCABULARY + i] for row in (0, 1) for i in ids))
        self.spreads(STEP35, "--draft", self.trimmed(ids), "--entry", "draft.0", "--rows", "0,148", plans=((1, 2),))
        self.spreads(self.short_blocks(STEP35), "--draft", self.short_blocks(self.trimmed(ids)), "--entry", "draft.0", "--rows", "0,148")

    def test_id_maps_that_do_not_fit_are_refused(self):
        words = lambda path: (STEP35, ("--draft", path, "--entry", "draft.0"))
        self.refused(3, "trimmed.gguf", "d2t", "entry 1 is 1024, expected a token from 0 to 1023", *words(self.trimmed([5, 1024])))
        self.refused(3, "d2t", "entry 0 is -1", *words(self.trimmed([-1, 5])))
        wide = self.trimmed([2**32 + 5, 5], TYPE_I64, "q")
        self.refused(3, "d2t", "entry 0 is 4294967301", *words(wide))
        self.refused(3, "d2t", "expected i32 or i64", *words(self.trimmed([5.0, 6.0], TYPE_F32, "f")))
        file = GgufTensors(self.trimmed([5, 6, 7]))
        file.tensors["d2t"] = Tensor([2], TYPE_I32, struct.pack("<2i", 5, 6))
        self.refused(3, "d2t", "2 ids, but the draft has 3 logits", *words(file.write(self.folder / "trimmed.gguf")))
        del file.tensors["d2t"]
        self.refused(3, "3 logits", "no id map", *words(file.write(self.folder / "trimmed.gguf")))

    def test_drafts_of_other_models_are_refused_by_name(self):
        _, drafts = self.split(STEP35, 5)
        path = drafts.write(self.folder / "other.gguf")
        draft = ("--draft", path, "--entry", "draft.0")
        self.refused(3, "draft file", "other.gguf", "step35 drafts for step35, but the model is qwen35", QWEN35, draft)
        self.refused(3, "draft file", "gemma3-Q4_0.gguf", "gemma3 drafts for gemma3", QWEN35, ("--draft", GEMMA3))
        self.refused(3, "it holds no draft blocks", GEMMA3, ("--draft", GEMMA3))
        self.refused(3, "missing.gguf", QWEN35, ("--draft", self.folder / "missing.gguf"))
        drafts.keys["step35.embedding_length"] = U32, 128
        drafts.tensors = {name: t for name, t in drafts.tensors.items() if name.startswith("blk.")}
        drafts.write(path)
        self.refused(3, "other.gguf", "blk.5.", STEP35, draft)
        _, drafts = self.split(STEP35, 5)
        drafts.tensors["token_embd.weight"] = drafts.tensors["token_embd.weight"].rows(range(1000))
        drafts.tensors["output.weight"] = drafts.tensors["output.weight"].rows(range(1000))
        drafts.tensors.pop("blk.5.nextn.shared_head_head.weight")
        drafts.write(path)
        self.refused(3, "a vocabulary of 1000 tokens, but the model's has 1024", STEP35, draft)


def product(rows, x):
    return [sum(map(lambda a, b: a * b, row, x)) for row in rows]


def normed(x, weight=None, eps=1e-6):
    scale = 1 / math.sqrt(sum(v * v for v in x) / len(x) + eps)
    return [v * scale * (weight[i] if weight else 1) for i, v in enumerate(x)]


def turned(x, frequencies, position):
    half, out = len(x) // 2, list(x)
    for i, frequency in enumerate(frequencies):
        angle = position * frequency
        out[i] = x[i] * math.cos(angle) - x[i + half] * math.sin(angle)
        out[i + half] = x[i + half] * math.cos(angle) + x[i] * math.sin(angle)
    return out


def q4_0_rows(tensor):
    """a matrix of 32-value blocks: an f16 factor, then 16 bytes, low halves first"""
    cols, rows = tensor.dims
    for r in range(rows):
        row = []
        for at in range(r * cols // 32 * 18, (r + 1) * cols // 32 * 18, 18):
            factor, codes = struct.unpack_from("<e", tensor.data, at)[0], tensor.data[at + 2:at + 18]
            row += [factor * ((code & 15) - 8) for code in codes] + [factor * ((code >> 4) - 8) for code in codes]
        yield row


class Assistant(Case):
    """gemma4-assistant with random weights against its maths in plain Python, from what enters the model's layers."""
    WIDTH, TARGET, INNER, HEADS, WINDOW = 64, 256, 96, 2, 32
    LAYERS = ((True, 256, 4), (False, 512, 5))  # local?, width of a head, layer of the model whose keys it reads

    def setUp(self):
        super().setUp()
        self.path, self.weights = self.folder / "assistant.gguf", {}
        target, file, source = GgufTensors(GEMMA4), GgufTensors(GEMMA4), random.Random(5)
        prefix = "gemma4-assistant."
        file.keys = {"general.architecture": (STRING, b"gemma4-assistant"), prefix + "block_count": (U32, 2),
                     prefix + "embedding_length": (U32, self.WIDTH), prefix + "embedding_length_out": (U32, self.TARGET),
                     prefix + "feed_forward_length": (U32, self.INNER), prefix + "nextn_predict_layers": (U32, 2),
                     prefix + "attention.shared_kv_layers": (U32, 2),
                     prefix + "attention.sliding_window_pattern": (ARRAY, (BOOL, [True, False]))}
        file.tensors = {}
        for name in ("context_length", "attention.head_count", "attention.head_count_kv", "attention.key_length",
                     "attention.key_length_swa", "attention.sliding_window", "attention.layer_norm_rms_epsilon", "rope.freq_base",
                     "rope.freq_base_swa", "rope.dimension_count", "rope.dimension_count_swa"):
            file.keys[prefix + name] = target.keys["gemma4." + name]

        def add(name, rows, cols):
            values = [source.gauss(0, 1) * cols**-0.5 if rows > 1 else source.uniform(0.5, 1.5) for _ in range(rows * cols)]
            values = [struct.unpack("<f", struct.pack("<f", value))[0] for value in values]
            file.tensors[name] = f32_tensor([cols, rows] if rows > 1 else [cols], values)
            self.weights[name] = [values[r * cols:(r + 1) * cols] for r in range(rows)] if rows > 1 else values

        add("token_embd.weight", VOCABULARY, self.WIDTH)
        add("output_norm.weight", 1, self.WIDTH)
        add("nextn.pre_projection.weight", self.WIDTH, 2 * self.TARGET)
        add("nextn.post_projection.weight", self.TARGET, self.WIDTH)
        for i, (_, head, _) in enumerate(self.LAYERS):
            b = f"blk.{i}."
            for name in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"):
                add(f"{b}{name}.weight", 1, self.WIDTH)
            add(b + "attn_q.weight", self.HEADS * head, self.WIDTH)
            add(b + "attn_q_norm.weight", 1, head)
            add(b + "attn_output.weight", self.WIDTH, self.HEADS * head)
            add(b + "ffn_gate.weight", self.INNER, self.WIDTH)
            add(b + "ffn_up.weight", self.INNER, self.WIDTH)
            add(b + "ffn_down.weight", self.WIDTH, self.INNER)
            add(b + "layer_output_scale.weight", 1, 1)
        file.tensors["rope_freqs.weight"] = target.tensors["rope_freqs.weight"]
        self.target, self.file = target, file
        file.write(self.path)
        divisors = struct.unpack("<256f", target.tensors["rope_freqs.weight"].data[:1024])
        self.frequencies = {True: [10000.0**(-2 * i / 256) for i in range(128)],
                            False: [1e6**(-2 * i / 512) / divisors[i] for i in range(256)]}

    def eval_draft(self, *words, tokens=TOKENS):
        return self.eval(GEMMA4, "--draft", self.path, "--entry", "draft.0", *words, tokens=tokens)

    def keys_and_values(self, layer, local, head, entering):
        """of every position, as the model's layer computes them"""
        vector = lambda name: struct.unpack_from(f"<{self.target.tensors[name].dims[0]}f", self.target.tensors[name].data)
        norm, key_norm = vector(f"blk.{layer}.attn_norm.weight"), vector(f"blk.{layer}.attn_k_norm.weight")
        key_rows = list(q4_0_rows(self.target.tensors[f"blk.{layer}.attn_k.weight"]))
        value = self.target.tensors.get(f"blk.{layer}.attn_v.weight")
        value_rows = list(q4_0_rows(value)) if value else None
        for position, row in enumerate(entering):
            u = normed(row, norm)
            k = product(key_rows, u)
            v = product(value_rows, u) if value else k
            yield turned(normed(k, key_norm), self.frequencies[local], position), normed(v)

    def draft_row(self, t, hidden, stored):
        """logits and the projected row for hidden row t and the token of position t + 1"""
        w = self.weights
        x = product(w["nextn.pre_projection.weight"], hidden[0][t + 1] + hidden[6][t])
        for i, (local, head, _) in enumerate(self.LAYERS):
            b = f"blk.{i}."
            q = product(w[b + "attn_q.weight"], normed(x, w[b + "attn_norm.weight"]))
            seen = stored[i][max(0, t + 1 - self.WINDOW):t + 1] if local else stored[i][:t + 1]
            mixed = []
            for h in range(self.HEADS):
                turned_q = turned(normed(q[h * head:(h + 1) * head], w[b + "attn_q_norm.weight"]), self.frequencies[local], t + 1)
                scores = product([k for k, _ in seen], turned_q)
                weights = [math.exp(s - max(scores)) for s in scores]
                mixed += [sum(a * v[c] for a, (_, v) in zip(weights, seen)) / sum(weights) for c in range(head)]
            h = product(w[b + "attn_output.weight"], mixed)
            x = [a + c for a, c in zip(x, normed(h, w[b + "post_attention_norm.weight"]))]
            u = normed(x, w[b + "ffn_norm.weight"])
            gelu = lambda g: 0.5 * g * (1 + math.tanh(math.sqrt(2 / math.pi) * (g + 0.044715 * g**3)))
            inner = [gelu(g) * p for g, p in zip(product(w[b + "ffn_gate.weight"], u), product(w[b + "ffn_up.weight"], u))]
            h = product(w[b + "ffn_down.weight"], inner)
            x = [(a + c) * w[b + "layer_output_scale.weight"][0] for a, c in zip(x, normed(h, w[b + "post_ffw_norm.weight"]))]
        z = normed(x, w["output_norm.weight"])
        return product(w["token_embd.weight"], z), product(w["nextn.post_projection.weight"], z)

    def test_it_reads_the_models_embedding_rows_keys_and_values(self):
        tokens, rows = TOKENS[:48], (0, 31, 46)  # windows of 32 before, at and beyond their width
        ids = ("--rows", "all", "--taps", "hidden", "--precision", "exact")
        (layers, n, width), flat = self.eval(GEMMA4, *ids, tokens=tokens)["hidden"]
        hidden = [[list(flat[(i * n + t) * width:(i * n + t + 1) * width]) for t in range(n)] for i in range(layers)]
        stored = [list(self.keys_and_values(layer, local, head, hidden[layer])) for local, head, layer in self.LAYERS]
        found = self.eval_draft("--rows", ",".join(map(str, rows)), "--taps", "draft", "--precision", "exact", tokens=tokens)
        for place, t in enumerate(rows):
            logits, projected = self.draft_row(t, hidden, stored)
            for name, wanted in (("logits", logits), ("draft.hidden", projected)):
                shape, values = found[name]
                values = values[place * shape[1]:(place + 1) * shape[1]]
                worst = max(abs(a - b) for a, b in zip(values, wanted))
                self.assertLess(worst, 2e-4 * max(map(abs, wanted)), (name, t))

    def test_rows_do_not_see_what_the_model_wrote_behind_them(self):
        rows = ("--rows", "0,40,100,148")
        wanted = self.eval_draft(*rows, "--step", "1")["logits"]  # nothing is behind them
        for step in (4, 15):
            self.assertEqual(self.eval_draft(*rows, "--step", step)["logits"], wanted, step)
        self.assertEqual(self.eval_draft(*rows, "--chunk", "64"), self.eval_draft(*rows))

    def test_over_ranks_its_layers_are_with_the_keys_that_they_read(self):
        words = ("--draft", self.path, "--entry", "draft.0", "--rows", "0,40,100,148", "--taps", "draft")
        self.spreads(GEMMA4, *words, plans=((2, 1), (1, 2), (1, 3), (1, 6), (2, 2), (2, 3)))
        lists = ("--tensor-parallel", "0-3@0,1;4@1,2;5@3,2", "--sum-parts", 2)
        self.assertEqual(self.eval(GEMMA4, *words, *lists), self.eval(GEMMA4, *words, "--sum-parts", 2))

    def test_assistants_of_other_models_are_refused(self):
        self.refused(3, "assistant.gguf", "gemma4-assistant drafts for gemma4, but the model is qwen35", QWEN35, ("--draft", self.path))
        self.refused(3, "assistant.gguf", "draft blocks alone", self.path, ())
        changes = {"attention.sliding_window": ((U32, 16), 'store "local"', "window 32"),
                   "attention.head_count_kv": ((U32, 2), 'store "local"', "expects 2"),
                   "embedding_length_out": ((U32, 128), "hidden rows of 128 columns, but the model's have 256")}
        for key, (value, *named) in changes.items():
            kept = self.file.keys["gemma4-assistant." + key]
            self.file.keys["gemma4-assistant." + key] = value
            if key == "embedding_length_out":
                self.file.tensors["nextn.pre_projection.weight"] = f32_tensor([256, 64], [0.0] * 256 * 64)
                self.file.tensors["nextn.post_projection.weight"] = f32_tensor([64, 128], [0.0] * 64 * 128)
            self.file.write(self.path)
            self.refused(3, "assistant.gguf", *named, GEMMA4, ("--draft", self.path, "--entry", "draft.0"))
            self.file.keys["gemma4-assistant." + key] = kept


if __name__ == "__main__":
    unittest.main()
