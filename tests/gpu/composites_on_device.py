#!/usr/bin/env python3
"""Composites on a device: with and without them a model's logits have the same bits, and a decode layer has few launches.

  composites_on_device.py --tenon PROGRAM --models DIR [--backend cuda] [-- further arguments for the program]
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

# Launches of each decode layer at most. The last layers have the last norm as well, and those of llama weights of two kinds.
MODELS = {
    "gemma3": [10] * 6 + [11],
    "gemma4": [10] * 5 + [11],
    "llama": [10, 11, 11, 12],
    "qwen3": [10] * 3 + [11],
    "qwen35": [9, 9, 9, 10, 9, 9, 9, 11],  # three of four layers are recurrent
}
TOKENS = "1,5,9,22,7,8,3,99,12,14,15,16,17,18,19,20"


def call(options, verb, *arguments):
    command = [options.tenon, verb, *arguments, "--backend", options.backend, *options.rest]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: status {done.returncode}\n{done.stderr}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tenon", required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("rest", nargs="*")
    options = parser.parse_args()
    failed = 0

    def expect(holds, message):
        nonlocal failed
        failed += not holds
        if not holds:
            print(f"  {message}")

    for name, limits in MODELS.items():
        [model] = (options.models / name).glob("*.gguf")
        layers = [layer["launches"] for layer in json.loads(call(options, "inspect", str(model), "--plan", "--json"))["plan"]["decode_layers"]]
        print(f"{name:<10} launches of each layer: {layers}, at most {limits} are wanted", flush=True)
        expect(len(layers) == len(limits) and all(n <= most for n, most in zip(layers, limits)), "more launches than wanted")
        with tempfile.TemporaryDirectory() as folder:
            for what in (["--step", "3"], [], ["--step", "3", "--precision", "exact"]):
                files = [pathlib.Path(folder) / side for side in ("with", "without")]
                for file, forbidden in zip(files, ([], ["--forbid", "cuda.fused"])):
                    call(options, "eval", "-m", str(model), "--tokens", TOKENS, "--rows", "last", "--out", str(file), *what, *forbidden)
                expect(files[0].read_bytes() == files[1].read_bytes(), f"composites change logits: {' '.join(what)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
