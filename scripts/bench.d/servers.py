"""The processes that are measured: how each is started, and what the system says about it."""

import hashlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import time
import urllib.request

HOST = "127.0.0.1"
UPSTREAM, UPSTREAM_LARGE, FRONT, ADMIN = 18100, 18101, 18110, 18111
REDIS, REDIS_FULL = 18120, 18121
WORKERS = 2
CALLERS = 16
TOKENS = [f"bench-token-of-caller-{index:02}" for index in range(CALLERS)]
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
START_WAIT_S = 10

# The caps of the usual cases are far away; the others say what they change.
WIDE = {
    "entries": 1_000_000, "principal_entries": 1_000_000, "scope_entries": 1_000_000,
    "in_flight": 1024, "principal_in_flight": 1024, "scope_in_flight": 1024,
    "scope_tombstones": 1024,
}
# With many callers each below the cap, the store's own is the one that is full.
NARROW = WIDE | {"entries": 1000, "principal_entries": 1000, "scope_entries": 1000,
                 "in_flight": 512, "principal_in_flight": 512, "scope_in_flight": 512,
                 "scope_tombstones": 512}
# Room for a million records and those of the measurements, kept for longer than a run.
MILLION = WIDE | {"entries": 2_000_000, "principal_entries": 2_000_000,
                  "scope_entries": 2_000_000, "ttl": "2h", "tombstone_ttl": "2h"}
DEFAULT = {}


class Server:
    """A running process, with its children."""

    def __init__(self, command, port, folder, environment=None):
        self.log = open(folder / f"{pathlib.Path(command[0]).name}.log", "ab")
        self.process = subprocess.Popen(
            command, cwd=folder, env=os.environ | (environment or {}),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.log)
        self.port = port
        await_port(port, self.process)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def pids(self):
        own = self.process.pid
        children = pathlib.Path(f"/proc/{own}/task/{own}/children").read_text().split()
        return [own, *map(int, children)]

    def cpu_seconds(self):
        """User and system time of all threads so far."""
        return sum(cpu_ticks(pid) for pid in self.pids()) / TICKS_PER_SECOND

    def exact_cpu_seconds(self):
        """The same to less than a tick, where no thread has ended meanwhile."""
        threads = pathlib.Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9

    def peak_kib(self):
        """The most memory that was resident; pages that processes share count for each."""
        return sum(peak_kib(pid) for pid in self.pids())


def await_port(port, process):
    deadline = time.monotonic() + START_WAIT_S
    while True:
        if process.poll() is not None:
            raise SystemExit(f"{process.args[0]} ended with {process.returncode}")
        try:
            socket.create_connection((HOST, port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise SystemExit(f"{process.args[0]} does not listen on {port}") from None
            time.sleep(0.01)


def cpu_ticks(pid):
    # The second field, in parentheses, may hold spaces; utime and stime are the 14th and 15th.
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def peak_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise SystemExit(f"process {pid} has no VmHWM")


def fetch(port, path):
    with urllib.request.urlopen(f"http://{HOST}:{port}{path}", timeout=10) as reply:
        return reply.read().decode()


def upstream(binaries, folder, port, reply_bytes):
    command = [binaries / "examples/upstream", f"{HOST}:{port}", str(reply_bytes)]
    return Server(command, port, folder)


def passthrough(binaries, folder):
    target = f"http://{HOST}:{UPSTREAM}/mcp"
    command = [binaries / "examples/passthrough", f"{HOST}:{FRONT}", target, str(WORKERS)]
    return Server(command, FRONT, folder)


NGINX = """
daemon off;
pid nginx.pid;
error_log nginx.error.log;
worker_processes {workers};
events {{ worker_connections 1024; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    upstream tool {{
        server {host}:{upstream};
        keepalive 64;
        keepalive_requests 1000000000;
    }}
    server {{
        listen {host}:{front};
        location / {{
            proxy_pass http://tool;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }}
    }}
}}
"""


def nginx(folder):
    text = NGINX.format(workers=WORKERS, host=HOST, upstream=UPSTREAM, front=FRONT)
    (folder / "nginx.conf").write_text(text)
    return Server(["nginx", "-p", str(folder), "-c", "nginx.conf"], FRONT, folder)


def redis(folder, port):
    """Redis that writes nothing to a disk."""
    command = ["redis-server", "--bind", HOST, "--port", str(port), "--dir", str(folder),
               "--save", "", "--appendonly", "no"]
    return Server(command, port, folder)


def redis_info(port):
    """What a Redis server tells of itself, by name; of a command, how often it ran."""
    with socket.create_connection((HOST, port), timeout=10) as connection:
        stream = connection.makefile("rwb")
        stream.write(b"INFO everything\r\n")
        stream.flush()
        length = int(stream.readline()[1:])
        lines = stream.read(length).decode().splitlines()
    info = dict(line.split(":", 1) for line in lines if ":" in line)
    for name in [name for name in info if name.startswith("cmdstat_")]:
        info[name] = info[name].removeprefix("calls=").split(",")[0]
    return info


def peer(binary, folder, redis_port=None):
    """idempotent-proxy-server; its time-out is also its time to live. Without Redis it keeps all in
    memory."""
    (folder / ".env").write_text("")
    environment = {
        "SERVER_ADDR": f"{HOST}:{FRONT}",
        "URL_MCP": f"http://{HOST}:{UPSTREAM}/mcp",
        "REQUEST_TIMEOUT": "300000",
        "TOKIO_WORKER_THREADS": str(WORKERS),
    }
    if redis_port:
        environment["REDIS_URL"] = redis_url(redis_port)
    return Server([binary], FRONT, folder, environment)


def gateway(binaries, folder, limits, upstream_port=UPSTREAM, redis_port=None, tool="plain"):
    """The gateway with its audit in a file, as it comes save the limits of the case. Without Redis
    it keeps all in memory. The tool is one of `TOOLS`."""
    store = [f"shards = {WORKERS}"]
    if redis_port:
        store = ['kind = "redis"', f'url = "{redis_url(redis_port)}"']
    write_policy(folder / "policy", TOOLS[tool](f"http://{HOST}:{upstream_port}"))
    config = [
        "[listen]", f'mcp = "{HOST}:{FRONT}"', f'admin = "{HOST}:{ADMIN}"', f"workers = {WORKERS}",
        "[policy]", 'path = "policy"',
        "[store]", *store,
        "[audit]", 'sink = "audit.jsonl"',
        "[limits]", *(f"{name} = {json.dumps(value)}" for name, value in limits.items()),
    ]
    (folder / "onceward.toml").write_text("\n".join(config) + "\n")
    command = [binaries / "onceward", "serve", "--config", "onceward.toml"]
    return Server(command, FRONT, folder)


def redis_url(port):
    return f"redis://{HOST}:{port}"


def write_policy(folder, documents):
    folder.mkdir()
    for index, document in enumerate(documents):
        (folder / f"{index}.json").write_text(json.dumps(document))


EFFECT = {"side_effect": "write", "idempotency": {"header": "Idempotency-Key"}}


def plain(upstream):
    """A tool of an MCP server."""
    return [server({"upstream": f"{upstream}/mcp"}, {"side_effect": "write"})]


def effect(upstream):
    """The same with an effect spec, whose server gets the key."""
    return [server({"upstream": f"{upstream}/mcp"}, {"side_effect": "write", "effect": EFFECT})]


def native(upstream):
    """The same tool as a plain HTTP request, which the gateway makes of the same arguments."""
    names = ["customer", "amount_minor", "currency", "memo"]
    charge = {
        "name": "charge",
        "input_schema": {
            "type": "object", "required": names, "additionalProperties": False,
            "properties": {name: {"type": "string"} for name in names}
            | {"amount_minor": {"type": "integer", "minimum": 1}}},
        "request": {"method": "POST", "path": "/charges",
                    "body": {"json": {name: f"{{{name}}}" for name in names}}},
        "effect": EFFECT}
    connector = {"schema_version": "v1", "kind": "connector", "name": "bank",
                 "base_url": f"{upstream}/v1", "tools": [charge]}
    return [connector, server({"connectors": ["bank"]}, {})]


TOOLS = {"plain": plain, "effect": effect, "native": native}


def server(target, tool):
    keys = [{"id": f"caller-{index}", "sha256": hashlib.sha256(token.encode()).hexdigest(),
             "human_id": f"person-{index}@example.com", "agent_id": "bench", "team_id": "payments"}
            for index, token in enumerate(TOKENS)]
    return {
        "schema_version": "v1",
        "server": {"name": "payments", "namespace": "bench", "uid": "bench-payments",
                   "path": "/mcp"} | target,
        "auth": {"mode": "api_key", "api_keys": keys},
        "policy": {"mode": "allow-list", "default_decision": "deny"},
        "tools": [{"name": "charge", "required_trust": "medium"} | tool],
        "grants": [{"name": "payments-may-charge", "team_id": "payments", "max_trust": "medium",
                    "allowed_side_effects": ["read", "write"]}],
    }
