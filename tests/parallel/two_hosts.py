#!/usr/bin/env python3
"""Two processes on what looks like two hosts: network namespaces of this machine with a pair of virtual devices between them.

  two_hosts.py PROGRAM MODEL      text against one process; bytes a token against the plan, and against what the device moved;
                                  both processes end when the cable is cut

Needs root, ip and mpirun; says so and ends with 77 where something is missing. By hand, with a real model:

  sudo tests/parallel/two_hosts.py build/apps/tenon/tenon "$(scripts/fetch-model)"
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

NETWORK = "10.213.77"
LIMIT = 3  # seconds that a rank may keep the others waiting, where that is tried
TOKENS = ",".join(str(3 + 7 * i % 500) for i in range(40))


def environment():
    return {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMIX_", "PMI_", "TENON_")) or name == "TENON_PLUGIN_PATH"}


def run(*words, **more):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True, timeout=500, **more).stdout


class Hosts:
    """Namespaces a and b with the addresses .1 and .2, and what starts a process in the other one."""

    def __init__(self, folder):
        self.names = [f"tenon-{os.getpid()}-{letter}" for letter in "ab"]
        self.devices = [f"tn{os.getpid() % 100000}{letter}" for letter in "ab"]
        self.folder, self.agent = folder, folder / "agent"
        # mpirun calls it as it would call ssh: a host, then a command.
        self.agent.write_text(f'#!/bin/sh\nshift\nexec {self.words(1)} sh -c "$*"\n')
        self.agent.chmod(0o755)

    def words(self, i):
        # A host's name is its own too, since MPI keeps files under it.
        return f"ip netns exec {self.names[i]} unshare --uts sh -c 'hostname {self.names[i]}; exec \"$@\"' sh"

    def __enter__(self):
        try:
            for name in self.names:
                run("ip", "netns", "add", name)
            run("ip", "link", "add", self.devices[0], "netns", self.names[0], "type", "veth", "peer", self.devices[1], "netns", self.names[1])
            for i, name in enumerate(self.names):
                run("ip", "-n", name, "address", "add", f"{NETWORK}.{i + 1}/24", "dev", self.devices[i])
                for device in ("lo", self.devices[i]):
                    run("ip", "-n", name, "link", "set", device, "up")
            run("sh", "-c", self.words(0) + " true")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)

    def moved_bytes(self):
        """By the devices, in both directions."""
        return sum(int(run("ip", "netns", "exec", name, "cat", f"/sys/class/net/{device}/statistics/tx_bytes")) for name, device in zip(self.names, self.devices))

    def processes(self, program):
        """Numbers of those that run the program on either host."""
        numbers = [pid for name in self.names for pid in run("ip", "netns", "pids", name).split()]
        return [pid for pid in numbers if os.path.exists(f"/proc/{pid}/exe") and os.path.realpath(f"/proc/{pid}/exe") == os.path.realpath(program)]

    def command(self, program, *words):
        mpirun = ["mpirun", "--allow-run-as-root", "-q", "--bind-to", "none", "--host", f"{NETWORK}.1:1,{NETWORK}.2:1", "-n", "2",
                  "--mca", "orte_tmpdir_base", str(self.folder), "--mca", "plm_rsh_agent", str(self.agent), "--mca", "pml", "ob1", "--mca", "btl", "tcp,self",
                  "--mca", "btl_tcp_if_include", f"{NETWORK}.0/24", "--mca", "oob_tcp_if_include", f"{NETWORK}.0/24", program, *words]
        return ["sh", "-c", self.words(0) + ' "$@"', "sh", *map(str, mpirun)]

    def tenon(self, program, *words):
        return run(*self.command(program, *words), env=environment())


def main(program, model):
    missing = [tool for tool in ("ip", "mpirun", "unshare") if not shutil.which(tool)]
    if missing or os.geteuid() != 0:
        print("skipped:", f"no {missing[0]} here" if missing else "network namespaces need root")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        try:
            hosts = Hosts(pathlib.Path(folder)).__enter__()
        except subprocess.CalledProcessError as error:
            print("skipped: no network namespaces here:", error.stderr.strip())
            return 77
        try:
            program, model = os.path.abspath(program), os.path.abspath(model)
            return compare(hosts, program, model) or cut(hosts, program, model)
        except subprocess.CalledProcessError as error:
            print(error.stdout, error.stderr, sep="\n")
            raise
        finally:
            hosts.__exit__()


def compare(hosts, program, model):
    words = ["run", "-m", model, "--tokens", TOKENS, "-n", "48", "--temp", "0", "--ignore-eos"]
    alone = run(program, *words, "--sum-parts", "2", env=environment())
    apart = hosts.tenon(program, *words)
    plan = json.loads(run(program, "inspect", model, "--plan", "--tensor-parallel", "2", "--json", env=environment()))["plan"]["ranks"]
    planned = sum(rank["sent_bytes_a_row"] for rank in plan["each"])
    n_prompt, n_gen = 64, 64
    before = hosts.moved_bytes()
    speeds = json.loads(hosts.tenon(program, "bench", "-m", model, "-p", n_prompt, "-n", n_gen, "-r", "1", "--json"))
    moved = hosts.moved_bytes() - before
    sent = speeds["decode"]["sent_bytes_per_token"]
    least = 2 * (sent * n_gen + speeds["prefill"]["sent_bytes"])  # a round beforehand, and the timed one
    print(f"text of 48 tokens: {'equal' if alone == apart else 'different'}\n"
          f"bytes that both ranks send for a token: {sent}, by the plan {planned}\n"
          f"in two rounds of a prompt of {n_prompt} and {n_gen} tokens: {least} sent by the ranks, {moved} moved by the device\n"
          f"prefill {speeds['prefill']['tokens_per_second']['median']:.1f} t/s, decode {speeds['decode']['tokens_per_second']['median']:.1f} t/s")
    if not alone or alone != apart:
        print("expected:", alone, "found:", apart, sep="\n")
        return 1
    return 0 if sent == planned and least <= moved <= 1.5 * least + 1e6 else 1


def cut(hosts, program, model):
    """mpirun itself may wait for the lost host for longer than the program does."""
    mpirun = subprocess.Popen(hosts.command(program, "run", "-m", model, "--tokens", TOKENS, "-n", "-1", "-c", "8000", "--temp", "0", "--ignore-eos",
                                            "--rank-timeout", LIMIT), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    try:
        mpirun.stdout.read(8)
        running = len(hosts.processes(program))
        run("ip", "-n", hosts.names[0], "link", "set", hosts.devices[0], "down")
        begin = time.monotonic()
        while hosts.processes(program) and time.monotonic() - begin < 10 * LIMIT:
            time.sleep(0.1)
        seconds, left = time.monotonic() - begin, len(hosts.processes(program))
    finally:
        for name in hosts.names:
            for pid in run("ip", "netns", "pids", name).split():
                subprocess.run(["kill", "-KILL", pid], capture_output=True)
    errors = mpirun.communicate()[1].decode(errors="replace")
    named = "rank 1 did not answer within 3 s" in errors
    print(f"the cable cut: {running} processes, {left} of them left {seconds:.1f} s later; rank 1 is {'' if named else 'not '}named")
    if running == 2 and left == 0 and named:
        return 0
    print(errors)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
