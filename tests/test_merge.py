"""Shards of a run are its samples once each, and their CSVs joined are the run's."""

import csv
import errno
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.program import attrcert
from safetensors.numpy import load_file, save_file

from attrcert.errors import UsageError
from attrcert.loading.datasets import load_data
from attrcert.saved.merging import merge
from attrcert.settings.sources import DataSpec
from attrcert.vocabulary import indices_text, parse_indices, parse_shard

RUN = ("bound", "--limit", 5, "--eps", "0.1,0.2", "--batch-size", 1, "--quiet")


@given(st.sets(st.integers(0, 60), min_size=1))
def test_indices_are_read_back_as_they_were_written(indices):
    assert parse_indices(indices_text(indices)) == tuple(sorted(indices))


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "1/0", "-1/2", "1/2/3", ""])
def test_a_shard_is_one_of_n(text):
    with pytest.raises(UsageError, match="I/N with I from 1 to N"):
        parse_shard(text)


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_shards_have_every_selected_sample_once_and_are_alike_in_size(n):
    shards = [load_data(DataSpec(indices=(9, 3, 5, 200, 4, 1, 0), shard=(i, n))).indices for i in range(1, n + 1)]
    assert sorted(index for shard in shards for index in shard) == [0, 1, 3, 4, 5, 9, 200]
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


def test_a_shard_without_a_sample_is_refused():
    with pytest.raises(UsageError, match="shard 3/3 of 2 samples has none"):
        load_data(DataSpec(limit=2, shard=(3, 3)))


@pytest.fixture(scope="module")
def shards(tmp_path_factory) -> Path:
    """A folder with the whole run and its two shards."""
    home = tmp_path_factory.mktemp("shards")
    for name, words in (("whole", ()), ("one", ("--shard", "1/2")), ("two", ("--shard", "2/2"))):
        done = attrcert(*RUN, *words, "--out", home / f"{name}.csv")
        assert done.code == 0, done.err
    return home


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return [{name: text for name, text in row.items() if name != "seconds"} for row in csv.DictReader(stream)]


def test_merged_shards_are_the_whole_run_and_its_manifest_is_resumable(shards, tmp_path):
    out = tmp_path / "merged.csv"
    done = attrcert("merge", shards / "two.csv", shards / "one.csv", "--out", out)
    assert done.code == 0, done.err
    assert "10 rows of 5 samples from 2 files" in done.said
    assert rows_of(out) == rows_of(shards / "whole.csv")
    ours, theirs = (json.loads(Path(f"{path}.json").read_text()) for path in (out, shards / "whole.csv"))
    assert ours["identity"] == theirs["identity"]
    assert (ours["state"], ours["rows"], ours["status"]) == ("complete", 10, theirs["status"])
    assert {one["file"]: one["shard"] for one in ours["merged"]} == {
        str(shards / "one.csv"): [1, 2],
        str(shards / "two.csv"): [2, 2],
    }
    resumed = attrcert(*RUN, "--out", out, "--resume")
    assert resumed.code == 0, resumed.err
    assert rows_of(out) == rows_of(shards / "whole.csv")


def test_missing_samples_are_told_and_the_run_without_a_shard_computes_them(shards, tmp_path):
    out = tmp_path / "merged.csv"
    done = attrcert("merge", shards / "one.csv", "--out", out)
    assert done.code == 4
    assert "missing: 2 samples: 1,3" in done.said
    assert attrcert("gate", out, "--require", "mean(T_e) >= 1e-9").code == 4
    assert attrcert(*RUN, "--out", out, "--resume").code == 0
    by_sample = sorted(rows_of(out), key=lambda row: (int(row["index"]), row["eps"]))
    assert by_sample == rows_of(shards / "whole.csv")
    assert attrcert("gate", out, "--require", "mean(T_e) >= 1e-9").code == 0


def test_a_sample_that_a_kill_tore_apart_is_missing(shards, tmp_path):
    lines = (shards / "one.csv").read_text().splitlines(keepends=True)
    (tmp_path / "one.csv").write_text("".join(lines[:-1]))
    shutil.copy(shards / "one.csv.json", tmp_path / "one.csv.json")
    merged = merge([tmp_path / "one.csv", shards / "two.csv"])
    assert merged.missing == (4,)
    assert {row["index"] for row in merged.rows} == {0, 1, 2, 3}


def changed(shards: Path, folder: Path, **identity: object) -> Path:
    manifest = json.loads((shards / "two.csv.json").read_text())
    manifest["identity"] |= identity
    (folder / "two.csv.json").write_text(json.dumps(manifest))
    return Path(shutil.copy(shards / "two.csv", folder / "two.csv"))


def test_shards_of_different_runs_are_refused_with_what_differs(shards, tmp_path):
    other = changed(shards, tmp_path, norm="linf", checkpoint_sha256="other")
    done = attrcert("merge", shards / "one.csv", other, "--out", tmp_path / "m.csv")
    assert done.code == 2
    assert "norm is 'l2' in the first and 'linf' in the second; checkpoint_sha256 is" in done.said
    assert not (tmp_path / "m.csv").exists()


def test_rows_of_different_commands_are_refused_in_one_sentence(shards, attacked, tmp_path):
    done = attrcert("merge", shards / "one.csv", attacked / "one.csv", "--out", tmp_path / "m.csv")
    assert done.code == 2
    assert done.said.endswith("not shards of one run: the first has rows of bound and the second of attack")


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (("one.csv", "one.csv"), "sample 0 is in"),
        (("one.csv", "whole.csv"), "sample 0 is in"),
        (("one.csv", "none.csv"), "cannot be read"),
        (("bare.csv",), "has no manifest"),
    ],
)
def test_files_that_do_not_join_are_refused(shards, tmp_path, files, said):
    for name in files:
        if (shards / name).exists():
            shutil.copy(shards / name, tmp_path / name)
            shutil.copy(shards / f"{name}.json", tmp_path / f"{name}.json")
    shutil.copy(shards / "one.csv", tmp_path / "bare.csv")
    done = attrcert("merge", *(tmp_path / name for name in files), "--out", tmp_path / "m.csv")
    assert done.code == 2
    assert said in done.said
    assert not (tmp_path / "m.csv").exists()


def test_merging_overwrites_nothing_unasked(shards, tmp_path):
    out = tmp_path / "m.csv"
    out.write_text("mine")
    words = ("merge", shards / "one.csv", shards / "two.csv", "--out", out)
    done = attrcert(*words)
    assert (done.code, done.said) == (2, f"error: {out} exists hint: --overwrite replaces it")
    assert attrcert(*words, "--overwrite").code == 2  # not a file of attrcert's
    assert out.read_text() == "mine"


def test_a_merge_that_a_full_disk_stopped_is_done_again(shards, tmp_path, monkeypatch):
    def nearly_full(target: int, content: bytes) -> int:
        if len(content) < 2000:  # the lock and the header
            return write(target, content)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write = os.write
    words = ("merge", shards / "one.csv", shards / "two.csv", "--out", tmp_path / "m.csv")
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", nearly_full)
        done = attrcert(*words)
    assert done.code == 74
    assert "No space left on device" in done.said
    assert "merge again, with --overwrite" in done.said
    assert attrcert(*words, "--overwrite").code == 0
    assert rows_of(tmp_path / "m.csv") == rows_of(shards / "whole.csv")


ATTACK = ("attack", "--limit", 3, "--batch-size", 1, "--steps", 2, "--random-draws", 3, "--restarts", 0, "--quiet")


@pytest.fixture(scope="module")
def attacked(tmp_path_factory) -> Path:
    """A folder with an attack on three samples and its two shards, each with its perturbations in a folder of their own."""
    home = tmp_path_factory.mktemp("attacked")
    (home / "kept").mkdir()
    for name, words in (("whole", ()), ("one", ("--shard", "1/2")), ("two", ("--shard", "2/2"))):
        kept = ("--save-deltas", home / "kept" / f"{name}.safetensors")
        done = attrcert(*ATTACK, *words, "--out", home / f"{name}.csv", *kept)
        assert done.code == 0, done.err
    return home


def test_perturbations_of_shards_are_joined_and_the_merged_run_is_resumed_with_them(attacked, tmp_path):
    out = tmp_path / "merged.csv"
    done = attrcert("merge", attacked / "one.csv", attacked / "two.csv", "--out", out)
    assert done.code == 0, done.err
    assert "merged.safetensors" in done.said
    ours, theirs = load_file(tmp_path / "merged.safetensors"), load_file(attacked / "kept" / "whole.safetensors")
    assert ours.keys() == theirs.keys()
    assert all((ours[name] == theirs[name]).all() for name in ours)
    page = attrcert("report", out, "-o", tmp_path / "page.html")
    assert page.code == 0, page.err
    assert "no pictures" not in (tmp_path / "page.html").read_text()
    again = attrcert(*ATTACK, "--out", out, "--save-deltas", tmp_path / "merged.safetensors", "--resume")
    assert again.code == 0, again.err


def test_a_merge_without_a_shards_perturbations_is_refused_before_anything_is_written(attacked, tmp_path):
    for name in ("one", "two"):
        shutil.copy(attacked / f"{name}.csv", tmp_path)
        shutil.copy(attacked / f"{name}.csv.json", tmp_path)
    done = attrcert("merge", tmp_path / "one.csv", tmp_path / "two.csv", "--out", tmp_path / "merged.csv")
    assert done.code == 2
    assert "was run with --save-deltas, and there is no" in done.said
    assert not (tmp_path / "merged.csv").exists()


def test_merged_perturbations_replace_nothing_unasked(attacked, tmp_path):
    other = tmp_path / "merged.safetensors"
    other.write_text("mine")
    done = attrcert("merge", attacked / "one.csv", attacked / "two.csv", "--out", tmp_path / "merged.csv")
    assert done.code == 2
    assert (other.read_text(), (tmp_path / "merged.csv").exists()) == ("mine", False)


def test_jacobians_of_shards_are_joined(tmp_path):
    for i, index in ((1, 0), (2, 1)):
        words = ("--shard", f"{i}/2", "--save-jacobian", index, "--out", tmp_path / f"{i}.csv")
        done = attrcert("bound", "--limit", 2, "--quiet", *words)
        assert done.code == 0, done.err
    done = attrcert("merge", tmp_path / "1.csv", tmp_path / "2.csv", "--out", tmp_path / "m.csv")
    assert done.code == 0, done.err
    kept = load_file(tmp_path / "m.csv.jacobians.safetensors")
    assert {name for name in kept if name.endswith("jacobian")} == {"index=0/jacobian", "index=1/jacobian"}


def test_a_merge_replaces_no_arrays_of_others_and_keeps_none_of_an_earlier_run(attacked, tmp_path):
    shards, out = (attacked / "one.csv", attacked / "two.csv"), tmp_path / "m.csv"
    weights, jacobians = tmp_path / "m.safetensors", tmp_path / "m.csv.jacobians.safetensors"
    save_file({"weight": np.ones(3)}, weights)
    done = attrcert("merge", *shards, "--out", out, "--overwrite")
    assert done.code == 2
    assert "is not a file of deltas that attrcert wrote" in done.said
    assert load_file(weights).keys() == {"weight"}
    assert not out.exists()
    weights.unlink()
    save_file({"index=0/jacobian": np.eye(2)}, jacobians, metadata={"attrcert": "jacobians"})
    assert attrcert("merge", *shards, "--out", out).code == 2
    assert jacobians.exists()
    assert attrcert("merge", *shards, "--out", out, "--overwrite").code == 0
    assert not jacobians.exists()  # a report would show them as this run's


def test_a_shard_whose_arrays_are_torn_leaves_what_was_merged_before(attacked, tmp_path):
    home = shutil.copytree(attacked, tmp_path / "home")
    words = ("merge", home / "one.csv", home / "two.csv", "--out", tmp_path / "m.csv")
    assert attrcert(*words).code == 0
    before = (tmp_path / "m.csv").read_bytes()
    torn = home / "kept" / "two.safetensors"
    torn.write_bytes(torn.read_bytes()[:-40])
    done = attrcert(*words, "--overwrite")
    assert done.code == 2
    assert "two.safetensors cannot be read" in done.said
    assert (tmp_path / "m.csv").read_bytes() == before


def test_a_merge_does_not_write_into_what_it_reads(shards, tmp_path):
    home = shutil.copytree(shards, tmp_path / "home")
    before = (home / "one.csv").read_bytes()
    done = attrcert("merge", home / "one.csv", home / "two.csv", "--out", home / "one.csv", "--overwrite")
    assert done.code == 2
    assert "is one of the files to join" in done.said
    assert (home / "one.csv").read_bytes() == before


def test_a_union_bound_counts_the_samples_of_all_shards(tmp_path):
    words = ("--smooth", "uniform", "--min-cosine", 0.5, "--samples", 60, "--simultaneous", "--quiet")
    done = attrcert("max-eps", "--limit", 4, "--shard", "1/2", *words, "--out", tmp_path / "s.csv")
    assert done.code == 0, done.err
    manifest = json.loads((tmp_path / "s.csv.json").read_text())
    assert manifest["facts"]["failure"].startswith("for all 4 samples")
    whole = attrcert("max-eps", "--limit", 4, *words, "--format", "csv").rows
    sharded = {row["index"]: row["C_lower"] for row in rows_of(tmp_path / "s.csv")}
    assert sharded.keys() == {"0", "2"}
    ours = {row["index"]: float(row["C_lower"]) for row in whole if row["index"] in sharded}
    assert ours == pytest.approx({index: float(text) for index, text in sharded.items()}, rel=1e-6)
