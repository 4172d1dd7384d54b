#!/usr/bin/env python3
"""Compares the template engine with jinja2 on the templates of models, over many conversations.

Arguments: the program that renders lines; a folder with *.jinja of this repository. TENON_TEST_TEXT in the environment
names a folder whose templates/*.jinja are tried too."""
import os
import pathlib
import sys

try:
    import environment
except ImportError as missing:
    print(f"skipped: {missing}; `pip install jinja2` lets this test run")
    sys.exit(77)
import conversations

folder = pathlib.Path(sys.argv[2])
if folder.name == "more":
    if not os.environ.get("TENON_TEST_TEXT"):
        print("skipped: set TENON_TEST_TEXT to a folder with templates/*.jinja")
        sys.exit(77)
    folder = pathlib.Path(os.environ["TENON_TEST_TEXT"]) / "templates"
templates = sorted(folder.glob("*.jinja"))
if not templates:
    sys.exit(f"there are no templates in {folder}")

status = 0
for path in templates:
    source = path.read_bytes().decode("utf-8")
    comparison = environment.Comparison(sys.argv[1])
    for name, variables in conversations.all_variables():
        comparison.check(source, variables, f"{path.name}: {name}")
    print(f"{path.name}: ", end="")
    status |= comparison.report()
sys.exit(status)
