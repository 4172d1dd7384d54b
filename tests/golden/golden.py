#!/usr/bin/env python3
"""Hold `tenon` against the reference outputs of one architecture's model files.

A folder MODELS/ARCHITECTURE holds NAME.gguf and golden/NAME.json with golden/NAME.safetensors beside it; or a folder KIND of
safetensors files, whose NAME is ARCHITECTURE-KIND (ARCHITECTURE-BF16 for the kind "safetensors"). They hold: for each case the
token ids, the logits of some positions, a greedy continuation with the margin between its two best tokens; for some
cases and models the logits of a draft block ("mtp"); the perplexity of a held-out text; and golden/tokenizer.json with texts and their ids. All were computed in float32 by an
independent implementation from the weights of exactly that file.

Tolerances come from the golden file ("suggested_tolerance"), where its makers measured them:
  exact    every logit within the bound for float32 activations; greedy tokens equal where the margin exceeds twice that
  default  every logit within the bound for 8-bit activations (where it was not measured for the file, the widest of the
           architecture's other files); of all positions at most a fifth above its rms bound (a
           router's near tie may move a row); at most 2 greedy texts that part where the margin exceeds 6 rms
"""
import argparse
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile


class Faults:
    def __init__(self):
        self.checks, self.messages = 0, []

    def expect(self, holds, message):
        self.checks += 1
        if not holds:
            self.messages.append(message)
            print("FAIL", message, flush=True)


def arrays(path):
    """name -> (shape, values) of a safetensors file of F32 and I32 arrays"""
    blob = path.read_bytes()
    begin = 8 + struct.unpack_from("<Q", blob)[0]
    found = {}
    for name, info in json.loads(blob[8:begin]).items():
        if name != "__metadata__":
            first, end = info["data_offsets"]
            code = {"F32": "f", "I32": "i"}[info["dtype"]]
            found[name] = info["shape"], struct.unpack_from(f"<{(end - first) // 4}{code}", blob, begin + first)
    return found


def coarse_bounds(folder):
    """what the outputs of a folder allow coarse activations"""
    found = []
    for path in folder.glob("*.json"):
        if path.name != "tokenizer.json":
            bounds = json.loads(path.read_text(encoding="utf-8"))["suggested_tolerance"]
            found += [bound for name, bound in bounds.items() if name != "float32 activations"]
    return found


def joined(ids):
    return ",".join(map(str, ids))


class Golden:
    def __init__(self, tenon, model, golden, heldout, precision, faults, scratch):
        self.tenon, self.model, self.precision, self.faults = tenon, model, precision, faults
        self.data = json.loads(golden.read_text(encoding="utf-8"))
        self.arrays = arrays(golden.with_suffix(".safetensors"))
        self.heldout, self.scratch = heldout, scratch
        self.label = f"{golden.stem} {precision}"
        bounds = dict(self.data["suggested_tolerance"])
        exact = bounds.pop("float32 activations")
        # A file that nobody measured with coarse activations: the widest of the others that there are.
        coarse = list(bounds.values()) or coarse_bounds(golden.parent) or [exact]
        self.bound = exact if precision == "exact" else {key: max(bound[key] for bound in coarse) for key in coarse[0]
                                                         if key != "note"}
        self.binding_margin = 6 * self.bound["rms"] if "rms" in self.bound else 2 * self.bound["max_abs"]
        self.row_rms, self.parted = [], []

    def call(self, verb, *arguments):
        command = [self.tenon, verb, "-m", str(self.model), *arguments]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600)
        if done.returncode:
            raise RuntimeError(f"{verb} ended with {done.returncode}: {done.stderr.decode(errors='replace')[-400:]}")
        return done.stdout.decode("utf-8")

    def run(self):
        for name, case in self.data["cases"].items():
            self.check_logits(name, case)
            self.check_greedy(name, case)
        over = [rms for rms in self.row_rms if rms > self.bound.get("rms", math.inf)]
        self.faults.expect(len(over) <= len(self.row_rms) / 5,
                           f"{self.label}: {len(over)} of {len(self.row_rms)} rows have an rms above {self.bound.get('rms')}")
        allowed = 0 if self.precision == "exact" else 2
        self.faults.expect(len(self.parted) <= allowed, f"{self.label}: {'; '.join(self.parted)}")
        self.check_drafts()
        self.check_perplexity()

    def ids_file(self, case):
        path = self.scratch / "ids.txt"
        path.write_text(joined(case["ids"]))
        return "@" + str(path)

    def check_drafts(self):
        """row t of draft.0, of token t + 1 and the model's hidden row t"""
        for name in self.data.get("mtp", {}):
            self.check_logits(f"mtp.{name}", self.data["cases"][name], "--entry", "draft.0")

    def check_logits(self, name, case, *entry):
        positions = self.arrays[name + ".positions"][1]
        shape, wanted = self.arrays[name + ".logits"]
        out = self.scratch / "out.safetensors"
        self.call("eval", "--tokens", self.ids_file(case), "--rows", joined(positions), "--precision", self.precision,
                  "--out", str(out), *entry)
        found_shape, found = arrays(out)["logits"]
        self.faults.expect(found_shape == shape, f"{self.label} {name}: shape {found_shape}, expected {shape}")
        if found_shape != shape:
            return
        width = shape[1]
        for row, position in enumerate(positions):
            cells = range(row * width, (row + 1) * width)
            gaps = [abs(found[cell] - wanted[cell]) for cell in cells]
            worst = max(gaps) if all(map(math.isfinite, gaps)) else math.inf
            self.row_rms.append(math.sqrt(sum(gap * gap for gap in gaps) / width))
            self.faults.expect(worst <= self.bound["max_abs"], f"{self.label} {name}: a logit of position {position} is "
                               f"{worst:.4g} off, allowed {self.bound['max_abs']}")

    def check_greedy(self, name, case):
        wanted = case["greedy_ids"]
        answer = json.loads(self.call("run", "--tokens", self.ids_file(case), "-n", str(len(wanted)), "--temp", "0", "--raw",
                                      "--ignore-eos", "--json", "--precision", self.precision))
        found = answer["ids"]
        self.faults.expect(len(found) == len(wanted) and answer["finish_reason"] == "length",
                           f"{self.label} {name}: {len(found)} tokens and {answer['finish_reason']}, expected {len(wanted)}")
        for step, (mine, theirs, margin) in enumerate(zip(found, wanted, case["greedy_margin"])):
            if mine != theirs:  # from here on the histories differ
                if margin > self.binding_margin:
                    self.parted.append(f"{name}: greedy token {step} is {mine}, expected {theirs}, margin {margin}")
                return

    def check_perplexity(self):
        wanted = self.data["heldout"]
        answer = json.loads(self.call("perplexity", "-f", str(self.heldout), "--score", "all", "--json", "--precision",
                                      self.precision))
        self.faults.expect(answer["tokens"] == wanted["n_tokens"] - 1,
                           f"{self.label}: {answer['tokens']} tokens scored, expected {wanted['n_tokens'] - 1}")
        self.faults.expect(math.isclose(math.exp(answer["nll"]), answer["perplexity"], rel_tol=1e-9),
                           f"{self.label}: perplexity is not exp(nll): {answer}")
        off, allowed = abs(answer["perplexity"] / wanted["ppl"] - 1), self.bound.get("ppl_rel", 0.001)
        self.faults.expect(off <= allowed, f"{self.label}: perplexity {answer['perplexity']:.4f}, expected {wanted['ppl']} "
                           f"within {allowed:.2%}")
        print(f"{self.label}: worst row rms {max(self.row_rms):.3g}, perplexity {answer['perplexity']:.4f} "
              f"(reference {wanted['ppl']})")

    def check_tokenizer(self, path):
        for case in json.loads(path.read_text(encoding="utf-8")):
            answer = json.loads(self.call("tokenize", "--json", "--", case["text"]))
            allowed = [case["ids"], case.get("other_tokenizer", case["ids"])]
            self.faults.expect(answer["ids"] in allowed, f"tokenize {case['text']!r}: {answer['ids']}, expected {allowed}")
            self.faults.expect(len(answer["pieces"]) == len(answer["ids"]), f"tokenize {case['text']!r}: a piece for each id")


def models_of(folder):
    """(path, name) of every model file and folder"""
    found = [(path, path.stem) for path in folder.glob("*.gguf")]
    for config in folder.glob("*/config.json"):
        kind = config.parent.name
        found.append((config.parent, f"{folder.name}-{'BF16' if kind == 'safetensors' else kind}"))
    return sorted(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", required=True)
    parser.add_argument("--models", required=True, type=pathlib.Path)
    parser.add_argument("--architecture", required=True)
    parser.add_argument("--precision", required=True, choices=["exact", "default"])
    args = parser.parse_args()
    folder = args.models / args.architecture
    heldout = next(path for path in (args.models / "heldout.txt", args.models / "tools" / "heldout.txt") if path.exists())
    faults, n_models = Faults(), 0
    with tempfile.TemporaryDirectory() as scratch:
        tokenizer, formats = folder / "golden" / "tokenizer.json", set()
        for model, name in models_of(folder):
            golden = Golden(args.tenon, model, folder / "golden" / (name + ".json"), heldout, args.precision, faults,
                            pathlib.Path(scratch))
            golden.run()
            if model.suffix not in formats and args.precision == "exact" and tokenizer.exists():
                golden.check_tokenizer(tokenizer)
            formats.add(model.suffix)
            n_models += 1
    print(f"{n_models} models, {faults.checks} checks, {len(faults.messages)} failed")
    return 1 if faults.messages or n_models == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
