"""What the measurements with Redis came to."""

import statistics

from rows import table

FASTER_BAR, FASTER_AT = 1.5, 16
TRIPS_BARS = {"redis first": ("= 2", 2), "redis replay": ("≤ 1", 1)}
GROWTH_BAR = 1.3
PAIRS = [("redis first", "peer redis first"), ("redis replay", "peer redis replay")]
COSTS = [("requests/s", "each_us"),
         ("requests per CPU second of the proxy", "cpu_us"),
         ("requests per CPU second of proxy and Redis", "with_redis_us")]


def text(rows):
    parts = [bars(rows), costs(rows), growth(rows.growth)]
    return "\n\n".join(part for part in parts if part) or "Not measured in this run."


def verdict(holds):
    return "holds" if holds else "**misses**"


def bars(rows):
    lines = faster(rows) + trips(rows)
    if rows.growth:
        grown = growth_ratio(rows.growth, "both")
        few, many = rows.growth["few"], rows.growth["many"]
        name = f"cost of a redis first at {many:,} records ÷ at {few:,}"
        cells = [f"{grown:.2f}" if n == rows.growth["at"] else "" for n in rows.connections]
        lines.append([name, f"≤ {GROWTH_BAR}", *cells, verdict(grown <= GROWTH_BAR)])
    head = ["", "bar", *(f"{n} conn." for n in rows.connections), "verdict"]
    return table(head, lines) if lines else ""


def faster(rows):
    """The bar is of throughput, at one number of connections; the rest says why."""
    lines = []
    for of, against in PAIRS:
        for name, cost in COSTS:
            ratios = {n: rows.ratio(of, against, n, cost) for n in rows.connections}
            if None in ratios.values():
                continue
            barred = cost == "each_us" and FASTER_AT in ratios
            lines.append([
                f"{name}: {of} ÷ {against}",
                f"≥ {FASTER_BAR} at {FASTER_AT}" if barred else "",
                *(f"{ratio:.2f}" for ratio in ratios.values()),
                verdict(ratios[FASTER_AT] >= FASTER_BAR) if barred else ""])
    return lines


def trips(rows):
    lines = []
    for case, (bar, most) in TRIPS_BARS.items():
        if case not in rows.cases:
            continue
        found = [f"{rows.median(case, n, 'scripts'):.2f}" for n in rows.connections]
        holds = all(float(cell) <= most for cell in found)
        lines.append([f"scripts that a {case} runs", bar, *found, verdict(holds)])
    return lines


def costs(rows):
    head = ["case", "conn.", "requests/s", "proxy CPU µs", "Redis CPU µs", "together",
            "round trips", "median µs", "99 % µs"]
    lines = []
    for connections in rows.connections:
        for case in [case for pair in PAIRS for case in pair if case in rows.cases]:
            def at(field, case=case, connections=connections):
                return rows.median(case, connections, field)
            lines.append([
                case, str(connections), f"{at('per_second'):,.0f}", f"{at('cpu_us'):.1f}",
                f"{at('redis_cpu_us'):.1f}", f"{at('with_redis_us'):.1f}",
                f"{at('round_trips'):.2f}", f"{at('p50_us'):,.0f}", f"{at('p99_us'):,.0f}"])
    return table(head, lines) if lines else ""


def cost_of(measured, part):
    if part == "both":
        return sum(measured.values())
    return measured[f"{part}_cpu_us"]


def growth_ratio(measured, part):
    return statistics.median(
        cost_of(one["many"], part) / cost_of(one["few"], part) for one in measured["rounds"])


def growth(measured):
    if not measured:
        return ""
    lines = []
    for part, name in [("gateway", "gateway"), ("redis", "Redis"), ("both", "together")]:
        few, many = (statistics.median(cost_of(one[size], part) for one in measured["rounds"])
                     for size in ("few", "many"))
        lines.append([name, f"{few:.1f}", f"{many:.1f}", f"{growth_ratio(measured, part):.2f}"])
    head = ["CPU µs of a redis first", f"{measured['few']:,} records", f"{measured['many']:,}",
            "ratio"]
    mib = measured["redis_peak_kib"] / 1024
    per_record = measured["redis_peak_kib"] * 1024 / measured["many"]
    return (f"{table(head, lines)}\n\nThe {measured['many']:,} records were made by as many calls, "
            f"within {measured['fill_seconds']:.0f} s. Redis was {mib:,.0f} MiB large in the end, "
            f"{per_record:,.0f} bytes a record.")
