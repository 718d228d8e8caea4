"""Load, and what the gateway counts of it."""

import json
import pathlib
import re
import subprocess
import tempfile

import servers

OUTCOMES = ["first", "replay", "conflict", "in_flight", "unknown_outcome", "not_replayable",
            "capacity", "rejected"]


class Invalid(SystemExit):
    """A measurement that did not do what its case says."""


def data_folder():
    """A new folder for what servers write, in memory where there is such a place."""
    base = "/dev/shm" if pathlib.Path("/dev/shm").is_dir() else None
    return pathlib.Path(tempfile.mkdtemp(prefix="onceward-bench-", dir=base))


def start_load(port, path, mode, nonce, connections, seconds):
    """A running wrk."""
    threads = min(2, connections)
    script = pathlib.Path(__file__).with_name("call.lua")
    command = [
        "wrk", "--threads", str(threads), "--connections", str(connections),
        "--duration", f"{seconds}s", "--timeout", "10s", "--script", script,
        f"http://{servers.HOST}:{port}{path}",
        "--", mode, nonce, ",".join(servers.TOKENS)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def result_of(running):
    text, _ = running.communicate()
    if running.returncode:
        raise Invalid(f"wrk ended with {running.returncode}")
    return json.loads(text.splitlines()[-1])


def gateway_counts():
    text = servers.fetch(servers.ADMIN, "/metrics")

    def value(pattern):
        found = re.search(rf"^{pattern} (\d+)$", text, re.MULTILINE)
        if not found:
            raise Invalid(f"the gateway's metrics have no {pattern}")
        return int(found.group(1))

    counted = {name: value(rf'mcp_gateway_idempotency_total\{{[^}}]*outcome="{name}"[^}}]*\}}')
               for name in OUTCOMES}
    counted["evictions"] = value("onceward_store_evictions_total")
    counted["audit_dropped"] = value("onceward_audit_dropped_total")
    return counted
