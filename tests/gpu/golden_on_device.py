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
    parser.add_argument("--architectures", default="gemma3,qwen35", help="folders of --models, or all; the others are named and skipped")
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
    wanted_folders = options.architectures.split(",")
    folders = sorted(path.parent for path in options.models.glob("*/golden") if (path.parent / "golden").is_dir())
    heldout = next(path for path in (options.models / "heldout.txt", options.models / "tools" / "heldout.txt") if path.exists())
    missing = [name for name in wanted_folders if name != "all" and name not in [folder.name for folder in folders]]
    if missing:
        parser.error(f"{options.models} has no {', '.join(missing)}")
    models = []
    for folder in folders:
        if folder.name in wanted_folders or "all" in wanted_folders:
            models += golden.models_of(folder)
        else:
            print(f"{folder.name}: skipped, not asked for")
    for model, name in models:
        file = (model.parent / "golden" / (name + ".json"))
        for precision in options.precision.split(","):
            faults, begin = golden.Faults(), time.time()
            with tempfile.TemporaryDirectory() as scratch:
                test = OnDevice(options.tenon, model, file, heldout, precision, faults,
                                pathlib.Path(scratch))
                wanted = [case for case in options.cases.split(",") if case]
                test.data["cases"] = {key: case for key, case in test.data["cases"].items() if not wanted or key in wanted}
                test.data["mtp"] = [case for case in test.data.get("mtp", []) if case in test.data["cases"]]
                for case in test.data["cases"].values():
                    case["greedy_ids"] = case["greedy_ids"][:options.greedy]
                if wanted:
                    test.check_perplexity = lambda: None
                try:
                    test.run()
                except (RuntimeError, OSError, ValueError) as error:
                    faults.expect(False, f"{name} {precision}: {error}")
            failed += len(faults.messages)
            print(f"{name:<24} {precision:<10} {faults.checks:>7} {len(faults.messages):>7} {time.time() - begin:>8.1f}",
                  flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
