"""The built gateway as an operator runs it: behind a real Prometheus, beside a real decoder."""

import contextlib
import hashlib
import http.server
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
PROGRAM = os.environ.get("ONCEWARD_BIN", str(ROOT / "target/debug/onceward"))
PATIENCE_SECONDS = 60
TOKEN = "token-of-alice"


def eventually(what, probe):
    """Polls until the probe gives something, or fails."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if value := probe():
            return value
        time.sleep(0.05)
    raise AssertionError(f"waited in vain for {what}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(url):
    with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
        return answer.read().decode()


def run(*command, **options):
    """A linter's run: its output is the failure's text."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    return done.returncode, done.stdout + done.stderr


class Server:
    """An HTTP server that answers as a function of the request says, and keeps every body."""

    def __init__(self, answer):
        bodies = self.bodies = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                bodies.append((self.path, dict(self.headers), body))
                reply = answer(body)
                if reply is None:
                    self.close_connection = True
                    return
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def tool(body):
    """An MCP tool: it answers, or hangs up where its argument says so."""
    message = json.loads(body)
    if message["params"]["arguments"].get("break"):
        return None
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}).encode()


class Gateway:
    """The gateway in front of one tool server."""

    def __init__(self, folder, upstream, more=""):
        policy = {
            "schema_version": "v1",
            "server": {
                "name": "payments",
                "namespace": "bank",
                "uid": "uid-payments",
                "upstream": f"{upstream}/mcp",
            },
            "auth": {
                "mode": "api_key",
                "api_keys": [
                    {
                        "id": "alice",
                        "sha256": hashlib.sha256(TOKEN.encode()).hexdigest(),
                        "human_id": "alice",
                    }
                ],
            },
            "policy": {"default_decision": "allow"},
        }
        (folder / "policy.json").write_text(json.dumps(policy))
        (folder / "sessions.json").write_text("[]")
        (folder / "onceward.toml").write_text(
            '[listen]\nmcp = "127.0.0.1:0"\nadmin = "127.0.0.1:0"\n'
            '[policy]\npath = "policy.json"\nreload = "50ms"\n'
            '[sessions]\npath = "sessions.json"\n'
            '[audit]\nsink = "audit.jsonl"\n' + more
        )
        self.folder = folder
        environment = {name: value for name, value in os.environ.items() if "OTEL" not in name}
        self.log = open(folder / "log", "w", encoding="utf-8")
        self.child = subprocess.Popen(
            [PROGRAM, "serve", "--config", str(folder / "onceward.toml")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self.log,
            env={**environment, "NO_COLOR": "1"},
        )
        ready = eventually(
            "the gateway",
            lambda: re.search(r"mcp=(\S+) admin=(\S+)", (folder / "log").read_text()),
        )
        self.mcp, self.admin = f"http://{ready[1]}/mcp", f"http://{ready[2]}"

    def call(self, key=None, arguments=None, token=TOKEN, headers=(), name="pay"):
        """The status of one tools/call."""
        message = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": name, "arguments": arguments or {}},
        }
        request = urllib.request.Request(self.mcp, json.dumps(message).encode(), method="POST")
        request.add_header("Content-Type", "application/json")
        request.add_header("Authorization", f"Bearer {token}")
        for header, value in headers:
            request.add_header(header, value)
        if key is not None:
            request.add_header("Idempotency-Key", key)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
                return answer.status
        except urllib.error.HTTPError as refusal:
            return refusal.code

    def traffic(self):
        """Something of every kind."""
        statuses = [
            self.call(),
            self.call("K1"),
            self.call("K1"),
            self.call("K1", {"amount": 2}),
            self.call("K2", {"break": True}),
            self.call("K2", {"break": True}),
            self.call("no key"),
            self.call(token="wrong"),
        ]
        assert statuses == [200, 200, 200, 409, 502, 409, 400, 401]
        good = (self.folder / "policy.json").read_text()
        (self.folder / "policy.json").write_text("{")
        failed = 'onceward_policy_reloads_total{result="failure"} 1'
        eventually("a failed reload", lambda: failed in self.metrics())
        (self.folder / "policy.json").write_text(good)

    def metrics(self):
        return get(f"{self.admin}/metrics")

    def stop(self):
        self.child.send_signal(signal.SIGTERM)
        status = self.child.wait(PATIENCE_SECONDS)
        self.log.close()
        return status


@contextlib.contextmanager
def closing(thing):
    try:
        yield thing
    finally:
        thing.close()


@pytest.fixture(scope="session")
def upstream():
    with closing(Server(tool)) as server:
        yield server


@pytest.fixture(scope="session")
def gateway(upstream, tmp_path_factory):
    """A gateway that has seen traffic of every kind."""
    started = Gateway(tmp_path_factory.mktemp("gateway"), upstream.url)
    started.traffic()
    yield started
    assert started.stop() == 0


@pytest.fixture(scope="session")
def prometheus(gateway, tmp_path_factory):
    """The URL of a real Prometheus that scrapes the gateway under the rules of deploy/."""
    folder = tmp_path_factory.mktemp("prometheus")
    port = free_port()
    (folder / "prometheus.yaml").write_text(
        json.dumps(
            {
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": [str(DEPLOY / "prometheus/alerts.yaml")],
                "scrape_configs": [
                    {
                        "job_name": "onceward",
                        "static_configs": [{"targets": [gateway.admin.removeprefix("http://")]}],
                    }
                ],
            }
        )
    )
    with open(folder / "log", "w", encoding="utf-8") as log:
        child = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={folder / 'prometheus.yaml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            child.kill()
            child.wait()
