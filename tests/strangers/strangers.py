#!/usr/bin/env python3
"""What strangers do: build the examples against an installed Tenon and run models with them.

Parts: build (installs, configures, builds; the others need it), architecture, names, kernels, pages.
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import struct
import subprocess
import sys

PROJECTS = {"architecture": "examples/architecture", "kernel": "examples/kernel", "kernel-c": "examples/kernel-c",
            "fake_format": "tests/strangers/fake_format"}
TOKENS = ",".join(map(str, range(1, 91)))  # two chunks of a prompt


class Strangers:
    def __init__(self, args):
        self.args, self.work, self.source = args, args.work, args.source
        self.prefix = self.work / "prefix"
        self.tenon = self.prefix / "bin" / "tenon"
        self.gguf = self.source / "tests/data/models/qwen3/qwen3-IQ4_NL.gguf"
        self.golden = self.source / "tests/data/models/qwen3/golden/qwen3-IQ4_NL.json"
        self.same, self.q6 = self.work / "same.fake", self.work / "q6.fake"

    def plugins(self, *projects):
        return ":".join(str(self.work / project / "plugins") for project in projects)

    def environment(self, plugin_path=""):
        """This process's, without any flag's twin, and without a search path that could hide what is missing."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("TENON_")}
        return {**clean, "TENON_PLUGIN_PATH": plugin_path}

    def call(self, *command, status=0, plugin_path="", **options):
        command = [str(word) for word in command]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=580,
                              env=self.environment(plugin_path), **options)
        output, messages = done.stdout.decode("utf-8"), done.stderr.decode("utf-8", errors="replace")
        expect(done.returncode == status, f"{shlex.join(command)}\nended with {done.returncode}, expected {status}\n"
               f"{output[-2000:]}\n{messages[-4000:]}")
        return output if status == 0 else messages

    def logits(self, model, *flags, projects):
        out = self.work / "logits.safetensors"
        self.call(self.tenon, "eval", "-m", model, "--tokens", TOKENS, "--rows", "all", "--out", out, *flags,
                  plugin_path=self.plugins(*projects))
        return out.read_bytes()

    # --- build

    def build(self):
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.call(self.args.cmake, "--install", self.args.build, "--prefix", self.prefix)
        for name, folder in PROJECTS.items():
            self.configure(self.source / folder, self.work / name)
            self.call(self.args.cmake, "--build", self.work / name, "--parallel", "2")
            self.check_commands(self.source / folder, self.work / name)
        report = self.call(self.tenon, "plugins", "verify", plugin_path=self.plugins(*PROJECTS))
        for line in (r"example-qwen3 +0\.1\.0 +architecture +opened", r"example-q6 +0\.1\.0 +kernels +opened",
                     r"example-add +0\.1\.0 +kernels +opened", r"fake-format +0\.1\.0 +format +opened", ", 0 refused"):
            expect(re.search(line, report), f"no line {line!r} in\n{report}")
        directories = [path.parent for path in self.prefix.glob("**/libtenon_gguf.so")]
        directories += [self.work / "kernel" / "plugins"]
        for out, dtype in ((self.same, "same"), (self.q6, "example_q6")):
            self.call(self.args.write_fake, self.gguf, out, dtype, *directories)

    def configure(self, source, build):
        """Offline, with the prefix as the only place where Tenon can be."""
        self.call(self.args.cmake, "-S", source, "-B", build, "-G", self.args.generator,
                  f"-DCMAKE_MAKE_PROGRAM={self.args.make}", f"-DCMAKE_C_COMPILER={self.args.cc}",
                  f"-DCMAKE_CXX_COMPILER={self.args.cxx}", "-DCMAKE_BUILD_TYPE=Release", "-DFETCHCONTENT_FULLY_DISCONNECTED=ON",
                  "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", f"-DCMAKE_PREFIX_PATH={self.prefix}",
                  "-DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF", "-DCMAKE_C_FLAGS=-Werror", "-DCMAKE_CXX_FLAGS=-Werror")

    def check_commands(self, source, build):
        """No compiler and no cache entry knows the source tree, but for the project's own folder."""
        commands = json.loads((build / "compile_commands.json").read_text())
        expect(commands, f"{build}: nothing was compiled")
        for entry in commands:
            expect(str(self.prefix / "include") in entry["command"], f"the installed headers are not used: {entry['command']}")
            for word in shlex.split(entry["command"]):
                place = re.sub(r"^-[a-zA-Z]+", "", word)
                if place.startswith(str(self.source)):
                    own = any(pathlib.Path(place).is_relative_to(root) for root in (source, self.work))
                    expect(own, f"{place} is used by {entry['command']}")
        found = re.search(r"Tenon_DIR:PATH=(.*)", (build / "CMakeCache.txt").read_text())
        expect(found and pathlib.Path(found[1]).is_relative_to(self.prefix), f"{build}: Tenon was found at {found and found[1]}")

    # --- results

    def architecture(self):
        """Short cases of the goldens on the reference backend; strangers.golden.* have all of them on the CPU."""
        sys.path.insert(0, str(self.source / "tests/golden"))
        import golden
        faults = golden.Faults()
        os.environ.update(self.environment(self.plugins("architecture")), TENON_BACKEND="reference")
        checker = golden.Golden(self.tenon, self.gguf, self.golden, None, "exact", faults, self.work)
        for name in ("count", "days", "chat"):
            checker.check_logits(name, checker.data["cases"][name])
            checker.check_greedy(name, checker.data["cases"][name])
        expect(faults.checks > 10 and not faults.messages and not checker.parted, f"{faults.messages} {checker.parted}")
        for projects, plugin in (["architecture"], "example-qwen3 0.1.0"), ([], "llama 0.1.0"):
            plan = json.loads(self.call(self.tenon, "inspect", self.gguf, "--plan", "--json", plugin_path=self.plugins(*projects)))
            expect(plan["plan"]["plugin"] == plugin, f"served by {plan['plan']['plugin']}, expected {plugin}")

    def names(self):
        """The same tensors under the names of another container give the same bits."""
        for flags in (["--precision", "exact"], []):
            mine = self.logits(self.gguf, *flags, projects=["architecture", "fake_format"])
            theirs = self.logits(self.same, *flags, projects=["architecture", "fake_format"])
            expect(mine == theirs, f"logits differ between GGUF and Hugging Face names with {flags}")
        report = self.call(self.tenon, "inspect", self.same, "--tensors", plugin_path=self.plugins("fake_format"))
        expect("model.layers.3.self_attn.q_proj.weight" in report, f"not the names of the container:\n{report}")
        lost = self.work / "lost.fake"
        lost.write_bytes(self.same.read_bytes().replace(b"layers.2.mlp.up_proj.", b"layers.2.mlp.xx_proj."))
        message = self.call(self.tenon, "inspect", lost, "--kernels", status=3,
                            plugin_path=self.plugins("architecture", "fake_format"))
        expect("tensor model.layers.2.mlp.up_proj.weight: missing" in message, f"another message: {message}")

    def choices(self, model, *flags):
        report = json.loads(self.call(self.tenon, "inspect", model, "--kernels", "--json", *flags,
                                      plugin_path=self.plugins(*PROJECTS)))
        return report["kernels"]

    def check_choices(self, op, mine, numeric_class, loser):
        """In both phases, every node of that op is served by `mine`, and `loser` says who was before it."""
        chosen = self.choices(self.q6)
        expect(sorted(chosen) == ["decode", "prefill"], f"phases {sorted(chosen)}")
        for phase, nodes in chosen.items():
            nodes = [node for node in nodes if node["op"] == op]
            expect(nodes, f"{phase}: no {op}")
            for node in nodes:
                expect((node["kernel"], node["class"]) == (mine, numeric_class), f"{phase}: {node}")
                reasons = {entry["kernel"]: entry["reason"] for entry in node["refused"]}
                expect(reasons.get(loser) == f"{mine} comes first", f"{phase}: {reasons}")

    def kernels(self):
        self.check_choices("linear", "example.linear.q6", "example.q6.f32", "cpu.linear.decoded.f32.portable")
        self.check_choices("add", "example.add", "cpu.add", "cpu.add.portable")
        for nodes in self.choices(self.q6, "--forbid", "example.").values():
            expect(not [node for node in nodes if node["kernel"].startswith("example.")], "a forbidden kernel was chosen")

        # Against the definition of every op, over the same bytes.
        exact = self.logits(self.q6, "--precision", "exact", projects=PROJECTS)
        reference = self.logits(self.q6, "--precision", "exact", "--backend", "reference", projects=PROJECTS)
        gap = max(abs(a - b) for a, b in zip(floats(exact), floats(reference)))
        bound = json.loads(self.golden.read_text())["suggested_tolerance"]["float32 activations"]["max_abs"]
        expect(gap <= bound, f"the q6 kernel is {gap} off the reference, allowed {bound}")

        # A row's bits depend on nothing but the row.
        for flags in (["-t", "1"], ["-t", "2"], ["--copies", "3"], ["--chunk", "128"]):
            expect(self.logits(self.q6, "--precision", "exact", *flags, projects=PROJECTS) == exact, f"{flags} change bits")
        steps = [self.logits(self.q6, "--step", width, projects=PROJECTS) for width in ("1", "4", "15")]
        expect(steps[0] == steps[1] == steps[2], "the width of decode steps changes bits")

        # What runs is what was chosen: no group of the backend's kernels takes a stranger's node away.
        graph = json.loads(self.call(self.tenon, "inspect", self.q6, "--graph", "--json", plugin_path=self.plugins(*PROJECTS)))
        for phase, program in graph["graph"].items():
            n = {name: len(re.findall(rf"{re.escape(name)}$", program, re.M)) for name in ("example.add", "example.linear.q6")}
            expect(n == {"example.add": 8, "example.linear.q6": 17}, f"{phase}: {n} in\n{program}")

        # Of the backend's class, so equal to its bits.
        mine = self.logits(self.gguf, projects=["architecture", "kernel-c"])
        expect(mine == self.logits(self.gguf, projects=["architecture"]), "example.add differs from cpu.add")

        message = self.call(self.tenon, "inspect", self.q6, status=3, plugin_path=self.plugins("architecture", "fake_format"))
        expect("no plugin knows dtype example_q6" in message, f"another message: {message}")

    def pages(self):
        for page in ("add-an-architecture", "add-a-kernel"):
            command = [sys.executable, str(pathlib.Path(__file__).parent / "type_pages.py"), str(self.source / "docs" / f"{page}.md"),
                       "--examples", str(self.source / "examples"), "--folder", str(self.work / "pages" / page)]
            variables = {"PREFIX": str(self.prefix), "MODEL": str(self.gguf), "Q6_MODEL": str(self.q6),
                         "Q6_FORMAT": str(self.work / "fake_format" / "plugins"),
                         "Q6_ARCHITECTURE": str(self.work / "architecture" / "plugins"),
                         "CC": self.args.cc, "CXX": self.args.cxx, "CMAKE_GENERATOR": self.args.generator,
                         "PATH": f"{self.prefix / 'bin'}:{self.args.cmake.parent}:{self.args.make.parent}:{os.environ['PATH']}"}
            environment = {name: value for name, value in os.environ.items() if not name.startswith("TENON_")}
            done = subprocess.run(command, env={**environment, **variables}, timeout=580)
            expect(done.returncode == 0, f"{page}.md: what it says is not what happens")


def floats(blob):
    begin = 8 + struct.unpack_from("<Q", blob)[0]
    return struct.unpack_from(f"<{(len(blob) - begin) // 4}f", blob, begin)


def expect(holds, message):
    if not holds:
        sys.exit(f"FAIL {message}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["build", "architecture", "names", "kernels", "pages"])
    for flag in ("work", "build", "source", "cmake", "make", "write-fake"):
        parser.add_argument("--" + flag, required=True, type=pathlib.Path)
    for flag in ("generator", "cc", "cxx"):
        parser.add_argument("--" + flag, required=True)
    args = parser.parse_args()
    getattr(Strangers(args), args.part)()


if __name__ == "__main__":
    main()
