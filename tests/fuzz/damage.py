#!/usr/bin/env python3
"""Damages tiny models at random and gives them to the engine: no crash, no hang, no sanitizer's report, no memory
beyond the file's size and a constant, and an answer of the contract each time.
    damage.py in-process LOAD_AND_STEP [--count N] [--seed S] [--jobs J] [--only I]
    damage.py program TENON [--count N] [--seed S] [--jobs J] [--only I]
Damage number I of a seed is always the same; --only repeats one and keeps its file."""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import random
import resource
import select
import struct
import subprocess
import sys
import tempfile
import time

import tiny_models

SECONDS = 60  # of one model; the slowest take a few, under sanitizers on a busy machine
ALLOWED_BYTES = 16 << 20  # beyond the file's size
# Allowed to the program beyond what it takes for an undamaged model.
ALLOWED_PROGRAM_BYTES = 16 << 20
NUMBERS = [0, 1, 2, 3, 7, 8, 31, 33, 127, 128, 255, 256, 4096, 65535, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1,
           1 << 32, 1 << 40, 1 << 61, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
REALS = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-45, 1e38, -1.0, 1e-30]


class Damage:
    """Random changes of the bytes of one model."""

    def __init__(self, model, fields, r):
        self.data, self.fields, self.random = bytearray(model), fields, r
        self.head = fields[-1][0] + fields[-1][1]

    def field(self):
        """A number of the head; those that stand many times, as tokens do, are not most of the choices."""
        what = self.random.choice(sorted({what for *_, what in self.fields}))
        return self.random.choice([f for f in self.fields if f[2] == what])

    def set_number(self):
        at, size, _ = self.field()
        old = int.from_bytes(self.data[at:at + size], "little")
        new = self.random.choice([self.random.choice(NUMBERS), self.random.randrange(64), old + 1, old - 1, old * 2,
                                  old // 2, -old, old ^ 1 << self.random.randrange(8 * size)])
        self.data[at:at + size] = (new % (1 << 8 * size)).to_bytes(size, "little")

    def set_real(self):
        at, size, _ = self.field()
        if size == 4:
            self.data[at:at + 4] = struct.pack("<f", self.random.choice(REALS))

    def swap_numbers(self):
        (a, size, _), (b, other, _) = self.field(), self.field()
        if size == other:
            self.data[a:a + size], self.data[b:b + size] = self.data[b:b + size], self.data[a:a + size]

    def place(self):
        """Mostly in the head."""
        return self.random.randrange(self.head if self.random.random() < 0.7 else len(self.data))

    def flip(self):
        self.data[self.place()] ^= 1 << self.random.randrange(8)

    def overwrite(self):
        at = self.place()
        n = self.random.choice([1, 2, 4, 8, 32, 512])
        fill = self.random.choice([b"\0", b"\xff", None])
        self.data[at:at + n] = self.random.randbytes(n) if fill is None else fill * n
        del self.data[tiny_models.LARGEST:]

    def erase(self):
        at = self.place()
        del self.data[at:at + self.random.choice([1, 4, 8, 100])]

    def insert(self):
        at = self.place()
        self.data[at:at] = self.random.randbytes(self.random.choice([1, 4, 8, 100]))
        del self.data[tiny_models.LARGEST:]

    def repeat(self):
        at, to = self.place(), self.place()
        part = self.data[at:at + self.random.choice([8, 64, 1000])]
        self.data[to:to + len(part)] = part
        del self.data[tiny_models.LARGEST:]

    def truncate(self):
        del self.data[self.random.randrange(1, len(self.data)):]


CHANGES = [(Damage.set_number, 10), (Damage.set_real, 2), (Damage.swap_numbers, 2), (Damage.flip, 4),
           (Damage.overwrite, 3), (Damage.erase, 1), (Damage.insert, 1), (Damage.repeat, 1), (Damage.truncate, 1)]


class Maker:
    def __init__(self, seed):
        self.seed, self.models = seed, [(name, *tiny_models.build(name)) for name in tiny_models.MODELS]

    def make(self, i):
        """The model's name and its damaged bytes; the first few numbers are the models themselves."""
        name, model, fields = self.models[i % len(self.models)]
        if i < len(self.models):
            return name, model
        r = random.Random(f"{self.seed} {i}")
        damage = Damage(model, fields, r)
        changes, weights = zip(*CHANGES)
        for change in r.choices(changes, weights, k=r.choice([1, 1, 1, 2, 3])):
            if len(damage.data) > damage.head:
                change(damage)
        return name, bytes(damage.data) or b"G"


class Process:
    """load_and_step, started again after it has died."""

    def __init__(self, program):
        self.program = program
        self.start()

    def start(self):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors)
        self.pending = b""

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.errors.seek(0)
        text = self.errors.read().decode(errors="replace")[-4000:]
        self.start()
        return text

    def ask(self, how, data):
        """The line of the answer, or None and what the process said."""
        try:
            self.process.stdin.write(how + struct.pack("<I", len(data)) + data)
            self.process.stdin.flush()
        except BrokenPipeError:
            return None, "it died\n" + self.stop()
        end = time.monotonic() + SECONDS
        while b"\n" not in self.pending:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
            if not ready:
                return None, f"no answer in {SECONDS} s\n" + self.stop()
            part = os.read(self.process.stdout.fileno(), 65536)
            if not part:
                self.process.wait()
                return None, f"it died with {self.process.returncode}\n" + self.stop()
            self.pending += part
        line, _, self.pending = self.pending.partition(b"\n")
        return line.decode(errors="replace"), ""


def says_not_finite(message):
    """A model that runs may compute what is no number; that ends its sequence."""
    return "not finite" in message or "not a number" in message


def report(faults, fault):
    print(fault, flush=True)
    faults.append(fault)


def in_process(options, maker, numbers):
    """Fault texts and counts of the answers to some of the numbers."""
    process, faults, counts, worst, slowest = Process(options.program), [], collections.Counter(), 0, 0
    for i in numbers:
        name, data = maker.make(i)
        line, said = process.ask(b"r" if i // len(maker.models) % 4 == 3 else b"c", data)
        if line is None:
            report(faults, f"{i} ({name}): {said}")
            continue
        what, spent, peak, message = line.split(" ", 3)
        counts[what] += 1
        worst, slowest = max(worst, int(peak)), max(slowest, float(spent))
        if i < len(maker.models) and what != "ran":
            report(faults, f"{i} ({name}): the undamaged model: {line}")
        if int(peak) > len(data) + ALLOWED_BYTES:
            report(faults, f"{i} ({name}): {peak} bytes of memory for {len(data)} bytes of file: {line}")
        if what not in ("ran", "file", "capacity") and not says_not_finite(message):
            report(faults, f"{i} ({name}): an answer of kind {what}: {message}")
    process.process.stdin.close()
    if process.process.wait() != 0:  # leaks are reported at the end
        process.errors.seek(0)
        report(faults, "at the end: " + process.errors.read().decode(errors="replace")[-4000:])
    return faults, counts, worst, slowest


class Program:
    """The tenon program, a process for each model."""

    VERBS = [lambda path, out: ["eval", "-m", path, "--tokens", "1,2,3", "--out", out, "-c", "128", "-t", "1"],
             lambda path, out: ["run", "-m", path, "-p", "Hello world", "-n", "2", "-c", "128", "-t", "1"],
             lambda path, out: ["tokenize", "-m", path, "--json", "--", "Hello world"],
             lambda path, out: ["inspect", path, "--json", "--plan", "-c", "128", "-t", "1"]]

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("TENON_") or k == "TENON_PLUGIN_PATH"}

    def run(self, verb, data):
        """Exit status (negative: a signal; None: too slow), largest resident size in bytes, what it said."""
        path = self.folder / "odd.gguf"
        path.write_bytes(data)
        words = [self.program, *map(str, self.VERBS[verb](path, self.folder / "out"))]
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
                                       env=self.env)
            end = time.monotonic() + SECONDS
            while True:
                pid, status, usage = os.wait4(process.pid, os.WNOHANG)
                if pid:
                    break
                if time.monotonic() > end:
                    process.kill()
                    os.wait4(process.pid, 0)
                    return None, 0, f"no end in {SECONDS} s"
                time.sleep(0.002)
            process.returncode = os.waitstatus_to_exitcode(status)
            errors.seek(0)
            return process.returncode, usage.ru_maxrss << 10, errors.read().decode(errors="replace")


def program(options, maker, numbers):
    faults, counts, worst, slowest = [], collections.Counter(), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        tenon = Program(options.program, pathlib.Path(folder))
        usual = [max(tenon.run(verb, maker.make(k)[1])[1] for k in range(len(maker.models))) for verb in range(4)]
        for i in numbers:
            name, data = maker.make(i)
            verb = i // len(maker.models) % len(Program.VERBS)
            begin = time.monotonic()
            status, peak, said = tenon.run(verb, data)
            slowest = max(slowest, 1000 * (time.monotonic() - begin))
            what = f"{i} ({name}, verb {verb})"
            counts[f"status {status}"] += 1
            extra = peak - usual[verb]
            worst = max(worst, extra)
            if extra > len(data) + ALLOWED_PROGRAM_BYTES:
                report(faults, f"{what}: {extra} bytes of memory more than an undamaged model: {said}")
            if i < len(maker.models) and status != 0:
                report(faults, f"{what}: the undamaged model ends with {status}: {said}")
            if status not in (0, 3, 4) and not (status == 1 and says_not_finite(said)):
                report(faults, f"{what}: ends with {status}: {said[-4000:]}")
            if status == 3 and "odd.gguf" not in said:
                report(faults, f"{what}: the message does not name the file: {said}")
    return faults, counts, worst, slowest


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("how", choices=["in-process", "program"])
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", type=int)
    return parser.parse_args()


def main():
    options = parse()
    maker = Maker(options.seed)
    numbers = range(options.count)
    if options.only is not None:
        numbers = [options.only]
        pathlib.Path("damaged.gguf").write_bytes(maker.make(options.only)[1])
        print("the file is damaged.gguf")
    call = in_process if options.how == "in-process" else program
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda k: call(options, maker, numbers[k::options.jobs]), range(options.jobs)))
    faults = [fault for result in results for fault in result[0]]
    counts = sum((result[1] for result in results), collections.Counter())
    memory, slowest = max(r[2] for r in results) / 1e6, max(r[3] for r in results) / 1000
    print(f"{len(numbers)} models: {dict(sorted(counts.items()))}, at most {memory:.1f} MB and {slowest:.2f} s "
          f"a model; {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.exit(main())
