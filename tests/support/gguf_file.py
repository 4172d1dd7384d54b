"""A GGUF file's keys, to be looked at, changed and written again; tensors and data stay as they are."""
import pathlib
import struct

U32, F32, STRING, ARRAY = 4, 6, 8, 9
FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def text_bytes(text):
    return struct.pack("<Q", len(text)) + text


class Gguf:
    """keys: name -> (type, value); a string's value is bytes, an array's (type of elements, list)."""

    def __init__(self, path):
        self.bytes, self.at, self.keys = pathlib.Path(path).read_bytes(), 4, {}
        self.version, self.n_tensors, n_keys = self.read("I"), self.read("q"), self.read("q")
        for _ in range(n_keys):
            key = self.read_text().decode()
            kind = self.read("I")
            self.keys[key] = kind, self.read_value(kind)
        begin = self.at
        for _ in range(self.n_tensors):
            self.read_text()
            for _ in range(self.read("I")):
                self.read("q")
            self.read("I")
            self.read("Q")
        self.infos = self.bytes[begin:self.at]
        self.data = self.bytes[(self.at + 31) // 32 * 32:]

    def read(self, form):
        value = struct.unpack_from("<" + form, self.bytes, self.at)[0]
        self.at += struct.calcsize("<" + form)
        return value

    def read_text(self):
        size = self.read("Q")
        self.at += size
        return self.bytes[self.at - size:self.at]

    def read_value(self, kind):
        if kind == STRING:
            return self.read_text()
        if kind == ARRAY:
            element, count = self.read("I"), self.read("Q")
            return element, [self.read_value(element) for _ in range(count)]
        return self.read(FORMATS[kind])

    @staticmethod
    def value_bytes(kind, value):
        if kind == STRING:
            return text_bytes(value)
        if kind == ARRAY:
            return struct.pack("<IQ", value[0], len(value[1])) + b"".join(Gguf.value_bytes(value[0], v) for v in value[1])
        return struct.pack("<" + FORMATS[kind], value)

    @staticmethod
    def key_bytes(key, kind, value):
        return text_bytes(key.encode()) + struct.pack("<I", kind) + Gguf.value_bytes(kind, value)

    def write(self, path):
        head = b"GGUF" + struct.pack("<Iqq", self.version, self.n_tensors, len(self.keys))
        for key, (kind, value) in self.keys.items():
            head += self.key_bytes(key, kind, value)
        head += self.infos
        pathlib.Path(path).write_bytes(head + b"\0" * (-len(head) % 32) + self.data)
