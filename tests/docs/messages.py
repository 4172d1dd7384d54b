#!/usr/bin/env python3
"""Every message that docs/troubleshooting.md quotes in bold is in a source file: messages.py ROOT.

A message is put together, so the pieces between its placeholders are looked for in the string literals, by themselves.
Placeholders: …, N, M, x, y, X and what is in straight quotes or brackets; a flag may be put in, too.
"""
import pathlib
import re
import sys

PAGE = "docs/troubleshooting.md"
SOURCES = ("apps", "backends", "collectives", "core", "formats", "plugins")
SYSTEM = {"No such file or directory"}  # the system's own words
QUOTED = re.compile(r"\*\*`([^`]+)`\*\*")
PLACEHOLDER = re.compile(r"""…|'[^']*'|"[^"]*"|\[[^]]*\]|\([^)]*\)|(?<![\w-])--[a-z-]+|TENON_X|\b[NMXxy]\b""")
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def pieces(message):
    """What a message has between its placeholders, without the punctuation at the borders."""
    found = (piece.strip(" .,:;") for piece in PLACEHOLDER.split(message))
    return [piece for piece in found if piece]


def literals(root):
    """The string literals of the sources, a line each; those that the compiler joins are one."""
    texts = []
    for folder in SOURCES:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".cpp", ".hpp", ".h", ".cu", ".cuh"):
                source = re.sub(r'"\s*\n\s*"', "", path.read_text(encoding="utf-8"))
                texts += LITERAL.findall(source)
    return "\n".join(texts)


def main():
    root = pathlib.Path(sys.argv[1])
    messages = QUOTED.findall((root / PAGE).read_text(encoding="utf-8").replace("\n", " "))
    said = literals(root)
    lost = [(message, piece) for message in messages if message not in SYSTEM
            for piece in pieces(message) or [message] if piece not in said]
    for message, piece in lost:
        print(f"{PAGE}: no source file says {piece!r}, of the message {message!r}")
    print(f"{len(messages)} messages")
    return 1 if lost or len(messages) < 30 else 0


if __name__ == "__main__":
    sys.exit(main())
