"""The metrics, the alert rules and the dashboard against the official tools and the live text."""

import json
import re
import subprocess
import urllib.parse

import promql_parser
import pytest
import yaml
from conftest import DEPLOY, eventually, get, run

DASHBOARD = json.loads((DEPLOY / "grafana/onceward.json").read_text())
RULES = DEPLOY / "prometheus/alerts.yaml"

# What a scrape adds to every series.
OF_THE_SCRAPE = {"job", "instance"}


def dashboard_queries():
    panels = [(panel["title"], panel["targets"]) for panel in DASHBOARD["panels"]]
    return [(title, target["expr"]) for title, targets in panels for target in targets]


def rule_queries():
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [(rule["alert"], rule["expr"]) for group in groups for rule in group["rules"]]


def plain(query):
    """A query of the dashboard without the dashboard's own variables."""
    for variable, value in [
        ("$__rate_interval", "1m"),
        ("$__range", "1m"),
        ("$namespace", ".*"),
        ("$server", ".*"),
    ]:
        query = query.replace(variable, value)
    assert "$" not in query, f"an unknown variable in {query}"
    return query


def series(text):
    """The live series: for each name, the values of each label."""
    found = {}
    for line in text.splitlines():
        if sample := re.match(r"(\w+)(?:\{(.*)\})? \S+$", line):
            labels = found.setdefault(sample[1], {})
            for label, value in re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', sample[2] or ""):
                labels.setdefault(label, set()).add(value)
    return found


def children(node):
    for name in ("expr", "lhs", "rhs", "vector_selector", "param"):
        child = getattr(node, name, None)
        if isinstance(child, promql_parser.Expr):
            yield child
    yield from getattr(node, "args", None) or []


def judge(query, live):
    """Every name and label of a query exists, as its parser understands it."""

    def visit(node):
        names = set()
        if isinstance(node, promql_parser.VectorSelector):
            assert node.name in live, f"there is no metric {node.name}"
            names = set(live[node.name]) | OF_THE_SCRAPE
            for matcher in node.matchers.matchers:
                assert matcher.name in names, f"{node.name} has no label {matcher.name}"
                if matcher.op in (promql_parser.MatchOp.Equal, promql_parser.MatchOp.NotEqual):
                    values = live[node.name][matcher.name]
                    assert matcher.value in values, f"{matcher.name} is never {matcher.value}"
        for child in children(node):
            names |= visit(child)
        grouped = getattr(getattr(node, "modifier", None), "labels", None)
        matching = getattr(getattr(node, "modifier", None), "matching", None)
        for labels in (grouped, getattr(matching, "labels", None)):
            unknown = set(labels or []) - names
            assert not unknown, f"nothing below has the labels {unknown}"
        return names

    used = visit(promql_parser.parse(query))
    assert used, f"{query} looks at nothing"


def test_promtool_finds_nothing_to_say_of_the_live_metrics(gateway):
    text = gateway.metrics()
    assert series(text)["mcp_gateway_idempotency_total"]["outcome"] >= {"first", "replay"}
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_promtool_accepts_the_rules_and_their_tests():
    code, said = run("promtool", "check", "rules", "--lint-fatal", str(RULES))
    assert code == 0, said
    tests = DEPLOY.parent / "tests/operations/alerts.test.yaml"
    code, said = run("promtool", "test", "rules", str(tests))
    assert code == 0, said
    tested = {test["alertname"] for one in yaml.safe_load(tests.read_text())["tests"]
              for test in one["alert_rule_test"]}
    assert tested == {name for name, _ in rule_queries()}, "every rule is tested"


@pytest.mark.parametrize(("title", "query"), dashboard_queries() + rule_queries())
def test_every_query_names_what_there_is(gateway, title, query):
    judge(plain(query), series(gateway.metrics()))


@pytest.mark.parametrize(
    "query",
    [
        "rate(onceward_request_total[1m])",
        'onceward_requests_total{state="2xx"}',
        'onceward_requests_total{status="200"}',
        "sum by (tool) (onceward_requests_total)",
        "onceward_store_records / on (shard) onceward_store_capacity",
        "sum(rate(onceward_requests_total[1m])) / sum(onceward_no_such_total)",
        "vector(1)",
    ],
)
def test_the_judge_refuses_what_there_is_not(gateway, query):
    with pytest.raises(AssertionError):
        judge(query, series(gateway.metrics()))


@pytest.mark.parametrize(("title", "query"), dashboard_queries())
def test_a_real_prometheus_answers_every_panel(prometheus, gateway, title, query):
    url = f"{prometheus}/api/v1/query?query={urllib.parse.quote(plain(query))}"

    def answered():
        # A quantile and a mean need something that happened between two scrapes.
        gateway.call()
        try:
            result = json.loads(get(url))["data"]["result"]
        except OSError:
            return None
        return [one for one in result if one["value"][1] != "NaN"]

    assert eventually(f"{title}: {query}", answered)


def test_a_real_prometheus_raises_the_alert_of_a_lost_outcome(prometheus, gateway):
    def firing():
        try:
            alerts = json.loads(get(f"{prometheus}/api/v1/alerts"))["data"]["alerts"]
        except OSError:
            return False
        gateway.call("K2", {"break": True})
        return "OncewardUnknownOutcome" in {alert["labels"]["alertname"] for alert in alerts}

    assert eventually("the alert", firing)


def test_the_dashboard_is_one_that_grafana_can_import():
    names = {one["name"] for one in DASHBOARD["templating"]["list"]}
    assert names == {"datasource", "namespace", "server"}
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    taken = set()
    for panel in DASHBOARD["panels"]:
        assert panel["datasource"]["uid"] == "${datasource}", panel["title"]
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, f"{panel['title']} lies over another panel"
        taken |= cells


def test_the_dashboards_variables_name_what_there_is(gateway):
    live = series(gateway.metrics())
    for variable in DASHBOARD["templating"]["list"][1:]:
        selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]).groups()
        judge(plain(selector), live)
        assert label in live[selector.split("{")[0]]


def test_every_metric_is_on_the_dashboard(gateway):
    families = re.findall(r"^# TYPE (\w+) ", gateway.metrics(), re.MULTILINE)
    shown = " ".join(query for _, query in dashboard_queries())
    missing = [family for family in families if family not in shown]
    assert not missing
