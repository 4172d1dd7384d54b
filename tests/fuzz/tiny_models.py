#!/usr/bin/env python3
"""Whole models of at most 64 KiB: gemma3's and qwen35's shapes, random weights, a small tokenizer and a chat template.
    tiny_models.py FOLDER     writes them as files
Imported, build(NAME) gives a model's bytes and the places of its fields, for scripts that damage them."""
import math
import pathlib
import random
import struct
import sys

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
FORMS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", U64: "Q", I64: "q", F64: "d"}
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)
LARGEST = 64 << 10
TEMPLATE = ("{%- for m in messages %}{{- '<|im_start|>' + m['role'] + '\\n' + m['content'] | trim + '<|im_end|>\\n' }}"
            "{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}")


def half(value):
    return struct.pack("<e", value)


def scales(r, n):
    return b"".join(half(r.uniform(0.001, 0.02)) for _ in range(n))


# Type: number, columns and bytes of a block, a random block. Scales are small, so that values stay finite.
TYPES = {
    "f32": (0, 1, 4, lambda r: struct.pack("<f", r.gauss(0, 0.2))),
    "f16": (1, 1, 2, lambda r: half(r.gauss(0, 0.2))),
    "q4_0": (2, 32, 18, lambda r: scales(r, 1) + r.randbytes(16)),
    "q5_1": (7, 32, 24, lambda r: scales(r, 2) + r.randbytes(20)),
    "q8_0": (8, 32, 34, lambda r: scales(r, 1) + r.randbytes(32)),
    "q3_k": (11, 256, 110, lambda r: r.randbytes(108) + scales(r, 1)),
    "q4_k": (12, 256, 144, lambda r: scales(r, 2) + r.randbytes(140)),
    "q6_k": (14, 256, 210, lambda r: r.randbytes(208) + scales(r, 1)),
    "iq4_nl": (20, 32, 18, lambda r: scales(r, 1) + r.randbytes(16)),
    "iq4_xs": (23, 256, 136, lambda r: scales(r, 1) + r.randbytes(134)),
    "bf16": (30, 1, 2, lambda r: struct.pack("<f", r.gauss(0, 0.2))[2:]),
    "mxfp4": (39, 32, 17, lambda r: bytes([r.randrange(118, 123)]) + r.randbytes(16)),
}


class Writer:
    """A file, and for every number in its head the place, the size and what it is."""

    def __init__(self):
        self.head, self.fields, self.keys, self.tensors = bytearray(), [], [], []

    def number(self, form, value, what):
        self.fields.append((len(self.head), struct.calcsize("<" + form), what))
        self.head += struct.pack("<" + form, value)

    def text(self, value, what):
        value = value if isinstance(value, bytes) else value.encode()
        self.number("Q", len(value), "length of " + what)
        self.head += value

    def value(self, kind, value, what):
        if kind == STRING:
            self.text(value, what)
        elif kind == ARRAY:
            element, items = value
            self.number("I", element, "element type of " + what)
            self.number("Q", len(items), "count of " + what)
            for item in items:
                self.value(element, item, what)
        else:
            self.number(FORMS[kind], value, what)

    def build(self):
        self.head += b"GGUF"
        self.number("I", 3, "version")
        self.number("q", len(self.tensors), "tensor count")
        self.number("q", len(self.keys), "key count")
        for key, kind, value in self.keys:
            self.text(key, "key")
            self.number("I", kind, "type of " + key)
            self.value(kind, value, key)
        at = 0
        for name, dims, kind, data in self.tensors:
            self.text(name, "name")
            self.number("I", len(dims), "n_dims")
            for dim in dims:
                self.number("q", dim, "dim")
            self.number("I", kind, "dtype")
            self.number("Q", at, "offset")
            at += -(-len(data) // 32) * 32
        out = bytes(self.head) + b"\0" * (-len(self.head) % 32)
        for *_, data in self.tensors:
            out += data + b"\0" * (-len(data) % 32)
        return out


def stand_ins():
    """The characters that byte-level vocabularies write for bytes."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = iter(range(256, 512))
    return [chr(byte if byte in shown else next(other)) for byte in range(256)]


def add_spm(writer, all_bytes):
    tokens = [("<pad>", CONTROL, -1000.0), ("<eos>", CONTROL, -1000.0), ("<bos>", CONTROL, -1000.0),
              ("<unk>", UNKNOWN, -1000.0), ("<start_of_turn>", USER, -1000.0), ("[x]", UNUSED, -1000.0)]
    tokens += [(f"<0x{byte:02X}>", BYTE, -1000.0) for byte in range(256 if all_bytes else 3)]
    words = ["▁", "l", "o", "e", "H", "h", "w", "r", "d", "\n", "he", "ll", "lo", "wo", "▁wo", "rl", "ello", "▁▁", "12"]
    tokens += [(word, NORMAL, -float(i)) for i, word in enumerate(words)]
    prefix = "tokenizer.ggml."
    writer.keys += [(prefix + "model", STRING, "llama"),
                    (prefix + "tokens", ARRAY, (STRING, [t for t, _, _ in tokens])),
                    (prefix + "scores", ARRAY, (F32, [s for _, _, s in tokens])),
                    (prefix + "token_type", ARRAY, (I32, [k for _, k, _ in tokens])),
                    (prefix + "bos_token_id", U32, 2), (prefix + "eos_token_id", U32, 1),
                    (prefix + "unknown_token_id", U32, 3), (prefix + "add_bos_token", BOOL, True),
                    (prefix + "add_space_prefix", BOOL, False), ("tokenizer.chat_template", STRING, TEMPLATE)]
    return len(tokens)


def add_bpe(writer, all_bytes):
    letters = stand_ins()
    tokens = [(c, NORMAL) for c in (letters if all_bytes else letters[32:48])]
    merges = ["h e", "l l", "l o", "he ll", "hell o", "Ġ w", "o r", "Ġw or", "1 2", "Ġ Ġ", "Ċ Ċ", "a b"]
    tokens += [(merge.replace(" ", ""), NORMAL) for merge in merges]
    tokens += [("<|endoftext|>", CONTROL), ("<|im_end|>", CONTROL), ("<think>", USER), ("[x]", UNUSED)]
    prefix = "tokenizer.ggml."
    writer.keys += [(prefix + "model", STRING, "gpt2"), (prefix + "pre", STRING, "qwen35"),
                    (prefix + "tokens", ARRAY, (STRING, [t for t, _ in tokens])),
                    (prefix + "token_type", ARRAY, (I32, [k for _, k in tokens])),
                    (prefix + "merges", ARRAY, (STRING, merges)),
                    (prefix + "eos_token_id", U32, len(tokens) - 3), (prefix + "add_bos_token", BOOL, False),
                    ("tokenizer.chat_template", STRING, TEMPLATE)]
    return len(tokens)


class Model:
    """The tensors of one model; `types` are taken in turn by the matrices."""

    def __init__(self, name, types):
        self.writer, self.random, self.types, self.n = Writer(), random.Random(name), types, 0

    def add(self, name, dims, kind):
        number, columns, block_bytes, block = TYPES[kind]
        n = math.prod(dims)
        data = b"".join(block(self.random) for _ in range(n // columns))
        assert dims[0] % columns == 0 and len(data) == n // columns * block_bytes
        self.writer.tensors.append((name, dims, number, data))

    def matrix(self, name, *dims):
        kinds = [kind for kind in self.types if dims[0] % TYPES[kind][1] == 0] or ["q8_0"]
        self.add(name, dims, kinds[self.n % len(kinds)])
        self.n += 1

    def vector(self, name, *dims):
        self.add(name, dims, "f32")

    def feed_forward(self, b, width, inner):
        self.matrix(b + "ffn_gate.weight", width, inner)
        self.matrix(b + "ffn_up.weight", width, inner)
        self.matrix(b + "ffn_down.weight", inner, width)

    def attention(self, b, width, heads, head_dim, gated):
        self.matrix(b + "attn_q.weight", width, heads * head_dim * (2 if gated else 1))
        self.matrix(b + "attn_k.weight", width, head_dim)
        self.matrix(b + "attn_v.weight", width, head_dim)
        self.matrix(b + "attn_output.weight", heads * head_dim, width)
        self.vector(b + "attn_q_norm.weight", head_dim)
        self.vector(b + "attn_k_norm.weight", head_dim)

    def common_keys(self, id, width, inner, heads, head_dim, layers):
        self.writer.keys += [("general.architecture", STRING, id), ("general.name", STRING, "tiny"),
                             ("general.alignment", U32, 32)]
        self.writer.keys += [(f"{id}.{key}", kind, value) for key, kind, value in [
            ("block_count", U32, layers), ("context_length", U32, 4096), ("embedding_length", U32, width),
            ("feed_forward_length", U32, inner), ("attention.head_count", U32, heads),
            ("attention.head_count_kv", U32, 1), ("attention.key_length", U32, head_dim),
            ("attention.value_length", U32, head_dim), ("attention.layer_norm_rms_epsilon", F32, 1e-6),
            ("rope.freq_base", F32, 10000.0)]]


def gemma3(name, types, width=32, inner=32, layers=3, all_bytes=True):
    m = Model(name, types)
    heads, head_dim = 2, 32
    m.common_keys("gemma3", width, inner, heads, head_dim, layers)
    m.writer.keys += [("gemma3.attention.sliding_window", U32, 32), ("gemma3.rope.freq_base_swa", F32, 10000.0),
                      ("gemma3.attention.sliding_window_pattern", U32, 3),
                      ("gemma3.rope.scaling.type", STRING, "linear"), ("gemma3.rope.scaling.factor", F32, 8.0)]
    vocab = add_spm(m.writer, all_bytes)
    m.vector("output_norm.weight", width)
    m.matrix("token_embd.weight", width, vocab)
    for i in range(layers):
        b = f"blk.{i}."
        m.attention(b, width, heads, head_dim, False)
        for norm in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"):
            m.vector(b + norm + ".weight", width)
        m.feed_forward(b, width, inner)
    return m.writer


def qwen35(name, types, width=32, inner=32, layers=2, all_bytes=True):
    m = Model(name, types)
    heads, head_dim, state, key_heads, value_heads, taps = 1, 32, 16, 1, 2, 4
    m.common_keys("qwen35", width, inner, heads, head_dim, layers)
    m.writer.keys += [("qwen35." + key, kind, value) for key, kind, value in [
        ("rope.dimension_count", U32, 16), ("rope.dimension_sections", ARRAY, (I32, [3, 3, 2, 0])),
        ("ssm.conv_kernel", U32, taps), ("ssm.state_size", U32, state), ("ssm.group_count", U32, key_heads),
        ("ssm.time_step_rank", U32, value_heads), ("ssm.inner_size", U32, value_heads * state),
        ("full_attention_interval", U32, 2)]]
    vocab = add_bpe(m.writer, all_bytes)
    m.vector("output_norm.weight", width)
    m.matrix("token_embd.weight", width, vocab)
    for i in range(layers):
        b = f"blk.{i}."
        if (i + 1) % 2:
            channels, values = (2 * key_heads + value_heads) * state, value_heads * state
            m.matrix(b + "attn_qkv.weight", width, channels)
            m.matrix(b + "attn_gate.weight", width, values)
            m.matrix(b + "ssm_beta.weight", width, value_heads)
            m.matrix(b + "ssm_alpha.weight", width, value_heads)
            m.vector(b + "ssm_conv1d.weight", taps, channels)
            m.vector(b + "ssm_a", value_heads)
            m.vector(b + "ssm_dt.bias", value_heads)
            m.vector(b + "ssm_norm.weight", state)
            m.matrix(b + "ssm_out.weight", values, width)
        else:
            m.attention(b, width, heads, head_dim, True)
        for norm in ("attn_norm", "post_attention_norm"):
            m.vector(b + norm + ".weight", width)
        m.feed_forward(b, width, inner)
    return m.writer


MIXED = ["q4_0", "bf16", "q5_1", "iq4_nl", "f16", "mxfp4", "q8_0"]
BLOCKS = ["q6_k", "q4_k", "q3_k", "iq4_xs", "q4_0"]
MODELS = {
    "gemma3-q8_0": lambda n: gemma3(n, ["q8_0"]),
    "gemma3-mixed": lambda n: gemma3(n, MIXED, layers=2),
    "gemma3-blocks": lambda n: gemma3(n, BLOCKS, width=256, layers=1, all_bytes=False),
    "qwen35-q8_0": lambda n: qwen35(n, ["q8_0"]),
    "qwen35-mixed": lambda n: qwen35(n, MIXED),
    "qwen35-blocks": lambda n: qwen35(n, BLOCKS, width=256, layers=1, all_bytes=False),
    "qwen35-bf16": lambda n: qwen35(n, ["bf16"], all_bytes=False),
    "gemma3-small": lambda n: gemma3(n, ["q4_0"], layers=1, all_bytes=False),
    "qwen35-small": lambda n: qwen35(n, ["q4_0"], all_bytes=False),
}


def build(name):
    writer = MODELS[name](name)
    data = writer.build()
    assert len(data) <= LARGEST, (name, len(data))
    return data, writer.fields


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        (folder / f"{name}.gguf").write_bytes(build(name)[0])
