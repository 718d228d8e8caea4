"""The built gateway in front of real MCP servers."""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = os.environ.get("ONCEWARD_BIN", str(ROOT / "target/debug/onceward"))
NODE_MODULES = Path(os.environ.get("ONCEWARD_NODE_MODULES", ROOT / "target/npm/node_modules"))
EVERYTHING = NODE_MODULES / "@modelcontextprotocol/server-everything/dist/index.js"
LEDGER = Path(__file__).with_name("ledger_server.py")
PATIENCE_SECONDS = 60

# Where a client that cannot set a header for one call puts its key.
KEY_MEMBER = "com.example/idempotency-key"


def eventually(what, probe):
    """Polls until the probe gives something, or fails."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        value = probe()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"waited in vain for {what}")


class Process:
    """A child whose output is collected line by line."""

    def __init__(self, command, **env):
        self.child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **env},
        )
        self.stdout, self.stderr = [], []
        for pipe, lines in ((self.child.stdout, self.stdout), (self.child.stderr, self.stderr)):
            threading.Thread(target=self._collect, args=(pipe, lines), daemon=True).start()

    @staticmethod
    def _collect(pipe, lines):
        for line in pipe:
            lines.append(line.rstrip("\n"))

    def wait_for(self, pattern):
        """The first match of the pattern in either output."""

        def probe():
            for line in [*self.stdout, *self.stderr]:
                if found := re.search(pattern, line):
                    return found
            assert self.child.poll() is None, "\n".join(self.stderr)
            return None

        return eventually(pattern, probe)

    def stop(self):
        self.child.kill()
        self.child.wait()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_port(port, process):
    def probe():
        assert process.child.poll() is None, "\n".join(process.stderr)
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True

    eventually(f"port {port}", probe)


@contextlib.contextmanager
def everything():
    """The official server, every tool reply of which is an event stream."""
    port = free_port()
    server = Process(["node", str(EVERYTHING), "streamableHttp"], PORT=str(port))
    try:
        wait_for_port(port, server)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.stop()


@contextlib.contextmanager
def ledger():
    """A server of the official Python SDK, of both protocol eras, whose tool has a side effect."""
    port = free_port()
    server = Process([sys.executable, str(LEDGER), str(port)])
    try:
        wait_for_port(port, server)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.stop()


class Redis(Process):
    """A server of the test's own that keeps nothing on disk."""

    def __init__(self):
        port = free_port()
        super().__init__(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""])
        wait_for_port(port, self)
        self.url = f"redis://127.0.0.1:{port}"


class Gateway:
    """The gateway with a static principal, fit for clients that number every request anew.

    Its records are in memory, or where ONCEWARD_TEST_STORE says so in a Redis of its own.
    """

    def __init__(self, upstream, folder, connector=None):
        self.redis = Redis() if os.environ.get("ONCEWARD_TEST_STORE") == "redis" else None
        policy = {
            "schema_version": "v1",
            "server": {
                "name": "tools",
                "namespace": "sdk",
                "uid": "uid-sdk",
                "path": "/mcp",
                "upstream": upstream,
            },
            "auth": {"mode": "static", "human_id": "alice"},
            "policy": {"mode": "observe"},
            "idempotency": {
                "fingerprint": "call",
                "streams": "record",
                "key_pointers": ["/params/_meta/com.example~1idempotency-key"],
            },
        }
        policies = folder / "policies"
        policies.mkdir()
        if connector:
            del policy["server"]["upstream"]
            policy["server"]["connectors"] = [connector["name"]]
            (policies / "connector.json").write_text(json.dumps(connector))
        (policies / "policy.json").write_text(json.dumps(policy))
        (folder / "onceward.toml").write_text(
            '[listen]\nmcp = "127.0.0.1:0"\nadmin = "127.0.0.1:0"\n'
            f'[policy]\npath = "{policies}"\n'
            + (f'[store]\nkind = "redis"\nurl = "{self.redis.url}"\n' if self.redis else "")
        )
        self.process = Process(
            [PROGRAM, "serve", "--config", str(folder / "onceward.toml")], NO_COLOR="1"
        )
        ready = self.process.wait_for(r"mcp=(\S+:\d+).*admin=(\S+:\d+)")
        self.url = f"http://{ready[1]}/mcp"
        self.admin = f"http://{ready[2]}"
        eventually("readiness", self.is_ready)

    def is_ready(self):
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.admin}/readyz"):
            return True

    def stop(self):
        self.process.stop()
        if self.redis:
            self.redis.stop()

    def outcomes(self):
        """How often each idempotency outcome has happened."""
        with urllib.request.urlopen(f"{self.admin}/metrics") as answer:
            text = answer.read().decode()
        pattern = r'^mcp_gateway_idempotency_total\{[^}]*outcome="(\w+)"[^}]*\} (\d+)'
        counts = {name: int(count) for name, count in re.findall(pattern, text, re.MULTILINE)}
        return {name: count for name, count in counts.items() if count}


@pytest.fixture(params=[everything, ledger], ids=["everything", "ledger"])
def any_server(request):
    with request.param() as url:
        yield url


@pytest.fixture
def gateway_for(tmp_path):
    """Starts a gateway in front of an upstream, or of a connector's vendor."""
    started = []

    def start(upstream, connector=None):
        started.append(Gateway(upstream, tmp_path, connector))
        return started[-1]

    yield start
    for gateway in started:
        gateway.stop()
