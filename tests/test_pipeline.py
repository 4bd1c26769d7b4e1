"""Pipelines as users run them: bound, attack, gate and report from a shell, and the jobs that the README shows."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
SCRIPT = """
attrcert bound fashion-$1 --limit 16 --out bounds.csv --quiet > bounds.txt || exit 10
attrcert attack fashion-$1 --limit 8 --steps 5 --out attacks.csv --save-deltas attacks.safetensors --quiet > attacks.txt || exit 11
attrcert gate bounds.csv attacks.csv --require "p95(T_c_deg) <= 15" --allow-refuted --junit gate.xml > gate.txt && verdict=0 || verdict=$?
attrcert report bounds.csv attacks.csv -o report.html 2> report.txt || exit 12
exit $verdict
"""


def shell(script: str, folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A script under bash -e, with this installation's attrcert on the path and one thread a process."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "GITHUB_STEP_SUMMARY": "", **variables}
    return subprocess.run(
        ["bash", "-ec", script, "bash", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory) -> dict[str, tuple[Path, int]]:
    """The script on both bundled models: the folder of each, and its exit code."""
    ended = {}
    for model in ("natural", "adversarial"):
        folder = tmp_path_factory.mktemp(model)
        done = shell(SCRIPT, folder, model)
        ended[model] = (folder, done.returncode)
        assert done.returncode < 10, done.stderr
    return ended


def test_a_rule_separates_the_natural_from_the_adversarially_trained_model(pipelines):
    assert {model: code for model, (_, code) in pipelines.items()} == {"natural": 1, "adversarial": 0}
    for folder, _ in pipelines.values():
        assert (folder / "report.html").stat().st_size > 100_000
        assert (folder / "gate.xml").exists()


def test_the_rule_does_not_pass_where_attacks_exceeded_its_figures_unless_that_is_allowed(pipelines):
    rules = {"T_c_deg": ("refuted", 1), "T_hat_c_deg": ("passed", 0)}
    for column, (outcome, code) in rules.items():
        done = shell(
            f"attrcert gate bounds.csv attacks.csv --require 'p95({column}) <= 15'", pipelines["adversarial"][0]
        )
        assert (done.returncode, f"Gate: {outcome}" in done.stdout) == (code, True), done.stdout
    assert "attacks exceeded T_c_deg on" in (pipelines["adversarial"][0] / "gate.txt").read_text()


@pytest.mark.parametrize(("new", "old", "code"), [("natural", "adversarial", 1), ("adversarial", "natural", 0)])
def test_the_regression_gate_catches_a_swap_of_the_models(pipelines, new, old, code):
    words = f"--baseline {pipelines[old][0]}/bounds.csv --max-regression 'mean(T_c_deg) 5%'"
    done = shell(f"attrcert gate bounds.csv {words}", pipelines[new][0])
    assert done.returncode == code, done.stdout


def block(language: str, mark: str) -> str:
    """The README's code block of this language that has the mark in it."""
    blocks = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    return next(found for found in blocks if mark in found)


@pytest.fixture
def repository(request, tmp_path) -> Path:
    """What a user's repository has: a checkpoint and the README's configuration."""
    shutil.copy(ROOT / "models" / f"fashion-{request.param}" / "weights.safetensors", tmp_path / "model.safetensors")
    (tmp_path / "attrcert.toml").write_text(block("toml", "[gate]"))
    (tmp_path / "expected").write_text({"natural": "1", "adversarial": "0"}[request.param])
    return tmp_path


def failures(path: Path) -> int:
    return int(ElementTree.parse(path).getroot().attrib["failures"])


def installs(command: str) -> bool:
    return command.startswith("pip install")


BOTH = pytest.mark.parametrize("repository", ["natural", "adversarial"], indirect=True)
NATURAL = pytest.mark.parametrize("repository", ["natural"], indirect=True)


@NATURAL
def test_the_github_job_stops_where_the_gate_fails_and_reports_all_the_same(repository):
    job = yaml.safe_load(block("yaml", ".github/workflows"))["jobs"]["gate"]
    codes: list[int] = []
    for step in job["steps"]:
        if "run" not in step or installs(step["run"]):
            continue
        if not any(codes) or step.get("if") == "always()":
            done = shell(step["run"], repository, **job["env"], GITHUB_STEP_SUMMARY=str(repository / "summary.md"))
            codes.append(done.returncode)
    expected = int((repository / "expected").read_text())
    assert codes == [0, expected, 0]
    uploaded = next(step["with"]["path"].split() for step in job["steps"] if "upload" in step.get("uses", ""))
    assert all((repository / name).exists() for name in uploaded)
    assert failures(repository / "gate.xml") == expected
    summary = (repository / "summary.md").read_text()
    assert "stable maps" in summary
    assert "waived: sample 3" in summary


@NATURAL
def test_the_gitlab_job_fails_with_the_gate_and_leaves_its_artifacts(repository):
    job = yaml.safe_load(block("yaml", ".gitlab-ci.yml"))["explanations"]
    script = "\n".join(line for line in job["script"] if not installs(line))
    done = shell(script, repository, **job["variables"])
    assert done.returncode == int((repository / "expected").read_text()), done.stderr
    assert shell("\n".join(job["after_script"]), repository).returncode == 0
    for name in (*job["artifacts"]["paths"], job["artifacts"]["reports"]["junit"]):
        assert (repository / name).exists()


@BOTH
def test_the_make_target_judges_and_computes_again_only_for_a_new_checkpoint(repository):
    (repository / "Makefile").write_text(block("make", "check-explanations"))
    expected = int((repository / "expected").read_text())
    done = shell("make check-explanations", repository)
    assert bool(done.returncode) == bool(expected), done.stderr
    before = (repository / "bounds.csv").stat().st_mtime_ns
    assert "attrcert bound" in done.stdout
    again = shell("make check-explanations", repository)
    assert "attrcert bound" not in again.stdout
    assert (repository / "bounds.csv").stat().st_mtime_ns == before
