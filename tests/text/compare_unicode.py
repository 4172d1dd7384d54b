#!/usr/bin/env python3
"""Encodes random Unicode texts with the vocabularies of real models here and elsewhere, and compares ids.
    compare_unicode.py TOKENIZE_LINES [--count N] [--first I] [--show N] NAME.gguf …
Peers, from the packages of these names: xllamacpp (llama.cpp) and tokenizers (Hugging Face). Ends with 77 without.
Where the peers differ from each other, class Explanations names the rule that holds here and counts those texts; any
other difference is a failure."""
import argparse
import collections
import http.client
import importlib.util
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unicodedata

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from gguf_file import ARRAY, F32, Gguf, STRING, U32, text_bytes
from random_texts import random_text

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)


def plain(kind, value):
    """Texts as str, arrays as lists."""
    if kind == ARRAY:
        return [plain(value[0], item) for item in value[1]]
    return value.decode() if kind == STRING else value


class Vocabulary:
    """The tokenizer's keys of a GGUF file, and their bytes."""

    def __init__(self, path):
        mine = {key: value for key, value in Gguf(path).keys.items() if key.startswith("tokenizer.ggml.")}
        self.keys = {key[len("tokenizer.ggml."):]: plain(*value) for key, value in mine.items()}
        self.raw = [Gguf.key_bytes(key, *value) for key, value in mine.items()]


def whole_model(vocabulary):
    """A model file with the vocabulary and weights of zeros: llama.cpp's server takes nothing less."""
    width, count = 32, len(vocabulary.keys["tokens"])
    numbers = {"block_count": 1, "context_length": 64, "embedding_length": width, "feed_forward_length": width,
               "attention.head_count": 1}
    keys = [Gguf.key_bytes("general.architecture", STRING, b"llama")]
    keys += [Gguf.key_bytes("llama." + key, U32, value) for key, value in numbers.items()]
    keys += [Gguf.key_bytes("llama.attention.layer_norm_rms_epsilon", F32, 1e-5), *vocabulary.raw]
    tensors = [("token_embd.weight", [width, count], 2), ("output_norm.weight", [width], 0)]
    tensors += [(f"blk.0.{name}.weight", [width], 0) for name in ("attn_norm", "ffn_norm")]
    tensors += [(f"blk.0.{name}.weight", [width, width], 2)
                for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")]
    out, data = b"GGUF" + struct.pack("<Iqq", 3, len(tensors), len(keys)) + b"".join(keys), b""
    for name, dims, kind in tensors:
        out += text_bytes(name.encode()) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}q", *dims)
        out += struct.pack("<IQ", kind, len(data))
        n = dims[0] * (dims[1] if len(dims) > 1 else 1)
        size = n // 32 * 18 if kind == 2 else 4 * n
        data += b"\0" * (size + -size % 32)
    return out + b"\0" * (-len(out) % 32) + data


class LlamaCpp:
    """The server's /tokenize, on this machine's loopback."""
    name = "llama.cpp"

    def __init__(self, vocabulary, folder):
        import xllamacpp
        path = folder / "model.gguf"
        path.write_bytes(whole_model(vocabulary))
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_ctx, params.warmup, params.n_gpu_layers, params.fit_params = 64, False, 0, False
        params.verbosity = -1
        self.server = xllamacpp.Server(params)
        address = self.server.listening_address
        self.connection = http.client.HTTPConnection(address.split("//")[-1], timeout=60)

    def encode(self, text, special):
        body = json.dumps({"content": text, "add_special": False, "parse_special": special})
        self.connection.request("POST", "/tokenize", body, {"Content-Type": "application/json"})
        return json.loads(self.connection.getresponse().read())["tokens"]


QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")


def merges_by_score(tokens, scores, types):
    """The rules that SentencePiece's scores mean: every pair of tokens that joins to a token, best score first."""
    ids = {token: i for i, token in enumerate(tokens) if types[i] in (NORMAL, USER, UNUSED)}
    rules = []
    for token, i in ids.items():
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in ids and right in ids:
                rules.append((-scores[i], ids[left], ids[right], (left, right)))
    return [rule[-1] for rule in sorted(rules)]


class HuggingFace:
    """A tokenizer of the `tokenizers` package, put together as the models' tokenizer.json are, but without NFC."""
    name = "tokenizers"

    def __init__(self, vocabulary, _):
        import tokenizers
        from tokenizers import models, normalizers, pre_tokenizers
        keys = vocabulary.keys
        tokens, types = keys["tokens"], keys["token_type"]
        vocab = {token: i for i, token in enumerate(tokens)}
        is_bytes = keys["model"] == "gpt2"
        merges = [tuple(split_rule(rule)) for rule in keys["merges"]] if "merges" in keys else \
            merges_by_score(tokens, keys["scores"], types)
        bpe = models.BPE(vocab, merges, byte_fallback=not is_bytes, fuse_unk=not is_bytes,
                         unk_token=None if is_bytes else tokens[keys["unknown_token_id"]])
        self.tokenizer = tokenizers.Tokenizer(bpe)
        if is_bytes:
            self.tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
                pre_tokenizers.Split(tokenizers.Regex(QWEN35), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        elif keys["model"] == "llama":
            self.tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        else:
            self.tokenizer.normalizer = normalizers.Replace(" ", "▁")
            self.tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
        added = [tokenizers.AddedToken(token, normalized=False, special=types[i] != USER)
                 for i, token in enumerate(tokens) if types[i] in (CONTROL, USER, UNKNOWN)]
        self.tokenizer.add_tokens(added)

        self.word = pre_tokenizers.Split(tokenizers.Regex(r"[\p{L}\p{M}\p{N}]"), "removed")

    def is_word(self, character):
        return not self.word.pre_tokenize_str(character)

    def encode(self, text, special):
        assert special
        return self.tokenizer.encode(text, add_special_tokens=False).ids


class Composing(HuggingFace):
    """With the normaliser that the tokenizer.json of Qwen models has."""
    name = "tokenizers with NFC"

    def __init__(self, vocabulary, folder):
        from tokenizers import normalizers
        super().__init__(vocabulary, folder)
        self.tokenizer.normalizer = normalizers.NFC()
        keys = vocabulary.keys
        added = [t for t, kind in zip(keys["tokens"], keys["token_type"]) if kind in (CONTROL, USER, UNKNOWN)]
        self.added = re.compile("(" + "|".join(map(re.escape, sorted(added, key=len, reverse=True))) + ")")

    def normalized(self, text):
        """Added tokens are cut out first; marks behind one stay apart from it."""
        parts = self.added.split(text)
        return "".join(p if i % 2 else self.tokenizer.normalizer.normalize_str(p) for i, p in enumerate(parts))


def split_rule(rule):
    space = rule.index(" ", 1)
    return rule[:space], rule[space + 1:]


class Ours:
    """tokenize_lines, asked text by text."""

    def __init__(self, program, path):
        self.process = subprocess.Popen([program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def encode(self, text, special):
        self.process.stdin.write(json.dumps({"text": text, "special": special}).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Explanations:
    """Where peers differ from each other, the rule that holds here, and the proof that nothing else is different: the
    peer's ids come out when the text is changed as the peer's rule has it."""

    def __init__(self, ours, vocabulary, peer):
        self.encode, self.vocabulary, self.peer = ours.encode, vocabulary, peer

    def of(self, text, special, found):
        for rule in (self.end_by_spelling, self.younger_letters, self.composed):
            if rule(text, special, found):
                return rule.__doc__
        return None

    def end_by_spelling(self, text, special, found):
        """llama.cpp takes the ordinary token "</s>" for a control token, by its spelling; here the file decides"""
        tokens, types = self.vocabulary.keys["tokens"], self.vocabulary.keys["token_type"]
        if self.peer.name != LlamaCpp.name or not special or "</s>" not in text or "</s>" not in tokens:
            return False
        end = tokens.index("</s>")
        ids = []
        for i, piece in enumerate(text.split("</s>")):
            ids += ([end] if i else []) + self.encode(piece, special)
        return types[end] == NORMAL and ids == found

    def younger_letters(self, text, special, found):
        """tokenizers has a younger Unicode table, with letters that are not assigned in ours and llama.cpp's"""
        if not self.peer.name.startswith(HuggingFace.name):
            return False
        young = {c for c in text if unicodedata.category(c) == "Cn" and self.peer.is_word(c)}
        plain = text.translate({ord(c): "\ue000" for c in young})
        return bool(young) and self.encode(plain, special) == self.peer.encode(plain, special)

    def composed(self, text, special, found):
        """Hugging Face's files for Qwen ask for NFC; GGUF has no key for it, and no GGUF engine normalises"""
        if self.peer.name != Composing.name:
            return False
        normal = self.peer.normalized(text)
        if normal == text:
            return False
        return self.encode(normal, special) == found or self.younger_letters(normal, special, found)


def compare(options, path, peer_class):
    vocabulary = Vocabulary(path)
    specials = [True, False] if peer_class is LlamaCpp else [True]
    numbers = range(options.first, options.first + options.count)
    texts = [(random_text(i), special) for i in numbers for special in specials]
    counts, faults = collections.Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        peer = peer_class(vocabulary, pathlib.Path(folder))
        ours = Ours(options.program, path)
        explanations = Explanations(ours, vocabulary, peer)
        for k, (text, special) in enumerate(texts):
            ids, found = ours.encode(text, special), peer.encode(text, special)
            reason = "equal" if ids == found else explanations.of(text, special, found)
            counts[reason or "not explained"] += 1
            if reason:
                continue
            faults += 1
            if faults <= options.show:
                print(f"text {options.first + k // len(specials)}, special {special}: {text!r}\n"
                      f"  here {ids}\n  {peer.name} {found}")
        ours.close()
    print(f"{pathlib.Path(path).name} and {peer.name}:")
    for reason, n in counts.most_common():
        print(f"  {n:6} {reason}", flush=True)
    return faults


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--show", type=int, default=5)
    return parser.parse_args()


def main():
    options = parse()
    missing = [name for name in ("xllamacpp", "tokenizers") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"SKIPPED: python3 has no {' and no '.join(missing)} to compare with")
        return 77
    n = 0
    for path in options.files:
        is_qwen = Vocabulary(path).keys.get("pre", "").startswith("qwen")
        for peer in (LlamaCpp, HuggingFace, *([Composing] if is_qwen else [])):
            n += compare(options, path, peer)
    return 1 if n else 0


if __name__ == "__main__":
    sys.exit(main())
