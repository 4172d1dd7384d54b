"""GGUF files, to be looked at, changed and written again: their keys, and in GgufTensors their tensors."""
import pathlib
import struct

U32, F32, BOOL, STRING, ARRAY = 4, 6, 7, 8, 9
TYPE_F32, TYPE_I32, TYPE_I64 = 0, 26, 27
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


class Tensor:
    def __init__(self, dims, kind, data):
        self.dims, self.kind, self.data = list(dims), kind, data  # dims[0] contiguous

    def rows(self, chosen):
        """a copy of those rows, byte for byte"""
        size = len(self.data) // self.dims[1]
        return Tensor([self.dims[0], len(chosen)], self.kind, b"".join(self.data[r * size:(r + 1) * size] for r in chosen))


def f32_tensor(dims, values):
    return Tensor(dims, TYPE_F32, struct.pack(f"<{len(values)}f", *values))


class GgufTensors(Gguf):
    """tensors: name -> Tensor"""

    def __init__(self, path):
        super().__init__(path)
        data, self.bytes, self.at, self.tensors, infos = self.data, self.infos, 0, {}, []
        for _ in range(self.n_tensors):
            name = self.read_text().decode()
            dims = [self.read("q") for _ in range(self.read("I"))]
            infos.append((name, dims, self.read("I"), self.read("Q")))
        ends = sorted(offset for *_, offset in infos) + [len(data)]
        for name, dims, kind, offset in infos:
            # Up to the next one: padding does no harm, since sizes follow from the shapes.
            self.tensors[name] = Tensor(dims, kind, data[offset:ends[ends.index(offset) + 1]])

    def write(self, path):
        self.n_tensors, self.infos, self.data = len(self.tensors), b"", b""
        for name, tensor in self.tensors.items():
            self.infos += text_bytes(name.encode()) + struct.pack(f"<I{len(tensor.dims)}q", len(tensor.dims), *tensor.dims)
            self.infos += struct.pack("<IQ", tensor.kind, len(self.data))
            self.data += tensor.data + b"\0" * (-len(tensor.data) % 32)
        super().write(path)
        return path
