#!/usr/bin/env python3
"""Types a page of docs/ as its reader would, and compares what happens with what the page says.

A fenced block under a line that is nothing but a file's name in backquotes is that file. A block marked `sh` is run, in the
order of the page, in the folder of those files; a block marked `text` under it has lines of its output, in that order, where
`…` stands for anything. Files under EXAMPLES have to be the same as on the page, each of a folder that the page uses.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

FENCE = re.compile(r"^```(\w*)$")
CAPTION = re.compile(r"^`([\w./-]+)`$")


def blocks(page):
    """(caption or None, language, text, line) of each fenced block"""
    found, caption, inside = [], None, None
    for number, line in enumerate(page.splitlines(), 1):
        if inside is not None:
            if line == "```":
                found.append((inside[0], inside[1], "".join(text + "\n" for text in inside[2]), inside[3]))
                inside, caption = None, None
            else:
                inside[2].append(line)
        elif fence := FENCE.match(line):
            inside = (caption, fence[1], [], number)
        elif name := CAPTION.match(line):
            caption = name[1]
        elif line.strip():
            caption = None
    if inside is not None:
        sys.exit(f"line {inside[3]}: a block without an end")
    return found


def missing_line(expected, output):
    """The first expected line that the output does not have at its turn, or None."""
    lines = iter(output.splitlines())
    for wanted in expected.splitlines():
        pattern = re.compile(".*".join(re.escape(part) for part in re.split(r"\s*…\s*", " ".join(wanted.split()))))
        if not any(pattern.fullmatch(" ".join(line.split())) for line in lines):
            return wanted
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--examples", required=True, type=pathlib.Path)
    parser.add_argument("--folder", required=True, type=pathlib.Path)
    args = parser.parse_args()
    shutil.rmtree(args.folder, ignore_errors=True)
    args.folder.mkdir(parents=True)
    page = blocks(args.page.read_text(encoding="utf-8"))

    files = {name: text for name, _, text, _ in page if name}
    for name, text in files.items():
        if (args.examples / name).read_text(encoding="utf-8") != text:
            sys.exit(f"{name}: the page and {args.examples / name} differ")
        (args.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (args.folder / name).write_text(text, encoding="utf-8")
    for folder in {pathlib.Path(name).parts[0] for name in files}:
        for path in (args.examples / folder).rglob("*"):
            if path.is_file() and str(path.relative_to(args.examples)) not in files:
                sys.exit(f"{path}: the page does not show it")

    output, n_commands, n_lines = "", 0, 0
    for name, language, text, line in page:
        if name:
            continue
        if language == "sh":
            done = subprocess.run(["bash", "-euc", text], cwd=args.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=500)
            output = done.stdout.decode("utf-8", errors="replace")
            if done.returncode:
                sys.exit(f"line {line}: ended with {done.returncode}\n{text}\n{output[-3000:]}")
            n_commands += 1
        elif language == "text":
            if (lost := missing_line(text, output)) is not None:
                sys.exit(f"line {line}: expected {lost!r} in\n{output[-3000:]}")
            n_lines += len(text.splitlines())
        elif language:
            sys.exit(f"line {line}: a block of {language} without a file's name")
    print(f"{args.page.name}: {len(files)} files, {n_commands} blocks of commands, {n_lines} lines of output")
    if not (files and n_commands and n_lines):
        sys.exit("the page shows no files, commands or output")


if __name__ == "__main__":
    main()
