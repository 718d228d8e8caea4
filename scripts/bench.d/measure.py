"""Measures every case in turn, round by round, and checks that each did what it says.

Every measurement starts its server afresh, so that nothing is carried from one to the next and the
peak memory is its own. Writes one JSON line for each measurement, then those of growth and memory.
"""

import argparse
import contextlib
import dataclasses
import json
import pathlib
import shutil
import time

import growth
import servers
from load import OUTCOMES, Invalid, data_folder, gateway_counts, result_of, start_load

CONNECTIONS = [1, 16, 64]
SATURATING_CONNECTIONS = 64
WARM_UP_S = 1  # wrk knows whole seconds
# What wrk left unanswered at its end is still counted while it finishes.
UNANSWERED_S = 0.05
# What the gateway asks of Redis for one call: a begin, and a settle where it was executed.
SCRIPTS = {"first": 2, "replay": 1}


@dataclasses.dataclass(frozen=True)
class Case:
    """One line of the tables."""

    name: str
    server: str                 # direct, passthrough, nginx, peer or gateway
    mode: str                   # of call.lua
    limits: dict | None = None  # the gateway's
    outcome: str | None = None  # what the gateway must have counted for every request
    warm_up: str | None = None  # the mode that prepares, where it is another
    beside: str | None = None   # the mode of a second load that saturates meanwhile
    redis: bool = False         # whether the records are in Redis
    tool: str = "plain"         # of servers.TOOLS


CASES = [
    Case("direct", "direct", "unkeyed"),
    Case("pass-through", "passthrough", "unkeyed"),
    Case("nginx", "nginx", "unkeyed"),
    Case("unkeyed", "gateway", "unkeyed", servers.WIDE),
    Case("keyed first", "gateway", "first", servers.WIDE, "first"),
    Case("replay", "gateway", "replay", servers.WIDE, "replay"),
    Case("effect first", "gateway", "first", servers.WIDE, "first", tool="effect"),
    Case("native first", "gateway", "first", servers.WIDE, "first", tool="native"),
    Case("native replay", "gateway", "replay", servers.WIDE, "replay", tool="native"),
    Case("conflict", "gateway", "conflict", servers.WIDE, "conflict", warm_up="replay"),
    Case("global cap", "gateway", "first", servers.NARROW, "first"),
    Case("unkeyed beside keyed", "gateway", "unkeyed", servers.WIDE, beside="first"),
    Case("peer first", "peer", "first"),
    Case("peer replay", "peer", "replay"),
    Case("redis first", "gateway", "first", servers.WIDE, "first", redis=True),
    Case("redis replay", "gateway", "replay", servers.WIDE, "replay", redis=True),
    Case("peer redis first", "peer", "first", redis=True),
    Case("peer redis replay", "peer", "replay", redis=True),
]


class Bench:
    def __init__(self, options):
        self.options = options
        self.runs = 0

    def start(self, case, folder):
        binaries = self.options.binaries
        redis_port = servers.REDIS if case.redis else None
        match case.server:
            case "direct":
                return None
            case "passthrough":
                return servers.passthrough(binaries, folder)
            case "nginx":
                return servers.nginx(folder)
            case "peer":
                return servers.peer(self.options.peer, folder, redis_port)
            case "gateway":
                return servers.gateway(binaries, folder, case.limits, redis_port=redis_port,
                                       tool=case.tool)

    def load(self, case, mode, nonce, connections, seconds):
        port = servers.UPSTREAM if case.server == "direct" else servers.FRONT
        path = "/URL_MCP" if case.server == "peer" else "/mcp"
        return start_load(port, path, mode, nonce, connections, seconds)

    def measure(self, case, connections, upstream):
        folder = data_folder()
        with contextlib.ExitStack() as ended:
            ended.callback(shutil.rmtree, folder)
            redis = server = None
            if case.redis:
                redis = servers.redis(folder, servers.REDIS)
                ended.callback(redis.stop)
            server = self.start(case, folder)
            if server:
                ended.callback(server.stop)
            return self.measure_running(case, connections, server or upstream, upstream, redis)

    def measure_running(self, case, connections, server, upstream, redis):
        self.runs += 1
        nonce = f"r{self.runs}"
        # A replay's key is filled by one request of each caller before the others come.
        fills = case.mode in ("replay", "conflict")
        if fills:
            result_of(self.load(case, case.warm_up or case.mode, nonce, 1, WARM_UP_S))
        warm_nonce = nonce if fills else nonce + "w"
        result_of(self.load(case, case.mode, warm_nonce, connections, WARM_UP_S))
        time.sleep(UNANSWERED_S)
        before = self.counts(case, upstream)
        cpu, redis_cpu = server.cpu_seconds(), redis and redis.cpu_seconds()
        running = self.load(case, case.mode, nonce, connections, self.options.seconds)
        beside = case.beside and self.load(
            case, case.beside, nonce, SATURATING_CONNECTIONS, self.options.seconds)
        result = result_of(running)
        saturating = result_of(beside) if beside else None
        cpu = server.cpu_seconds() - cpu
        if redis:
            redis_cpu = redis.cpu_seconds() - redis_cpu
        time.sleep(UNANSWERED_S)
        after = self.counts(case, upstream)
        delta = {name: after[name] - before[name] for name in after}
        total = result["requests"] + (saturating["requests"] if saturating else 0)
        slack = 2 * (connections + (SATURATING_CONNECTIONS if beside else 0))
        check(case, result, saturating, delta, total, slack)
        return {
            "case": case.name, "connections": connections,
            "per_second": result["requests"] / result["seconds"],
            "cpu_us": cpu * 1e6 / total, "peak_kib": server.peak_kib(),
            "p50_us": result["p50_us"], "p99_us": result["p99_us"],
            "beside_per_second": saturating and saturating["requests"] / saturating["seconds"],
        } | (redis_row(case, redis_cpu, delta, total) if redis else {})

    def counts(self, case, upstream):
        counted = {"upstream": int(servers.fetch(upstream.port, "/calls"))}
        if case.server == "gateway":
            counted |= gateway_counts()
        if case.redis:
            counted |= redis_counts()
        return counted


def redis_counts():
    info = servers.redis_info(servers.REDIS)
    return {"reads": int(info["total_reads_processed"]),
            "scripts": sum(int(info.get(f"cmdstat_{name}", 0)) for name in ("evalsha", "eval")),
            "looks": int(info.get("cmdstat_info", 0))}


def redis_row(case, cpu, delta, total):
    """What Redis did for a call, and whether the gateway asked as often as it must."""
    # Between our two INFOs the first has ended and its connection; what else is an INFO is the
    # keeper of the gateway, who has the records counted by a script each time.
    looks = delta["looks"] - 1
    scripts, reads = delta["scripts"] - looks, delta["reads"] - 2 * looks - 2
    # With what wrk did not wait for.
    calls = delta[case.outcome] if case.outcome else total
    if case.server == "gateway":
        wanted = SCRIPTS[case.mode] * calls
        # A look may be half done at either reading.
        if not wanted - 1 <= scripts <= wanted + 1:
            raise Invalid(f"{case.name}: {scripts} scripts and not {wanted}: {delta}")
    # What a connection sends at once is read at once: a read is a round trip.
    return {"redis_cpu_us": cpu * 1e6 / total, "scripts": scripts / calls,
            "round_trips": reads / calls}


def check(case, result, saturating, delta, total, slack):
    """Whether statuses, the gateway's outcomes and the upstream's calls are those of the case."""
    def expect(what, found, wanted, allowance=0):
        if not wanted <= found <= wanted + allowance:
            raise Invalid(f"{case.name}: {what} is {found}, not {wanted}: {result} {delta}")

    expect("broken requests", result["broken"], 0)
    expect("refusals", result["statuses"], result["requests"] if case.outcome == "conflict" else 0)
    reaches_upstream = case.mode in ("unkeyed", "first")
    expect("calls of the upstream", delta["upstream"], total if reaches_upstream else 0, slack)
    if case.server != "gateway":
        return
    outcomes = {name: 0 for name in OUTCOMES}
    if case.outcome:
        outcomes[case.outcome] = total
    if saturating:
        expect("refusals beside", saturating["statuses"] + saturating["broken"], 0)
        outcomes["first"] = saturating["requests"]
    for name, wanted in outcomes.items():
        expect(f"outcome {name}", delta[name], wanted, slack if wanted else 0)
    expect("dropped audit lines", delta["audit_dropped"], 0)
    full = case.limits is servers.NARROW
    expect("evictions", delta["evictions"], total if full else 0, slack if full else 0)


def measure_memory(bench):
    """The gateway at its default limits, full of replies of the most bytes that are kept."""
    case = Case("memory", "gateway", "first", servers.DEFAULT, "first")
    folder = data_folder()
    binaries = bench.options.binaries
    large = servers.upstream(binaries, folder, servers.UPSTREAM_LARGE, 32 * 1024)
    server = servers.gateway(binaries, folder, case.limits, servers.UPSTREAM_LARGE)
    try:
        idle_kib = server.peak_kib()
        rows = []
        # As many connections as may be in flight at the default limits.
        for connections in (1, 16, 32):
            before = gateway_counts()
            result = result_of(bench.load(case, "first", f"m{connections}", connections,
                                          bench.options.seconds))
            after = gateway_counts()
            rows.append({"connections": connections, "requests": result["requests"],
                         "refusals": result["statuses"], "broken": result["broken"],
                         "first": after["first"] - before["first"],
                         "evictions": after["evictions"] - before["evictions"],
                         "peak_kib": server.peak_kib()})
        records = json.loads(servers.fetch(servers.ADMIN, "/v1/status"))
        if any(row["broken"] for row in rows) or not rows[-1]["evictions"]:
            raise Invalid(f"memory: the store was not full: {rows}")
        return {"case": "memory", "idle_kib": idle_kib, "rows": rows,
                "peak_kib": server.peak_kib(), "store": records.get("store")}
    finally:
        server.stop()
        large.stop()
        shutil.rmtree(folder)


def absolute(text):
    """A path that stays right in a process that starts in another folder."""
    return pathlib.Path(text).resolve()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binaries", type=absolute, required=True, help="cargo's folder")
    parser.add_argument("--peer", type=absolute, help="idempotent-proxy-server, where it is")
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--seconds", type=int, required=True, help="of each measurement")
    parser.add_argument("--records", type=int, required=True, help="that growth is measured to")
    parser.add_argument("--cases", default="", help="names, separated by commas; else all")
    parser.add_argument("--connections", default=",".join(map(str, CONNECTIONS)))
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    bench = Bench(options)
    names = [name for name in options.cases.split(",") if name]
    cases = [case for case in CASES
             if (not names or case.name in names) and (case.server != "peer" or options.peer)]
    folder = data_folder()
    upstream = servers.upstream(options.binaries, folder, servers.UPSTREAM, 200)
    try:
        with options.out.open("w") as out:
            def put(row):
                out.write(json.dumps(row) + "\n")
                out.flush()

            for round_number in range(1, options.rounds + 1):
                for connections in map(int, options.connections.split(",")):
                    for case in cases:
                        row = bench.measure(case, connections, upstream)
                        put(row | {"round": round_number})
                        print(f"round {round_number}  {connections:2}  {case.name:22}"
                              f"{row['per_second']:9.0f}/s {row['cpu_us']:7.1f} us", flush=True)
            if not names or "growth" in names:
                put(growth.measure(options))
            if not names or "memory" in names:
                put(measure_memory(bench))
    finally:
        upstream.stop()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
