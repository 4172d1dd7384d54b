#!/usr/bin/env python3
"""Writes goldens/ with jinja2: what the snippets and the templates of this folder give. Run it after changing them."""
import json
import pathlib

import conversations
import environment
import snippets

here = pathlib.Path(__file__).parent
goldens = here / "goldens"
reference = environment.reference()


def line(value):
    return json.dumps(value, ensure_ascii=True) + "\n"


def answer(source, variables):
    text, error = environment.expected(reference, source, variables)
    return {"text": text} if error is None else {"fails": True}


goldens.mkdir(exist_ok=True)
with open(goldens / "snippets.jsonl", "w", encoding="utf-8") as out:
    out.write(line({"variables": json.dumps(snippets.VARIABLES)}))
    for source in snippets.all_snippets():
        out.write(line({"template": source, **answer(source, snippets.VARIABLES)}))

KEPT = {"no thinking", "tools"}  # of the settings
kept = [(name, variables) for name, variables in conversations.all_variables() if name.split(" / ")[1] in KEPT]
with open(goldens / "conversations.jsonl", "w", encoding="utf-8") as out:
    for name, variables in kept:
        out.write(line({"name": name, "variables": json.dumps(variables)}))
for path in sorted((here / "templates").glob("*.jinja")):
    source = path.read_bytes().decode("utf-8")
    with open(goldens / f"{path.stem}.jsonl", "w", encoding="utf-8") as out:
        for name, variables in kept:
            out.write(line({"name": name, **answer(source, variables)}))
