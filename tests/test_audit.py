"""`attrcert audit`: one verdict of all parts, which goes on where it stopped and is not better than what was found."""

import csv
import itertools
import json
import time
import warnings

import numpy as np
import pytest
import torch
from PIL import Image
from reference.program import attrcert as program
from safetensors.torch import save_file
from torch import nn

import attrcert
from attrcert.auditing.auditing import Audited, Listener, audit
from attrcert.auditing.verdicts import Grounds, verdict
from attrcert.cli.audit import STYLES
from attrcert.errors import ResumeError, UsageError
from attrcert.loading.architectures import softplus_mlp
from attrcert.running.checks.findings import Level
from attrcert.running.opening.opening import data_spec, examined, model_spec
from attrcert.running.opening.runs import Run
from attrcert.settings.auditing import Auditing, Yard
from attrcert.settings.declared import made

ARGS = {"inputs": 36, "classes": 3, "hidden": 5}
QUICK = {"steps": 2, "restarts": 0, "random_draws": 2, "eps_l2": 0.1, "eps_linf": 0.01, "metric": "degrees"}
PARTS = ["attack-l2", "smoothed", "attack-linf", "proved-l2", "proved-linf"]


def network() -> nn.Module:
    torch.manual_seed(0)
    return softplus_mlp(**ARGS)


def images(n: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (n, 1, 6, 6), dtype=np.uint8)


def audited(folder, *, n: int = 3, **settings):
    given = {**QUICK, "out": folder, **settings}
    return audit(
        Audited(model_spec(network()), data_spec((images(n), np.arange(n) % 3)), made(Auditing, given), given),
        Listener(),
    )


@pytest.fixture(scope="module")
def words(tmp_path_factory) -> list:
    """The program's arguments for a tiny model and its data."""
    home = tmp_path_factory.mktemp("audit")
    save_file(network().state_dict(), home / "net.safetensors")
    np.savez(home / "data.npz", images=images(6), labels=np.arange(6) % 3)
    quick = itertools.chain.from_iterable((f"--{name.replace('_', '-')}", value) for name, value in QUICK.items())
    arch = ("--arch", "softplus-mlp", *(f"--arch-arg={key}={value}" for key, value in ARGS.items()))
    return ["audit", home / "net.safetensors", home / "data.npz", *arch, *quick, "--threads", 1]


@pytest.fixture(scope="module")
def whole(words, tmp_path_factory):
    """A whole audit of them, and its folder."""
    folder = tmp_path_factory.mktemp("whole") / "audit"
    return program(*words, "-o", folder), folder


def samples(rows) -> int:
    return len({row["index"] for row in rows})


@pytest.fixture
def no_page(monkeypatch):
    """Its figures take longer than all else."""
    monkeypatch.setattr("attrcert.auditing.auditing.page", lambda *args: "")


def rows_in(path) -> list[dict[str, str]]:
    with path.open() as stream:
        return list(csv.DictReader(stream))


def test_an_audit_computes_every_part_on_all_samples_and_says_what_each_rests_on(whole):
    done, folder = whole
    assert done.code == 0, done.err
    assert "Is the saliency stable?" in done.shown
    assert "reached, so the worst case is at least that" in done.shown
    assert "(proved, on 6 of 6 samples" in done.shown
    assert "(confidence 99.9 % for each)" in done.shown
    assert f"Samples that were used: {', '.join(f'{name} 6' for name in PARTS)}." in done.shown
    assert (folder / "verdict.md").read_text().split() == done.out.split()
    for name in PARTS:
        manifest = json.loads((folder / f"{name}.csv.json").read_text())
        assert (manifest["state"], manifest["samples"]) == ("complete", "0-5")


def test_the_checks_are_shown_and_kept(whole):
    done, folder = whole
    kept = json.loads((folder / "audit.json").read_text())["findings"]
    assert {"accuracy", "kinks", "second derivative"} <= {one["check"] for one in kept}
    assert all(f"{one['level']}: {one['check']}: {one['message']}" in done.said for one in kept)


def test_the_page_begins_with_the_verdict(whole):
    done, folder = whole
    page = (folder / "report.html").read_text()
    first = done.out.splitlines()[0]
    assert 0 < page.index('<section id="verdict"') < page.index(f"<p>{first}</p>") < page.index('<section id="runs"')


def test_the_rows_are_those_of_the_commands(whole, words):
    _, folder = whole
    alone = program("attack", *words[1:], "--eps", 0.1, "--format", "csv", "-q")
    assert alone.code == 2  # --eps-l2 is the audit's own
    plain = [word for word in words[1:] if word not in ("--eps-l2", "--eps-linf", 0.1, 0.01)]
    alone = program("attack", *plain, "--eps", 0.1, "--format", "csv", "-q")
    ours = {row["index"]: row for row in rows_in(folder / "attack-l2.csv")}
    assert len(alone.rows) == len(ours) == 6
    for row in alone.rows:
        assert float(ours[row["index"]]["T_e"]) == pytest.approx(float(row["T_e"]), rel=1e-3)
        assert float(ours[row["index"]]["T_hat_e"]) == pytest.approx(float(row["T_hat_e"]), rel=1e-3)


def test_the_files_are_resumed_and_judged_by_the_other_commands(whole, words):
    _, folder = whole
    plain = [word for word in words[1:] if word not in ("--eps-l2", "--eps-linf", 0.1, 0.01)]
    again = program(
        "attack", *plain, "--eps", 0.1, "--out", folder / "attack-l2.csv", "--resume", "-q", "--format", "csv"
    )
    assert again.code == 0, again.err
    assert again.rows == sorted(rows_in(folder / "attack-l2.csv"), key=lambda row: int(row["index"]))
    judged = program("gate", folder / "proved-l2.csv", "--require", "fraction(status == ok) >= 0")
    assert judged.code in (0, 2), judged.err  # a rule that cannot fail is refused


def test_an_audit_goes_on_where_the_time_was_over(tmp_path, monkeypatch, no_page):
    with monkeypatch.context() as patched:
        patched.setattr("attrcert.auditing.auditing.spend", lambda *args, **how: None)
        first = audited(tmp_path / "a", n=5, batch_size=2)
    assert {name: samples(rows) for name, rows in first.rows.items()} == dict(zip(PARTS, (2, 2, 2, 1, 1), strict=True))
    before = {name: (tmp_path / "a" / f"{name}.csv").read_bytes() for name in PARTS}
    second = audited(tmp_path / "a", n=5, batch_size=2, minutes=9)
    assert {name: samples(rows) for name, rows in second.rows.items()} == dict.fromkeys(PARTS, 5)
    for name, content in before.items():
        assert (tmp_path / "a" / f"{name}.csv").read_bytes().startswith(content)


def test_another_audit_in_the_folder_is_refused_by_name_and_replaced_where_that_is_asked(tmp_path, no_page):
    audited(tmp_path / "a", n=1)
    with pytest.raises(ResumeError, match="steps was 2 and is 3"):
        audited(tmp_path / "a", n=1, steps=3)
    again = audited(tmp_path / "a", n=1, steps=3, overwrite=True)
    assert {row["attack_steps"] for row in again.rows["attack-l2"]} == {3}


def test_a_folder_of_others_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(UsageError, match="files that are not of an audit"):
        audited(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    with pytest.raises(UsageError, match="must be a folder or not be there yet"):
        audited(tmp_path / "mine.txt")


def test_an_interrupt_leaves_what_was_done_and_says_how_to_go_on(words, tmp_path, monkeypatch, no_page):
    batches, plain = [], Run.batch

    def interrupted(self, indices, **how):
        batches.append(indices)
        if len(batches) == 2:
            raise KeyboardInterrupt
        return plain(self, indices, **how)

    folder = tmp_path / "a"
    with monkeypatch.context() as patched:
        patched.setattr(Run, "batch", interrupted)
        done = program(*words, "-o", folder)
    assert done.code == 4
    assert f"interrupted: what was computed is in {folder}. Go on with: attrcert audit" in done.said
    assert json.loads((folder / "attack-l2.csv.json").read_text())["state"] == "interrupted"
    assert len(rows_in(folder / "attack-l2.csv")) == len(batches[0])
    after = program(*words, "-o", folder, "-q")
    assert (after.code, after.err) == (0, "")
    assert len(rows_in(folder / "attack-l2.csv")) == 6


class MaxPooled(nn.Module):
    """Max-pooling over near ties: its gradient jumps in every ball."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.Softplus(5), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


def test_the_verdict_of_a_network_with_max_pooling_says_what_it_cannot_say_after_the_answer(no_page):
    torch.manual_seed(0)
    with warnings.catch_warnings(record=True):
        found = attrcert.audit(MaxPooled(), images(6), **{**QUICK, "steps": 20, "eps_l2": 0.3, "eps_linf": 0.05})
    assert found.folder is None
    assert found.verdict[0].startswith("Is the saliency stable? No")
    assert found.verdict[1].startswith("Do not rely on the first-order bounds of this network: attacks reached up to")
    assert "max-pooling" in found.verdict[1]
    told = str(found)
    assert "First-order bounds allow" not in told
    assert "can tell, yes" not in told
    assert set(found.rows) == {"attack-l2", "smoothed", "attack-linf"}
    assert all("no rule for max_pool2d" in found.left_out[name] for name in ("proved-l2", "proved-linf"))


def reached(angle: float, index: int, **cells) -> dict:
    usual = {"status": "ok", "norm": "l2", "eps": 0.1, "attribution": "saliency", "correct": True, "T_c_deg": 5.0}
    return {"index": index, **usual, "T_hat_c_deg": angle, "violated": False, "tightness": 0.9, **cells}


def said_of(rows, warned=None) -> tuple[str, ...]:
    return verdict(Grounds({"attack-l2": rows}, Yard(784), warned or {}, {}))


def test_where_only_the_smoothed_map_was_reached_it_is_asked_of_the_map():
    certified = {"index": 0, "status": "ok", "attribution": "saliency, unit"}
    assert Grounds({"smoothed": [certified]}, Yard(784), {}, {}).map == "saliency"


@pytest.mark.parametrize(
    ("angles", "words"),
    [
        ([5.0] * 20, "As far as these attacks can tell, yes"),
        ([5.0] * 18 + [40.0] * 2, "Not for every sample: within l2 0.1 an attack turned 10 % of the maps"),
        (
            [40.06] * 20,
            "No: within l2 0.1 an attack turned 100 % of the maps by more than 30 degrees, half of all by 40.0 degrees",
        ),
        ([5.0] * 4, "That is not shown"),
    ],
)
def test_the_answer_is_as_good_as_what_attacks_reached(angles, words):
    sentences = said_of([reached(angle, i) for i, angle in enumerate(angles)])
    assert any(sentence.startswith("Is the saliency stable?") and words in sentence for sentence in sentences)


def test_refuted_bounds_and_a_far_twin_take_the_yes_away():
    rows = [reached(5.0, i, violated=True, tightness=1.5) for i in range(20)]
    assert said_of(rows)[1].startswith(
        "Do not rely on the first-order bounds of this network: attacks reached up to 1.5 times"
    )
    assert not any("tell, yes" in sentence or "First-order bounds allow" in sentence for sentence in said_of(rows))
    good = [reached(5.0, i) for i in range(20)]
    assert not any("tell, yes" in sentence for sentence in said_of(good, {"softplus twin": "far"}))


def test_wrong_few_and_unusable_samples_are_told_right_after_the_answer():
    rows = [reached(5.0, i, correct=False) for i in range(3)] + [{"index": 9, "status": "error:shape"}]
    sentences = said_of(rows)
    assert sentences[0].startswith("Is the saliency stable? That is not shown")
    after = " ".join(sentences[1:4])
    assert "Few samples: attack-l2 4" in after
    assert "wrong on 3 of 3 samples" in after
    assert "1 samples could not be used" in after


def test_a_broken_promise_is_the_first_thing_that_is_said():
    rows = [reached(5.0, 0, guarantee="proved", violated_proved=True)]
    assert said_of(rows)[0].startswith("Something is wrong")


@pytest.mark.parametrize(("d", "sizes"), [(784, (0.032, 0.22)), (3072, (0.063, 0.43)), (150528, (0.44, 3.0))])
def test_sizes_in_l2_are_rounding_to_8_bits_and_two_grey_levels_a_pixel(d, sizes):
    assert Auditing().attacked("l2", Yard(d)) == sizes
    assert Auditing().attacked("linf", Yard(d)) == (2 / 255, 8 / 255)
    assert Auditing().proved("l2", Yard(d))[-1] == sizes[0]
    assert Auditing(eps_l2=(0.01,)).proved("l2", Yard(d)) == (1e-4, 1e-3, 0.01)


def test_features_are_measured_by_their_spread_and_not_in_grey_levels():
    yard = Yard(16, spread=2.0)
    assert Auditing().attacked("l2", yard) == (0.08, 0.8)  # 1 % and 10 % of 2, times 4
    assert Auditing().attacked("linf", yard) == (0.02, 0.2)
    assert Auditing().proved("linf", yard)[-1] == 0.02
    said = " ".join(verdict(Grounds({"attack-l2": [reached(5.0, 0, eps=0.08)]}, yard, {}, {})))
    assert "l2 0.08 by 1" in said
    assert "standard deviation (2 on average)" in said
    assert not any(word in said for word in ("grey", "JPEG", "/255"))


def test_a_table_is_audited_at_parts_of_its_spread(no_page, monkeypatch):
    tasks = []
    monkeypatch.setattr(Run, "batch", _first_only(Run.batch, tasks))
    table = np.random.default_rng(1).normal(0, [1.0, 10.0, 100.0], (40, 3)).astype(np.float32)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Softplus(), nn.Linear(4, 2))
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    assert net.training
    quick = {**QUICK, "eps_l2": None, "eps_linf": None}
    with warnings.catch_warnings(record=True):
        attrcert.audit(net, (table, np.arange(40) % 2), **{k: v for k, v in quick.items() if v is not None}, limit=2)
    spread = float(np.sqrt((table.astype(float).std(axis=0) ** 2).mean()))
    (l2,) = [task for task in tasks if task.command == "attack" and task.perturbation.norm == "l2"][:1]
    assert l2.perturbation.eps == pytest.approx([0.01 * spread * 3**0.5, 0.1 * spread * 3**0.5], rel=0.05)
    assert net.training
    for name, tensor in net.state_dict().items():  # batch norm in train mode would have counted what it saw
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0)


def _first_only(batch, tasks):
    def noted(self, indices, **how):
        tasks.append(self.config)
        return batch(self, indices, **how)

    return noted


def test_every_level_of_a_finding_can_be_shown():
    assert set(STYLES) == set(Level)


def test_a_part_that_took_too_long_is_not_tried_again_in_less_time(tmp_path, monkeypatch, no_page):
    def slow(self, indices, **how):
        if self.config.command == "bound":
            time.sleep(3)
        return batch(self, indices, **how)

    batch = Run.batch
    monkeypatch.setattr(Run, "batch", slow)
    first = audited(tmp_path / "audit", n=1, minutes=0.06)
    assert "not done in" in first.left_out["proved-l2"]
    again = audited(tmp_path / "audit", n=1, minutes=0.05)
    assert "an earlier call did no sample of it" in again.left_out["proved-l2"]


def test_what_has_no_effect_is_refused(words, tmp_path):
    done = program(*words, "-o", tmp_path / "a", "--ig-steps", 4)
    assert done.code == 2
    assert "--ig-steps has no effect here: it is for integrated-gradients" in done.said
    assert not (tmp_path / "a").exists()


def test_attacks_on_predictions_are_no_audit_of_maps(words, tmp_path):
    done = program(*words, "-o", tmp_path / "a", "--attack", "euclidean,prediction")
    assert done.code == 2
    assert "an audit judges maps, so its --attack must move maps, got prediction" in done.said
    assert "attrcert attack --attack prediction" in done.said
    assert not (tmp_path / "a").exists()


def test_too_little_time_is_an_error_that_says_so(tmp_path):
    class Slow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            time.sleep(0.2)
            return self.inner(x)

    with pytest.raises(UsageError, match=r"checks of the model alone take longer than --minutes 0\.005"):
        attrcert.audit(Slow(), images(2), out=tmp_path / "a", minutes=0.005)


def test_an_input_has_as_many_numbers_as_the_model_takes(tmp_path):
    for place, image in enumerate(images(2)):
        Image.fromarray(image[0]).save(tmp_path / f"{place}.png")
    assert examined(model_spec(MaxPooled()), data_spec(tmp_path), device="cpu", dtype="float32")[1] == 36
