#!/usr/bin/env python3
"""Writes the corpora of the fuzz targets: make_corpus.py tests/data/fuzz. What they hold is made here, from the tiny
models and the template tests' snippets; inputs that once found a fault lie in the same folders as regression-*."""
import json
import pathlib
import sys

import tiny_models

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "template"))
import snippets  # noqa: E402

MANIFESTS = {
    "architecture": 'kind: ARCHITECTURE\narchitecture: "gemma3"\narchitecture: "gemma3_text"\n',
    "format": 'kind: FORMAT\nformat: "gguf"\nformat_magic: "GGUF"\nformat_extension: ".gguf"\n',
    "backend": 'kind: BACKEND\nbackend: "cpu"\npriority: -3\nkernels {\n  backend: "cpu"\n  op: "linear"\n}\n',
    "kernels": 'kind: KERNELS\nkernels {\n  backend: "cpu"\n  op: "linear"\n  dtype: "q8_0"\n  feature: "avx2"\n}\n'
               'dtype: "own"  # a comment\n',
    "collective": "kind: 5 collective: ['a', \"b\" 'c']\n",
}


def manifest(kind, body):
    return (f'name: "{kind}"\nversion: "0.1.0"\nabi_major: 0\nabi_minor: 1\nlibrary: "libtenon_{kind}.so"\n'
            f'sha256: "{"0123456789abcdef" * 4}"\n{body}').encode()


def templates():
    """Those that render, joined, and those that fail, alone."""
    good, bad = [], []
    for line in (HERE.parent / "template" / "goldens" / "snippets.jsonl").read_text().splitlines():
        golden = json.loads(line)
        if "template" not in golden:  # the variables of all
            continue
        (bad if "error" in golden else good).append(golden["template"])
    out = {f"many-{i // 30}": "\n".join(good[i:i + 30]) for i in range(0, len(good), 30)}
    out |= {f"refused-{i // 12}": text for i, text in enumerate(bad) if i % 12 == 0}
    out["json"] = ('{{ a }}{% for k, v in b | dictsort %}{{ k }}{{ v }}{% endfor %}\1'
                   '{"a": [1, 2.5e3, "\\u00e9"], "b": {"c": null}}')
    return {name: text.encode() for name, text in out.items()}


def token(kind, score, text):
    return bytes([kind, score & 255, len(text)]) + text


def merge(*numbers):
    return b"".join(number.to_bytes(2, "little") for number in numbers)


def tokenizer(model, pre, flags, tokens, merges, text):
    return (bytes([model, pre, flags, 2, 1, 0, len(tokens)]) + b"".join(tokens) +
            bytes([len(merges)]) + b"".join(merges) + text.encode())


def tokenizers():
    text = "Hello  world\n\n\t12345 I'll 'RE naïve e\u0301 日本語 🏴‍☠️ <eos><think>\r\n x"
    words = ["▁", "l", "o", "lo", "he", "h", "e", "▁▁", "\n\n", "本"]
    spm = [token(3, -9, b"<eos>"), token(4, -9, b"<think>"), token(2, 0, b"<unk>")]
    spm += [token(1, -i, word.encode()) for i, word in enumerate(words)]
    bpe = [token(3, 0, b"<eos>"), token(4, 0, b"<think>")]
    bpe += [token(1, 0, t) for t in (b"ll", b"lo", b"he", b"hell", b"hello", b" w", b"\n\n", b"12", "é".encode())]
    all_bytes, bos, prefix, types, scores, special, spelled, says = (1 << i for i in range(8))
    out = {"spm": tokenizer(0, 7, all_bytes | types | scores | says, spm, [], text),
           "spm-prefix": tokenizer(0, 7, all_bytes | bos | prefix | types | scores | special | says, spm, [], text),
           "spm-no-bytes": tokenizer(0, 7, types | scores | spelled, spm, [], text),
           "gemma4": tokenizer(2, 7, all_bytes | types, spm, [merge(260, 261), merge(264, 265), merge(259, 259)], text),
           "bpe-words": tokenizer(1, 7, types | spelled, [token(1, 0, c) for c in (b"a", b"b")], [merge(0, 1)], "ba")}
    merges = [merge(ord("l"), ord("l")), merge(ord("l"), ord("o")), merge(257, 258)]
    for pre in range(6):
        out[f"bpe-{pre}"] = tokenizer(1, pre, all_bytes | types | special, bpe, merges, text)
    return out


def main():
    root = pathlib.Path(sys.argv[1])
    made = {
        "gguf": {name: tiny_models.build(name)[0] for name in ("gemma3-small", "qwen35-small")},
        "manifest": {kind: manifest(kind, body) for kind, body in MANIFESTS.items()},
        "template": templates(),
        "tokenizer": tokenizers(),
    }
    empty = tiny_models.Writer()
    tiny_models.add_spm(empty, True)
    made["gguf"]["vocabulary"] = empty.build()
    for target, files in made.items():
        (root / target).mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (root / target / name).write_bytes(data)


if __name__ == "__main__":
    main()
