"""The environment that chat templates are published for, made of jinja2 alone, and the engine under test beside it."""
import copy
import datetime
import functools
import json
import subprocess

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

NOW = datetime.datetime(2025, 3, 7, 14, 5, 9)  # what strftime_now() tells


class Generation(jinja2.ext.Extension):
    """The block `generation`: a scope of its own, whose text is printed."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_text"), [], [], body).set_lineno(line)

    def _text(self, caller):
        return caller()


def _raise(message):
    raise jinja2.exceptions.TemplateError(message)


def _tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def reference():
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    made.filters["tojson"] = _tojson
    made.globals["raise_exception"] = _raise
    made.globals["strftime_now"] = NOW.strftime
    return made


@functools.lru_cache(maxsize=64)
def compiled(environment, source):
    return environment.from_string(source)


def expected(environment, source, variables):
    """(text, None), or (None, what went wrong)"""
    try:
        # A copy, since some filters of jinja2 change lists that they refuse.
        return compiled(environment, source).render(**copy.deepcopy(variables)), None
    except Exception as error:  # whatever goes wrong in there is an answer
        return None, f"{type(error).__name__}: {error}"


class Engine:
    """The program that renders lines."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")

    def render(self, source, variables):
        request = {"template": source, "variables": json.dumps(variables), "now": int(NOW.timestamp())}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the engine ended with status {self.process.wait()} at {source!r}")
        answer = json.loads(answer)
        return answer.get("text"), answer.get("error")

    def close(self):
        self.process.stdin.close()
        status = self.process.wait()
        if status != 0:
            raise RuntimeError(f"the engine ended with status {status}")


class Comparison:
    """Renders with both, counts, and keeps what differs. Both failing is agreement: the messages are each one's own."""

    def __init__(self, program):
        self.environment, self.engine = reference(), Engine(program)
        self.rendered = self.failed = 0
        self.differences = []

    def check(self, source, variables, name=None):
        want, want_error = expected(self.environment, source, variables)
        have, have_error = self.engine.render(source, variables)
        if want_error is None:
            self.rendered += 1
        else:
            self.failed += 1
        if want != have:
            self.differences.append((name or repr(source), want_error or repr(want), have_error or repr(have)))

    def report(self):
        """Prints and answers the exit status."""
        self.engine.close()
        for name, want, have in self.differences:
            print(f"{name}\n  expected {want}\n  found    {have}")
        print(f"{self.rendered} texts and {self.failed} refusals compared, {len(self.differences)} differ")
        return 1 if self.differences or not self.rendered else 0
