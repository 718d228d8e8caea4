"""Turns the measurements into docs/BENCHMARKS.md and docs/benchmarks.svg.

A ratio is taken within each round, between two measurements at the same number of connections, and
the median of the rounds is shown: what slows the machine down for a while slows both.
"""

import argparse
import dataclasses
import datetime
import os
import pathlib
import platform
import subprocess

import plot
import redis_report
from rows import Rows, table

MEMORY_BAR_MIB = 64


@dataclasses.dataclass(frozen=True)
class Bar:
    """A promised ratio of requests per CPU second."""

    case: str
    against: str
    least: float | None         # None where the two are only shown beside each other
    aim: bool = False
    at: int | None = None       # the number of connections that it is promised at; else all

    def text(self):
        if self.least is None:
            return ""
        at = f" at {self.at}" if self.at else ""
        return f"{'aim ' if self.aim else ''}≥ {self.least:.3g}{at}"

    def verdict(self, ratios):
        """Of the ratios by connections."""
        if self.least is None or (self.at and self.at not in ratios):
            return ""
        good, bad = ("reached", "not reached") if self.aim else ("holds", "misses")
        judged = [ratios[self.at]] if self.at else ratios.values()
        return good if all(ratio >= self.least for ratio in judged) else f"**{bad}**"


BARS = [
    Bar("unkeyed", "pass-through", 0.9),
    Bar("unkeyed", "nginx", 0.8, aim=True),
    Bar("keyed first", "unkeyed", 0.85),
    Bar("replay", "keyed first", 2.5),
    Bar("effect first", "keyed first", 1 / 1.1, at=16),
    Bar("native first", "effect first", None),
    Bar("native replay", "replay", None),
    Bar("keyed first", "peer first", 1.5),
    Bar("replay", "peer replay", 1.5),
]


def speed_table(rows, connections):
    head = ["case", "requests/s", "CPU µs a request", "median µs", "99 % µs", "peak MiB"]
    lines = []
    for case in rows.cases:
        def at(field, case=case):
            return rows.median(case, connections, field)
        lines.append([case, f"{at('per_second'):,.0f}", f"{at('cpu_us'):.1f}", f"{at('p50_us'):,.0f}",
                      f"{at('p99_us'):,.0f}", f"{at('peak_kib') / 1024:.1f}"])
    return table(head, lines)


def bars_table(rows):
    head = ["requests per CPU second", "bar", *(f"{n} conn." for n in rows.connections), "verdict"]
    lines = []
    for bar in BARS:
        ratios = {n: rows.ratio(bar.case, bar.against, n, "cpu_us") for n in rows.connections}
        if None in ratios.values():
            continue
        lines.append([f"{bar.case} ÷ {bar.against}", bar.text(),
                      *(f"{ratio:.2f}" for ratio in ratios.values()), bar.verdict(ratios)])
    return table(head, lines)


def memory_text(memory):
    if not memory:
        return "Not measured in this run."
    peak = memory["peak_kib"] / 1024
    verdict = "holds" if peak <= MEMORY_BAR_MIB else "**misses**"
    lines = [[str(row["connections"]), str(row["requests"]), str(row["first"]),
              str(row["evictions"]), f"{row['peak_kib'] / 1024:.1f}"] for row in memory["rows"]]
    head = ["connections", "requests", "executed", "evicted", "peak MiB so far"]
    return (f"{table(head, lines)}\n\nPeak {peak:.1f} MiB against a bar of {MEMORY_BAR_MIB} MiB: "
            f"{verdict}. Before the first request it was {memory['idle_kib'] / 1024:.1f} MiB.")


def machine():
    def first(path, name):
        for line in pathlib.Path(path).read_text().splitlines():
            if line.startswith(name):
                return line.split(":", 1)[1].strip()
        return "unknown"

    def version(*command):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = (done.stdout + done.stderr).splitlines()
        return lines[0] if lines else "unknown"

    cores = len([line for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                 if line.startswith("processor")])
    memory_mib = int(first("/proc/meminfo", "MemTotal").split()[0]) // 1024
    return "\n".join([
        f"- {first('/proc/cpuinfo', 'model name')}, {cores} cores, {memory_mib} MiB of memory",
        f"- Linux {platform.release()} {platform.machine()}",
        f"- {version('rustc', '--version')}; {version('nginx', '-v')}; {version('wrk', '-v')}",
        f"- {version('redis-server', '--version')}",
        "; ".join(filter(None, [f"- {datetime.date.today().isoformat()}", os.getenv("BENCH_NOTE")])),
    ])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=pathlib.Path, required=True)
    parser.add_argument("--template", type=pathlib.Path, required=True)
    parser.add_argument("--store", type=pathlib.Path, required=True)
    parser.add_argument("--page", type=pathlib.Path, required=True)
    parser.add_argument("--plot", type=pathlib.Path, required=True)
    options = parser.parse_args()
    rows = Rows(options.rows)
    parts = {
        "machine": machine(),
        "rounds": str(rows.rounds),
        "bars": bars_table(rows),
        "tables": "\n\n".join(f"### {n} connection{'s' if n > 1 else ''}\n\n{speed_table(rows, n)}"
                              for n in rows.connections),
        "redis": redis_report.text(rows),
        "memory": memory_text(rows.memory),
        "store": options.store.read_text().strip() if options.store.exists()
        else "Not measured in this run; `scripts/bench-store` does it.",
    }
    text = options.template.read_text()
    for name, part in parts.items():
        text = text.replace("{{" + name + "}}", part)
    options.page.write_text(text)
    middle = rows.connections[len(rows.connections) // 2]
    costs = [(case, rows.median(case, middle, "with_redis_us")) for case in rows.cases
             if case not in ("direct", "unkeyed beside keyed")]
    title = f"CPU time a request, Redis's too, in µs, at {middle} connections (shorter is better)"
    options.plot.write_text(plot.bars(title, costs))


if __name__ == "__main__":
    main()
