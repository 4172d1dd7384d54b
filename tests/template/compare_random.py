#!/usr/bin/env python3
"""Compares the template engine with jinja2 on random templates. Arguments: the program that renders lines, how many
templates, and the seed of the first."""
import functools
import re
import sys
import warnings

try:
    import environment
except ImportError as missing:
    print(f"skipped: {missing}; `pip install jinja2` lets this test run")
    sys.exit(77)
import random_templates
import snippets

# What is no difference: addresses of Python's objects, whole numbers of more than 64 bits, which the engine refuses, and slices
# of literals that cannot be sliced, which jinja2 makes undefined, but only of literals.
SHOWS_ADDRESS = re.compile(r" at 0x[0-9a-f]+>", re.IGNORECASE)
REFUSED = re.compile(r"64 bits|'\w+' object is not subscriptable|unhashable type: 'slice'")

warnings.simplefilter("ignore", SyntaxWarning)  # of Python, about those literals
comparison = environment.Comparison(sys.argv[1])


@functools.lru_cache(maxsize=100000)
def works(expression):
    return environment.expected(comparison.environment, "{{ " + expression + " }}", snippets.VARIABLES)[1] is None


first = int(sys.argv[3])
for seed in range(first, first + int(sys.argv[2])):
    source = random_templates.Maker(seed, works).template()
    comparison.check(source, snippets.VARIABLES, f"seed {seed}: {source!r}")
comparison.differences = [(name, want, have) for name, want, have in comparison.differences
                          if not SHOWS_ADDRESS.search(want) and not REFUSED.search(have)]
sys.exit(comparison.report())
