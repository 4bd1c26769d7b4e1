"""Whoever computes the batches, the rows are the same; a worker that is killed costs time, not rows."""

import csv
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
from reference.program import attrcert

from attrcert.errors import UsageError
from attrcert.running.engines.engine import DEATHS, Died, Done, EngineError, Hand, Indices, WorkersDiedError, employ
from attrcert.running.engines.local_workers import Processes
from attrcert.running.opening.runs import Source
from attrcert.settings.computing import RunOptions
from attrcert.settings.sources import DataSpec, ModelSpec
from attrcert.settings.tasks import BoundConfig

BATCHES = [(0, 1), (2, 3), (4,), (5, 6)]
QUICK = ("bound", "--limit", 16, "--batch-size", 2, "--eps", "0.1,0.2", "--quiet")
SINGLY = ("bound", "--limit", 16, "--batch-size", 1, "--eps", "0.1,0.2")


@dataclass
class Puppet:
    """A worker that dies of some of what it is given."""

    given: list[Indices] = field(default_factory=list)
    dismissed: bool = False

    def give(self, indices: Indices) -> None:
        self.given.append(indices)

    def dismiss(self) -> None:
        self.dismissed = True


@dataclass
class Puppets:
    """`deaths` says how many workers a batch kills; the last one who was given something is heard first."""

    deaths: Counter[Indices] = field(default_factory=Counter)
    hired: list[Puppet] = field(default_factory=list)
    most: int = 0

    room = 99

    def hire(self) -> Hand:
        self.hired.append(Puppet())
        return self.hired[-1]

    def hear(self, busy: Sequence[Hand]) -> tuple[Hand, Done | Died]:
        self.most = max(self.most, len(busy))
        hand = busy[-1]
        assert isinstance(hand, Puppet)
        batch = hand.given[-1]
        if self.deaths[batch]:
            self.deaths[batch] -= 1
            return hand, Died("killed")
        return hand, Done([{"index": index} for index in batch], {}, [])


def indices(done: Sequence[Done]) -> list[int]:
    return sorted(int(row["index"]) for one in done for row in one.rows)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_batch_is_done_once_by_no_more_workers_than_asked_for(workers):
    crew = Puppets()
    done = list(employ(crew, BATCHES, workers, lambda message: None))
    assert indices(done) == list(range(7))
    assert (len(crew.hired), crew.most) == (workers, workers)
    assert all(hand.dismissed for hand in crew.hired)


def test_the_batch_of_a_dead_worker_is_given_to_another_and_told():
    crew, told = Puppets(Counter({(2, 3): DEATHS - 1})), []
    done = list(employ(crew, BATCHES, 2, told.append))
    assert indices(done) == list(range(7))
    assert len(told) == DEATHS - 1
    assert "2 samples are given to another" in told[0]
    assert len(crew.hired) == 2 + DEATHS - 1


def test_a_batch_that_kills_every_worker_ends_the_run_with_the_samples_name():
    crew = Puppets(Counter({(2, 3): DEATHS}))
    found: list[Done] = []
    with pytest.raises(EngineError, match="the batch that begins with sample 2"):
        found.extend(employ(crew, BATCHES, 1, lambda message: None))
    assert crew.hired[-1].given[-1] == (2, 3)


def test_workers_are_dismissed_when_nobody_listens_any_more():
    crew = Puppets()
    working = employ(crew, BATCHES, 2, lambda message: None)
    next(working)
    working.close()
    assert crew.hired
    assert all(hand.dismissed for hand in crew.hired)


def rows_of(path: Path) -> dict[tuple[str, str], dict[str, str]]:
    with path.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    found = {(row["index"], row["eps"]): row for row in rows}
    assert len(found) == len(rows), "a row is there twice"
    return found


def assert_same_rows(one: Path, other: Path) -> None:
    ours, theirs = rows_of(one), rows_of(other)
    assert ours.keys() == theirs.keys()
    for key, row in ours.items():
        for name, text in row.items():
            if name in ("T_e", "xi_upper", "T_c_deg", "g_norm"):
                assert float(text or 0) == pytest.approx(float(theirs[key][name] or 0), rel=1e-5), (key, name)
            elif name in ("status", "label", "predicted", "seed", "norm", "attribution"):
                assert text == theirs[key][name]


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Path:
    """The rows of one process."""
    path = tmp_path_factory.mktemp("alone") / "rows.csv"
    done = attrcert(*QUICK, "--out", path)
    assert done.code == 0, done.err
    return path


@dataclass(frozen=True)
class Started:
    process: subprocess.Popen
    out: Path

    def finish(self) -> str:
        """Its talk; the exit code must be 0."""
        talk = self.process.communicate(timeout=300)[1]
        assert self.process.returncode == 0, talk
        return talk


@pytest.fixture
def started(tmp_path) -> Callable[..., Started]:
    """The program in a process of its own, as a scheduler starts it."""

    def start(*words: object, program: Sequence[object] = QUICK[:-1], out: Path = tmp_path / "rows.csv") -> Started:
        command = [str(word) for word in (sys.executable, "-m", "attrcert", *program, *words, "--out", out)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        return Started(subprocess.Popen(command, text=True, env=environment, **pipes), out)

    return start


def test_the_rows_of_one_actor_are_those_of_one_process(started, alone):
    run = started("--engine", "ray", "--workers", 1)
    run.finish()
    assert_same_rows(run.out, alone)


def workers_of(parent: int, mark: str) -> list[int]:
    """The processes below `parent` whose command line has the mark."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and (entry / "stat").exists():
            stat = (entry / "stat").read_text()
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    below, level = [], [parent]
    while level:
        level = [pid for pid, above in parents.items() if above in level]
        below += level
    return [pid for pid in below if mark in (Path("/proc") / str(pid) / "cmdline").read_text()]


def wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)


@pytest.mark.parametrize(("engine", "mark"), [("local", "spawn_main"), ("ray", "ray::Worker")])
def test_two_workers_give_the_rows_of_one_process_though_one_is_killed_in_the_middle(started, alone, engine, mark):
    run = started("--engine", engine, "--workers", 2, program=SINGLY)
    wait_for(lambda: len(workers_of(run.process.pid, mark)) >= 2)  # one may be at work before the other has begun
    wait_for(lambda: run.out.exists() and run.out.read_text().count("\n") > 2)
    os.kill(workers_of(run.process.pid, mark)[0], signal.SIGKILL)
    talk = run.finish()
    assert "a worker died" in talk
    assert_same_rows(run.out, alone)


@pytest.mark.parametrize("engine", ["local", "ray"])
def test_a_scheduler_that_ends_the_program_leaves_a_run_that_says_how_to_go_on(started, alone, engine):
    run = started("--engine", engine, "--workers", 2, program=SINGLY)
    wait_for(lambda: run.out.exists() and run.out.read_text().count("\n") > 2)
    run.process.send_signal(signal.SIGTERM)
    talk = run.process.communicate(timeout=120)[1]
    assert run.process.returncode == 4, talk
    assert "Go on with:" in talk
    started("--resume", program=SINGLY, out=run.out).finish()
    assert_same_rows(run.out, alone)


def test_a_run_whose_ray_head_is_gone_is_incomplete_and_says_how_to_go_on(started, monkeypatch):
    """Ray itself ends the process that talks to it."""
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "2")
    long = ("bound", "--limit", 250, "--norm", "linf", "--batch-size", 1)
    run = started("--engine", "ray", "--workers", 1, program=long)
    wait_for(lambda: run.out.exists() and run.out.read_text().count("\n") > 2)
    os.kill(workers_of(run.process.pid, "gcs_server")[0], signal.SIGKILL)
    talk = run.process.communicate(timeout=120)[1]
    assert run.process.returncode == 4, talk
    assert "as it does when Ray's head is gone" in talk
    assert "the same command with --resume goes on" in talk
    assert "Traceback" not in talk
    assert 2 <= len(rows_of(run.out)) < 250
    assert json.loads(Path(f"{run.out}.json").read_text())["state"] != "complete"


@pytest.mark.parametrize(("alive", "ended"), [([True, True, False], True), ([True, True, True, True], False)])
def test_a_ray_whose_own_process_is_gone_is_not_waited_for(monkeypatch, alive, ended):
    """A result comes at the fifth look, if anybody looks so often."""
    import ray

    from attrcert.running.engines import ray_workers

    looks, asked = iter([([], 0)] * 4 + [(["result"], 0)]), iter(alive)
    monkeypatch.setattr(ray, "wait", lambda pending, **_: next(looks))
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(get_node_id=lambda: "here"))
    others = {"NodeID": "elsewhere", "Alive": False}
    monkeypatch.setattr(ray, "nodes", lambda: [others, {"NodeID": "here", "Alive": next(asked)}])
    if ended:
        with pytest.raises(WorkersDiedError, match="Ray's own process on this machine is gone"):
            ray_workers._first_of(["result"])
    else:
        assert ray_workers._first_of(["result"]) == "result"


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:99999999"])
def test_an_address_where_nobody_is_is_refused_at_once(address):
    done = attrcert("bound", "--limit", 2, "--engine", "ray", "--ray-address", address)
    assert done.code == 2
    assert f"no Ray cluster can be reached at {address}" in done.said


def test_an_address_that_answers_is_left_to_ray():
    from attrcert.running.engines.ray_workers import check_answers

    with socket.create_server(("127.0.0.1", 0)) as server:
        check_answers(f"127.0.0.1:{server.getsockname()[1]}")
    check_answers("auto")


def test_what_one_engine_left_another_resumes(started, alone, tmp_path):
    half = tmp_path / "half.csv"
    lines = alone.read_text().splitlines(keepends=True)
    half.write_text("".join(lines[:10]) + lines[10][:20])  # four samples, half of the fifth, and a torn line
    manifest = Path(f"{alone}.json").read_text().replace('"complete"', '"interrupted"')
    Path(f"{half}.json").write_text(manifest)
    run = started("--engine", "ray", "--workers", 2, "--resume", out=half)
    run.finish()
    assert_same_rows(half, alone)
    assert half.read_text().splitlines()[1:9] == alone.read_text().splitlines()[1:9]


def test_perturbations_come_home_from_workers(started, tmp_path):
    from safetensors.torch import load_file

    attack = ("attack", "--limit", 4, "--batch-size", 2, "--steps", 3, "--random-draws", 5, "--restarts", 0)
    for name, words in (("one", ()), ("two", ("--workers", 2))):
        kept = ("--save-deltas", tmp_path / f"{name}.safetensors")
        started(*words, *kept, program=attack, out=tmp_path / f"{name}.csv").finish()
    one, two = (load_file(tmp_path / f"{name}.safetensors") for name in ("one", "two"))
    assert one.keys() == two.keys()
    assert all((one[key] - two[key]).norm() <= 1e-4 * (1e-6 + one[key].norm()) for key in one)


DEADLY = """
import multiprocessing, os
from torch import nn

def factory():
    if multiprocessing.parent_process() is not None:
        os._exit(9)
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 4), nn.Softplus(), nn.Linear(4, 10))
"""


def test_a_run_whose_workers_die_one_after_the_other_is_incomplete(tmp_path):
    from safetensors.torch import save_file
    from torch import nn

    (tmp_path / "deadly.py").write_text(DEADLY)
    weights = nn.Sequential(nn.Flatten(), nn.Linear(784, 4), nn.Softplus(), nn.Linear(4, 10)).state_dict()
    save_file(weights, tmp_path / "weights.safetensors")
    arch = f"{tmp_path / 'deadly.py'}:factory"
    words = ("bound", tmp_path / "weights.safetensors", "fashion-test", "--arch", arch, "--limit", 4, "--workers", 2)
    done = attrcert(*words, "--out", tmp_path / "rows.csv")
    assert done.code == 4
    assert f"{DEATHS} workers died of the batch that begins with sample" in done.said
    assert "ended with code 9" in done.said
    assert "what was finished can be resumed" in done.said


@pytest.mark.parametrize(("asked", "workers", "threads"), [(None, 2, 4), (None, 99, 1), (3, 2, 3)])
def test_local_workers_share_the_cores_unless_threads_are_asked_for(monkeypatch, asked, workers, threads):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    source = Source(ModelSpec(), DataSpec(), BoundConfig(), RunOptions(threads=asked))
    assert Processes(source, False, workers).source_each.options.threads == threads


def test_a_run_has_the_threads_that_it_asks_for():
    script = (
        "import torch, sys\nfrom attrcert import *\n"
        "options = RunOptions(threads=int(sys.argv[1]))\n"
        "for act in (lambda: open_run(ModelSpec(), DataSpec(limit=1), BoundConfig(), options),\n"
        "            lambda: bound('fashion-natural', limit=1, options=options)):\n"
        "    torch.set_num_threads(2)\n"
        "    act()\n"
        "    print(torch.get_num_threads())\n"
    )
    for threads in ("1", "3"):
        done = subprocess.run([sys.executable, "-c", script, threads], capture_output=True, text=True, check=True)
        assert done.stdout.split() == [threads, threads]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--threads", 0), "must be at least 1, got 0"),
        (("--engine", "spark"), "--engine must be one of local, ray, got 'spark'"),
        (("--ray-address", "auto"), "go with --engine ray"),
        (("--gpus-per-worker", 1), "go with --engine ray"),
        (("--workers", 0), "--workers"),
    ],
)
def test_an_engine_that_makes_no_sense_is_refused(words, said):
    done = attrcert("bound", "--limit", 2, *words)
    assert done.code == 2
    assert said in done.said


@pytest.mark.parametrize(
    ("there", "threads", "gpus", "room"),
    [
        ({"CPU": 8.0}, None, 0.0, 8),
        ({"CPU": 8.0}, 3, 0.0, 2),
        ({"CPU": 8.0, "GPU": 2.0}, None, 1.0, 2),
        ({"CPU": 8.0, "GPU": 2.0}, 8, 1.0, 1),
        ({"CPU": 8.0, "GPU": 2.0}, None, 0.25, 8),
        ({"CPU": 8.0}, None, 1.0, 0),
        ({"CPU": 8.0}, 9, 0.0, 0),
        ({}, None, 0.0, 0),
    ],
)
def test_no_more_actors_are_hired_than_the_cluster_can_place(there, threads, gpus, room, monkeypatch):
    """One without a place would be waited for without end."""
    from attrcert.running.engines.ray_workers import Actors

    monkeypatch.setattr("ray.is_initialized", lambda: True)
    monkeypatch.setattr("ray.cluster_resources", lambda: there)
    crew = Actors(Source(ModelSpec(), DataSpec(), BoundConfig(), RunOptions(threads=threads)), False, None, gpus)
    if room:
        assert crew.room == room
    else:
        with pytest.raises(UsageError, match=f"{gpus:g} GPUs for a worker, got"):
            _ = crew.room
