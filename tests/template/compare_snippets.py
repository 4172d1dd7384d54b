#!/usr/bin/env python3
"""Compares the template engine with jinja2 on small templates. Argument: the program that renders lines."""
import sys

try:
    import environment
except ImportError as missing:
    print(f"skipped: {missing}; `pip install jinja2` lets this test run")
    sys.exit(77)
import snippets

comparison = environment.Comparison(sys.argv[1])
for source in snippets.all_snippets():
    comparison.check(source, snippets.VARIABLES)
if comparison.rendered + comparison.failed < 400:
    sys.exit("fewer than 400 snippets")
sys.exit(comparison.report())
