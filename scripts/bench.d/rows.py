"""The measurements of one run, and tables of them."""

import json
import statistics


class Rows:
    """The measurements of one run."""

    def __init__(self, path):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        single = {row["case"]: row for row in rows if "connections" not in row}
        self.memory, self.growth = single.get("memory"), single.get("growth")
        self.load = [row | derived(row) for row in rows if "connections" in row]
        self.cases = list(dict.fromkeys(row["case"] for row in self.load))
        self.connections = sorted({row["connections"] for row in self.load})
        self.rounds = max((row["round"] for row in self.load), default=0)

    def values(self, case, connections, field):
        """By round."""
        return {row["round"]: row[field] for row in self.load
                if row["case"] == case and row["connections"] == connections}

    def median(self, case, connections, field):
        return statistics.median(self.values(case, connections, field).values())

    def ratio(self, case, against, connections, cost):
        """The median of the ratios of what costs less the better, or None where one was not run."""
        of = self.values(case, connections, cost)
        to = self.values(against, connections, cost)
        rounds = of.keys() & to.keys()
        return statistics.median(to[n] / of[n] for n in rounds) if rounds else None


def derived(row):
    """What a request takes: its share of the time, and the CPU time of all that keep records."""
    return {"each_us": 1e6 / row["per_second"],
            "with_redis_us": row["cpu_us"] + row.get("redis_cpu_us", 0)}


def table(head, lines):
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, rule, *lines])
