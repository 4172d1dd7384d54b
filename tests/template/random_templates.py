"""Templates made of random pieces: what nobody would write, but all of it has a meaning."""
import random

NAMES = ["user", "words", "numbers", "reals", "text", "html", "emoji", "empty", "nothing", "yes", "no", "zero", "people", "mapping",
         "messages", "missing", "a", "b", "c", "ns"]
LITERALS = ["0", "1", "-1", "2", "10", "1.5", "0.1", "1e20", "true", "false", "none", "''", "'a'", "'B'", "'é日'", "' x '", "'a,b'",
            "'<&>'", "'{} {}'", "'%s %d'", "[]", "{}", "()", "[1, 'a', none]", "{'a': 1, 'B': [2]}", "(1, 2)", "[[1, 2], [3]]", "'\\n'"]
ATTRIBUTES = ["name", "age", "tags", "items", "keys", "role", "content", "missing", "upper", "nested", "a", "0", "1"]
BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]
FILTERS = ["upper", "lower", "title", "capitalize", "trim", "length", "first", "last", "list", "sort", "unique|list", "reverse|list", "join",
           "join(', ')", "tojson", "tojson(indent=2)", "string", "int", "float", "abs", "round", "round(1)", "default('d')", "default('d', true)",
           "e", "safe", "items|list", "dictsort", "map('upper')|list", "map(attribute='name')|list", "select|list", "reject|list",
           "select('defined')|list", "selectattr('name')|list", "selectattr('age', 'eq', 5)|list", "rejectattr('name', 'none')|list", "min", "max",
           "sum", "replace('a', 'bb')", "indent(2)", "batch(2)|list", "slice(2)|list", "truncate(6)", "center(7)", "wordcount", "urlencode",
           "groupby('age')|list", "sort(attribute='name')|list", "map('length')|list", "count", "format(1, 2)", "map('first')|list"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "sequence", "iterable", "true", "false",
         "odd", "even", "lower", "upper", "in words", "divisibleby 2", "eq 1", "sameas none", "callable", "lt 3", "escaped"]
METHODS = ["upper()", "lower()", "strip()", "strip('a ')", "lstrip()", "rstrip('\\n')", "split()", "split(',')", "split('a', 1)", "rsplit('a', 1)",
           "startswith('a')", "endswith('a')", "replace('a', 'b')", "title()", "capitalize()", "find('a')", "count('a')", "join(words)",
           "format(1, 'x')", "splitlines()", "isdigit()", "islower()", "zfill(4)", "partition(' ')", "get('a')", "get('name', 5)", "keys()|list",
           "items()|list", "values()|list", "index('a')", "copy()", "swapcase()", "casefold()", "isupper()", "rpartition(',')"]
SLICES = ["[0]", "[-1]", "[1]", "[5]", "['a']", "['name']", "[1:]", "[:-1]", "[::-1]", "[::2]", "[-2:]", "[:0]", "[none]", "[true]", "[1:2]", "['items']"]


class Maker:
    """`works` tells whether an expression has a value: of those that have none only a few are taken."""

    def __init__(self, seed, works):
        self.random = random.Random(seed)
        self.works = works

    def expression(self, depth=3):
        for _ in range(20):
            found = self.any_expression(depth)
            if self.works(found) or self.random.random() < 0.005:
                break
        return found

    def any_expression(self, depth):
        pick = self.random.random()
        if depth <= 0 or pick < 0.2:
            return self.random.choice(NAMES if self.random.random() < 0.6 else LITERALS)
        inner = self.any_expression(depth - 1)
        if pick < 0.35:
            return f"{inner} {self.random.choice(BINARY)} {self.any_expression(depth - 1)}"
        if pick < 0.42:
            return f"({inner} {self.random.choice(BINARY)} {self.any_expression(depth - 1)})"
        if pick < 0.62:
            return f"{inner}|{self.random.choice(FILTERS)}"
        if pick < 0.68:
            return f"{inner} is {self.random.choice(['', 'not '])}{self.random.choice(TESTS)}"
        if pick < 0.76:
            return f"({inner}).{self.random.choice(METHODS)}"
        if pick < 0.82:
            return f"({inner}){self.random.choice(SLICES)}"
        if pick < 0.86:
            return f"({inner}).{self.random.choice(ATTRIBUTES)}"
        if pick < 0.9:
            return f"{inner} if {self.any_expression(depth - 1)} else {self.any_expression(depth - 1)}"
        if pick < 0.94:
            return f"{self.random.choice(['not ', '-', '+'])}{inner}"
        if pick < 0.97:
            return f"[{inner}, {self.any_expression(depth - 1)}]"
        return "{" + f"'k': {inner}, {self.random.choice(LITERALS[:12])}: {self.any_expression(depth - 1)}" + "}"

    def space(self):
        return self.random.choice(["", "", "", " ", "\n", "  \n", "\n\n", "\n  ", "\t", "x", " y ", "é\n"])

    def tag(self, text):
        begin = self.random.choice(["{%", "{%", "{%", "{%-", "{%+"])
        end = self.random.choice(["%}", "%}", "%}", "-%}", "+%}"])
        return f"{self.space()}{begin} {text} {end}{self.space()}"

    def shown(self):
        return f"{self.random.choice(['{{', '{{', '{{-'])} {self.expression()} {self.random.choice(['}}', '}}', '-}}'])}"

    def body(self, depth):
        return "".join(self.statement(depth) for _ in range(self.random.randint(1, 3)))

    def statement(self, depth=2):
        pick = self.random.random()
        if depth <= 0 or pick < 0.35:
            return self.space() + self.shown() + self.space()
        name = self.random.choice(["a", "b", "c"])
        if pick < 0.5:
            return self.tag(f"set {name} = {self.expression()}")
        if pick < 0.55:
            return self.tag(f"set {name}") + self.body(depth - 1) + self.tag("endset")
        if pick < 0.6:
            return self.tag("set ns = namespace(x=0)") + self.tag(f"set ns.x = {self.expression()}") + "{{ ns.x }}"
        if pick < 0.72:
            middle = self.tag("else") + self.body(depth - 1) if self.random.random() < 0.5 else ""
            if self.random.random() < 0.3:
                middle = self.tag(f"elif {self.expression()}") + self.body(depth - 1) + middle
            return self.tag(f"if {self.expression()}") + self.body(depth - 1) + middle + self.tag("endif")
        if pick < 0.86:
            test = f" if {self.expression(2)}" if self.random.random() < 0.25 else ""
            extra = self.random.choice(["{{ loop.index }}", "{{ loop.last }}", "{{ loop.length }}", "{{ loop.nextitem }}", ""])
            flow = self.tag(f"if {self.expression(1)}") + self.tag(self.random.choice(["break", "continue"])) + self.tag("endif") \
                if self.random.random() < 0.2 else ""
            other = self.tag("else") + self.body(depth - 1) if self.random.random() < 0.2 else ""
            over = self.random.choice(["words", "numbers", "people", "mapping", "range(3)", "[1, 2]", "'ab'", self.expression(2)])
            return self.tag(f"for {name} in {over}{test}") + extra + flow + self.body(depth - 1) + other + self.tag("endfor")
        if pick < 0.92:
            macro = self.random.choice(["m", "n"])
            return (self.tag(f"macro {macro}({name}, b=1)") + self.body(depth - 1) + self.tag("endmacro")
                    + "{{ " + f"{macro}({self.expression(1)})" + " }}")
        if pick < 0.95:
            return self.tag(f"filter {self.random.choice(['upper', 'trim', 'indent(2)'])}") + self.body(depth - 1) + self.tag("endfilter")
        if pick < 0.97:
            return self.tag(f"with {name} = {self.expression()}") + self.body(depth - 1) + self.tag("endwith")
        return "{#" + self.random.choice(["", "-", "+"]) + " note " + self.random.choice(["", "-"]) + "#}" + self.space()

    def template(self):
        return "".join(self.statement() for _ in range(self.random.randint(1, 4)))
