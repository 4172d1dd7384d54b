#!/usr/bin/env python3
"""Every duty of docs/abi.md names a check that enforces it, and every check that is named exists.
    duties.py SOURCE"""
import pathlib
import re
import sys


def text_of(folder, *patterns):
    return "\n".join(path.read_text() for pattern in patterns for path in sorted(folder.glob(pattern)))


def faults(source):
    page = (source / "docs/abi.md").read_text()
    duties = re.findall(r"^\* \*\*([HP]\d+)\*\*", page, re.M)
    rows = dict(re.findall(r"^\| ([HP]\d+) \| (.*) \|$", page, re.M))
    tests = set(re.findall(r"^TEST(?:_F|_P)?\((\w+), (\w+)\)", text_of(source / "tests", "**/*.cpp"), re.M))
    builds = text_of(source / "tests", "**/CMakeLists.txt")
    kit = text_of(source / "core/src/kit", "*.cpp")
    if not duties:
        yield "docs/abi.md has no duties"
    if set(rows) != set(duties):
        yield f"these duties are not in both the lists and the table: {sorted(set(rows) ^ set(duties))}"
    for duty, row in rows.items():
        names, checks = re.findall(r"`([^`]+)`", row), re.findall(r'"([^"]+)"', row)
        if not names and not checks:
            yield f"{duty} names no check"
        for name in names:
            known = tuple(name.split(".")) in tests if "." in name else re.search(rf"\b{name}\b", builds)
            if not known:
                yield f"{duty}: there is no test {name}"
        for check in checks:
            if f'"{check}"' not in kit:
                yield f'{duty}: the kit has no check "{check}"'


if __name__ == "__main__":
    found = list(faults(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "every duty names checks that exist")
    sys.exit(1 if found else 0)
