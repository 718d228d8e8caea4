"""How the cost of a keyed first call grows with the records that stand in Redis.

Two Redis servers take turns under one gateway that is started afresh each time: one that is empty
but for a few records, also fresh each time, and one that was filled before the first round, through
the gateway itself, with as many as the bar speaks of. A short burst of calls is measured, so that
the number of records hardly changes.
"""

import contextlib
import shutil
import signal
import time

import servers
from load import Invalid, data_folder, gateway_counts, result_of, start_load

CONNECTIONS = 16
FILLING_CONNECTIONS = 64
FEW = 1000
BURST = 2000
LONGEST_S = 600  # a load of so many calls is stopped long before
POLL_S = 0.02


def measure(options):
    """By round the CPU time of gateway and Redis, in µs a call, at few and at many records."""
    rounds = []
    with contextlib.ExitStack() as ended:
        full_folder = data_folder()
        ended.callback(shutil.rmtree, full_folder)
        full = servers.redis(full_folder, servers.REDIS_FULL)
        ended.callback(full.stop)
        with gateway(options, servers.REDIS_FULL):
            seconds = fill("full", options.records, FILLING_CONNECTIONS)
        print(f"growth  {options.records} records filled in within {seconds:.0f} s", flush=True)
        for number in range(1, options.rounds + 1):
            rounds.append({"few": at_few(options, number), "many": at_many(options, number, full)})
            print(f"growth  round {number}  {rounds[-1]}", flush=True)
        peak_kib = full.peak_kib()
    return {"case": "growth", "few": FEW, "many": options.records, "at": CONNECTIONS,
            "fill_seconds": seconds, "redis_peak_kib": peak_kib, "rounds": rounds}


def at_few(options, number):
    with contextlib.ExitStack() as ended:
        folder = data_folder()
        ended.callback(shutil.rmtree, folder)
        redis = servers.redis(folder, servers.REDIS)
        ended.callback(redis.stop)
        front = ended.enter_context(gateway(options, servers.REDIS))
        warm_up(f"few{number}")
        fill(f"few{number}", FEW, CONNECTIONS)
        return burst(f"few{number}", front, redis)


def at_many(options, number, redis):
    with gateway(options, servers.REDIS_FULL) as front:
        warm_up(f"many{number}")
        fill(f"many{number}", FEW, CONNECTIONS)
        return burst(f"many{number}", front, redis)


@contextlib.contextmanager
def gateway(options, redis_port):
    folder = data_folder()
    front = servers.gateway(options.binaries, folder, servers.MILLION, redis_port=redis_port)
    try:
        yield front
    finally:
        front.stop()
        shutil.rmtree(folder)


def load(mode, nonce, connections, seconds, calls=None):
    """Load for so many seconds, or until the upstream has had so many calls; how long it took."""
    start = upstream_calls()
    running = start_load(servers.FRONT, "/mcp", mode, nonce, connections, seconds)
    while calls and upstream_calls() < start + calls and running.poll() is None:
        time.sleep(POLL_S)
    if calls:
        running.send_signal(signal.SIGINT)
    result = result_of(running)
    # What wrk left unanswered at its end is still counted while it finishes.
    time.sleep(0.05)
    if result["broken"] or result["statuses"] or (calls and upstream_calls() < start + calls):
        raise Invalid(f"growth: calls were refused or are missing: {result}")
    return result["seconds"]


def upstream_calls():
    return int(servers.fetch(servers.UPSTREAM, "/calls"))


def warm_up(nonce):
    """Replays: they take the same way as a begin and leave a record for each caller."""
    load("replay", nonce + "w", 1, 1)
    load("replay", nonce + "w", CONNECTIONS, 1)


def fill(nonce, records, connections):
    """Makes so many records; how long it took, in seconds."""
    return load("first", nonce + "f", connections, LONGEST_S, records)


def burst(nonce, front, redis):
    """CPU time in µs a call."""
    before = gateway_counts()
    cpu = front.exact_cpu_seconds(), redis.exact_cpu_seconds()
    load("first", nonce + "b", CONNECTIONS, LONGEST_S, BURST)
    spent = front.exact_cpu_seconds() - cpu[0], redis.exact_cpu_seconds() - cpu[1]
    delta = {name: count - before[name] for name, count in gateway_counts().items()}
    calls = delta["first"]
    if calls < BURST or sum(delta.values()) != calls:
        raise Invalid(f"growth: a burst was not one of first calls: {delta}")
    return {"gateway_cpu_us": spent[0] * 1e6 / calls, "redis_cpu_us": spent[1] * 1e6 / calls}
