"""Random texts that tokenizers find hard: every plane, marks, emoji, controls, runs, text like special tokens."""
import random

WORDS = ["Hello", "world", "naïve", "I'll", "DON'T", "we'Ve", "x1y2", "don’t", "ſ", "K", "Straße", "ΑΣ", "Привет",
         "мир", "你好", "世界", "日本語", "カタカナ", "ひらがな", "한국어", "กรุงเทพ", "हिन्दी", "العربية", "עברית", "ភាសា", "తెలుగు",
         "ትግርኛ", "The", " the", "ing", "http://a.b/c?d=e", "foo_bar", "int main(){}", "{\"k\": 1}", "3.14",
         "1,000,000", "½", "Ⅷ", "²"]
EMOJI = ["😀", "👨‍👩‍👧‍👦", "🏴‍☠️", "👍🏽", "🇩🇪", "❤️", "☺️", "1️⃣", "🧑🏿‍🚀", "🫠", "🏴\U000e0067\U000e0062\U000e007f"]
SPACES = [" ", "  ", "    ", "\n", "\n\n", "\r\n", "\t", "\r", "\v", "\f", "\x85", "\xa0", "\u1680", "\u2003",
          "\u2028", "\u2029", "\u202f", "\u3000", "\u200b", "\ufeff", " \n", "\n ", "\t\n", "   \n  ", "▁", "▁▁"]
SPECIAL = ["<s>", "</s>", "<unk>", "<pad>", "<eos>", "<bos>", "<mask>", "<|endoftext|>", "<|im_start|>", "<|im_end|>",
           "<think>", "</think>", "<|turn>", "<turn|>", "<start_of_turn>", "<|tool_call>", "<tool_call|>", "<|\"|>",
           "<|channel>", "<0x0A>", "<0xFF>", "<0xZZ>", "[multimodal]", "<unused0>", "<|im_start", "<|", "|>", "<<s>>",
           "<s", "s>", "<|endoftext|", "<|fim_prefix|>", "<|box_start|>", "<tool_call>", "[INST]"]
BLOCKS = [(0x20, 0x7f), (0x20, 0x7f), (0x80, 0x250), (0x300, 0x370), (0x370, 0x530), (0x590, 0x780), (0x900, 0xe00),
          (0xe00, 0x1200), (0x1780, 0x1800), (0x2000, 0x2070), (0x2070, 0x2c00), (0x2e80, 0x3100), (0x3400, 0xa000),
          (0xa000, 0xac00), (0xac00, 0xd7b0), (0xe000, 0xf900), (0xf900, 0xfb00), (0xfe00, 0x10000),
          (0x10000, 0x12000), (0x1d100, 0x1d800), (0x1f000, 0x1fb00), (0x20000, 0x32000), (0xe0000, 0xe0200),
          (0xf0000, 0x110000)]
MARKS = [0x300, 0x301, 0x308, 0x327, 0x338, 0x345, 0x5b0, 0x64b, 0x93c, 0x94d, 0xe31, 0x3099, 0x20dd, 0xfe0f, 0x200d,
         0x1d165]


def any_character(r):
    """Any scalar value; surrogates are none."""
    while True:
        c = r.choice([r.randrange(0x110000), r.randrange(0x10000), r.randrange(*r.choice(BLOCKS))])
        if not 0xd800 <= c < 0xe000:
            return chr(c)


def part(r):
    kind = r.randrange(16)
    if kind < 3:
        return r.choice(WORDS)
    if kind == 3:
        return r.choice(EMOJI)
    if kind < 6:
        return r.choice(SPACES)
    if kind == 6:
        return r.choice(SPECIAL)
    if kind == 7:
        return r.choice([" ", "\n", "\t", "0", "7", "a", "!", "=", "-", "\r\n", "▁"]) * r.randrange(1, 70)
    if kind == 8:
        return "".join(r.choice("0123456789٣५①Ⅳ.,") for _ in range(r.randrange(1, 12)))
    if kind == 9:
        base = r.choice([r.choice("aeinoAEsoכक"), any_character(r)])
        return base + "".join(chr(r.choice(MARKS)) for _ in range(r.randrange(1, 4)))
    if kind == 10:
        signs = [0xad, 0x200c, 0x200d, 0x202e, 0x2066, 0xfffd, 0xfffe]
        return chr(r.choice([r.randrange(1, 0x20), r.randrange(0x7f, 0xa0), *signs]))
    if kind == 11:
        return "'" + r.choice(["s", "S", "t", "re", "RE", "ve", "Ll", "d", "ſ", "x", "", "'s"])
    if kind < 14:
        low, high = r.choice(BLOCKS)
        return "".join(chr(r.randrange(low, high)) for _ in range(r.randrange(1, 8)))
    return "".join(any_character(r) for _ in range(r.randrange(1, 5)))


def random_text(seed):
    """The same text for the same seed. No NUL: C programs take it for the end."""
    r = random.Random(seed)
    return "".join(part(r) for _ in range(r.choice([1, 2, 3, 5, 8, 13]))).replace("\0", "")
