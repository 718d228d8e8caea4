"""The files of deploy/ against their own tools, and their configuration against the program.

No container runs here: the image's parts are checked one by one.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import DEPLOY, PROGRAM, ROOT, run

TOOLS = Path(sys.executable).parent
SIDECAR = DEPLOY / "kubernetes/sidecar.yaml"
UNIT = DEPLOY / "systemd/onceward.service"
YAML_RULES = "{extends: default, rules: {line-length: {max: 100}}}"


def documents():
    return {one["kind"]: one for one in yaml.safe_load_all(SIDECAR.read_text())}


def pod():
    return documents()["Deployment"]["spec"]["template"]["spec"]


def container():
    return next(one for one in pod()["containers"] if one["name"] == "onceward")


def instructions():
    """The last stage of the Dockerfile: instruction and rest."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    start = max(number for number, line in enumerate(lines) if line.startswith("FROM "))
    return dict(line.split(" ", 1) for line in lines[start:])


def test_hadolint_has_nothing_to_say_of_the_dockerfile():
    assert run(str(TOOLS / "hadolint"), str(DEPLOY / "Dockerfile")) == (0, "")


def test_the_image_runs_as_nobody_and_asks_the_program_itself():
    image = instructions()
    assert image["FROM"] == "scratch"
    user = image["USER"].split(":")
    assert len(user) == 2 and all(int(one) > 0 for one in user), "a number, and not root's"
    health = yaml.safe_load(image["HEALTHCHECK"].split("CMD", 1)[1].strip())
    command = yaml.safe_load(image["ENTRYPOINT"]) + yaml.safe_load(image["CMD"])
    assert health[0] == command[0] == "/onceward"
    for words in (health, command):
        done = run(PROGRAM, words[1], "--help")
        assert done[0] == 0, done[1]
        assert all(word in done[1] for word in words if word.startswith("--"))


def test_the_images_context_is_all_that_a_build_needs(tmp_path):
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    assert ignored[0] == "*", "what is not named stays out"
    for name in (line.removeprefix("!") for line in ignored[1:]):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name)
        else:
            shutil.copy(source, tmp_path / name)
    manifest = str(tmp_path / "Cargo.toml")
    code, said = run("cargo", "metadata", "--locked", "--offline", "--format-version=1",
                     "--manifest-path", manifest)
    assert code == 0, said[-2000:]
    assert (tmp_path / "src/main.rs").exists()


def test_the_manifests_are_valid_and_tidy():
    paths = [str(SIDECAR), str(DEPLOY / "prometheus/alerts.yaml")]
    assert run(str(TOOLS / "yamllint"), "--strict", "-d", YAML_RULES, *paths) == (0, "")
    code, said = run(str(TOOLS / "kubernetes-validate"), "--strict", str(SIDECAR))
    assert code == 0, said
    assert said.count("passed") == len(documents()), said


def test_the_pods_configuration_passes_the_programs_check(tmp_path):
    for name, text in documents()["ConfigMap"]["data"].items():
        (tmp_path / name).write_text(text)
    variables = {one["name"]: "ab" * 32 for one in container()["env"]}
    assert variables.keys() == {"ONCEWARD_ADMIN__TOKEN_SHA256"}
    command = [PROGRAM, "check", "--config", str(tmp_path / "onceward.toml")]
    code, said = run(*command, env={**os.environ, **variables})
    assert code == 0, said
    # Plain HTTP inside the cluster is the one thing to say.
    assert said.count("warning:") == said.count("speaks plain HTTP") == 2, said


def test_the_pod_is_locked_down_and_stops_in_order():
    spec, gateway = pod(), container()
    security = gateway["securityContext"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert security["runAsUser"] > 0
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    config = documents()["ConfigMap"]["data"]["onceward.toml"]
    drain = int(config.split('drain = "')[1].split("s")[0])
    pause = gateway["lifecycle"]["preStop"]["sleep"]["seconds"]
    sinks = 6
    assert spec["terminationGracePeriodSeconds"] >= pause + drain + sinks
    server = next(one for one in spec["initContainers"] if one["name"] == "mcp-server")
    assert server["restartPolicy"] == "Always", "the upstream outlives the gateway's drain"
    deployment = documents()["Deployment"]["spec"]
    assert (deployment["replicas"], deployment["strategy"]["type"]) == (1, "Recreate")
    ports = {one["name"]: one["containerPort"] for one in gateway["ports"]}
    assert ports == {"mcp": 8080, "admin": 8081}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = gateway[probe]["httpGet"]
        assert (asked["path"], asked["port"]) in {("/healthz", "admin"), ("/readyz", "admin")}


@pytest.fixture
def unit(tmp_path):
    """The unit with the built program in the place of the installed one."""
    path = tmp_path / UNIT.name
    text = UNIT.read_text()
    assert "/usr/local/bin/onceward serve" in text
    path.write_text(text.replace("/usr/local/bin/onceward", PROGRAM))
    return path


def test_systemd_accepts_the_unit_and_finds_it_locked_down(unit):
    assert run("systemd-analyze", "verify", "--man=no", str(unit)) == (0, "")
    # In tenths: 2.0 of 10.
    code, said = run("systemd-analyze", "security", "--offline=yes", "--threshold=20", str(unit))
    assert code == 0, said[-500:]


def test_logrotate_accepts_its_rules(tmp_path):
    rules = tmp_path / "onceward"
    rules.write_text((DEPLOY / "systemd/onceward.logrotate").read_text())
    rules.chmod(0o644)
    done = subprocess.run(
        ["/usr/sbin/logrotate", "--debug", "--state", str(tmp_path / "state"), str(rules)],
        capture_output=True, text=True, check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr, done.stderr
    assert "/var/log/onceward/audit.jsonl" in done.stderr


def test_every_file_is_spoken_of():
    page = (DEPLOY / "README.md").read_text()
    for path in DEPLOY.rglob("*"):
        if path.is_file() and path.name != "README.md":
            assert f"`{path.relative_to(DEPLOY)}`" in page, path
