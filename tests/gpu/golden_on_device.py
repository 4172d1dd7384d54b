#!/usr/bin/env python3
"""The golden tests of tests/golden on another backend: logits, greedy texts and perplexity of the test models, as a table.

  golden_on_device.py --tenon PROGRAM --models DIR [--backend cuda] [--cases NAME,…] [--greedy N] [--precision exact,…]
                      [-- further arguments for the program]
"""
import argparse
import importlib.util
import pathlib
import sys
import tempfile
import time


def golden_module():
    path = pathlib.Path(__file__).resolve().parent.parent / "golden" / "golden.py"
    spec = importlib.util.spec_from_file_location("golden", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tenon", required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--architectures", default="gemma3,qwen35", help="folders of --models; the others are named and skipped")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--cases", default="", help="names of cases; empty = all, and the perplexity")
    parser.add_argument("--greedy", type=int, default=48, help="tokens of each greedy text")
    parser.add_argument("--precision", default="exact,default")
    parser.add_argument("rest", nargs="*")
    options = parser.parse_args()
    golden = golden_module()

    class OnDevice(golden.Golden):
        def call(self, verb, *arguments):
            return super().call(verb, *arguments, *([] if verb == "tokenize" else ["--backend", options.backend, *options.rest]))

    print(f"{'model':<24} {'precision':<10} {'checks':>7} {'failed':>7} {'seconds':>8}")
    failed = 0
    for file in sorted(options.models.glob("*/golden/*.json")):
        if file.name == "tokenizer.json":
            continue
        if file.parent.parent.name not in options.architectures.split(","):
            print(f"{file.stem}: skipped, not asked for")
            continue
        model = file.parent.parent / (file.stem + ".gguf")
        for precision in options.precision.split(","):
            faults, begin = golden.Faults(), time.time()
            with tempfile.TemporaryDirectory() as scratch:
                test = OnDevice(options.tenon, model, file, options.models / "heldout.txt", precision, faults,
                                pathlib.Path(scratch))
                wanted = [name for name in options.cases.split(",") if name]
                test.data["cases"] = {name: case for name, case in test.data["cases"].items() if not wanted or name in wanted}
                test.data["mtp"] = [name for name in test.data.get("mtp", []) if name in test.data["cases"]]
                for case in test.data["cases"].values():
                    case["greedy_ids"] = case["greedy_ids"][:options.greedy]
                if wanted:
                    test.check_perplexity = lambda: None
                try:
                    test.run()
                except (RuntimeError, OSError, ValueError) as error:
                    faults.expect(False, f"{file.stem} {precision}: {error}")
            failed += len(faults.messages)
            print(f"{file.stem:<24} {precision:<10} {faults.checks:>7} {len(faults.messages):>7} {time.time() - begin:>8.1f}",
                  flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
