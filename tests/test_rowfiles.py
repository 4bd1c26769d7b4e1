"""What the files of a run say of themselves: whose they are, of which version, how far the run is, and that nobody changed them."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from reference.program import attrcert
from reference.reading import read_rows

import attrcert as library
from attrcert.columns import COLUMNS, Column
from attrcert.errors import FileError, ResumeError, UsageError
from attrcert.reporting.gating.baselines import differing_keys
from attrcert.saved import manifests, schemas
from attrcert.saved.files import write_bytes
from attrcert.saved.merging import merge
from attrcert.saved.records import to_csv
from attrcert.saved.rowfiles import OwnRows, RowFile
from attrcert.saved.schemas import SCHEMA

BOUND = COLUMNS["bound"]
IDENTITY = {"attribution": "saliency", "eps": [0.1, 0.2], "seed": 0}
CASES = ({"eps": 0.1}, {"eps": 0.2})


def sample(index: int, **cells) -> list[dict]:
    empty = {column.name: None for column in BOUND}
    return [{**empty, "index": index, "status": "ok", "T_e": 1 / 3, **case, **cells} for case in CASES]


def opened(path: Path, identity: Mapping = IDENTITY, columns: tuple[Column, ...] = BOUND, **how) -> RowFile:
    return RowFile(path, OwnRows("bound", identity, columns, CASES, range(4)), **how)


def written(path: Path, samples: int = 2, *, complete: bool = True) -> Path:
    with opened(path) as file:
        for index in range(samples):
            file.append(sample(index))
        if complete:
            file.write_manifest({"batch_size": 1})
    return path


def told(path: Path) -> dict:
    return json.loads(Path(f"{path}.json").read_text())


def tell(path: Path, **changes) -> None:
    """None takes a key away."""
    whole = {**told(path), **changes}
    Path(f"{path}.json").write_text(json.dumps({key: value for key, value in whole.items() if value is not None}))


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "x.csv"


# a run's own file


@pytest.fixture(scope="module")
def attack():
    config = library.AttackConfig(attack=("euclidean", "random"), eps=(0.1, 0.2), steps=1, restarts=0, random_draws=2)
    data = library.DataSpec("fashion-test", limit=2)
    return library.open_run(library.ModelSpec("fashion-natural"), data, config, library.RunOptions("cpu"))


def test_the_file_of_an_attack_with_two_attacks_keeps_every_row_when_it_is_resumed(attack, path):
    with attack.file(path) as file:
        for rows in attack.rows(finished=file.finished, size=1, warn=pytest.fail):
            file.append(rows)
        file.write_manifest(attack.environment())
    before = path.read_bytes()
    with attack.file(str(path), resume=True) as again:
        assert again.finished == {0, 1}
        assert len(again.rows) == 2 * 4
        assert list(attack.rows(finished=again.finished, warn=pytest.fail)) == []
        again.write_manifest(attack.environment())
    assert path.read_bytes() == before
    assert attrcert("gate", path, "--require", "mean(T_hat_e) >= 1e-9").code == 0


def test_a_file_of_rows_cannot_be_opened_without_saying_what_its_rows_are():
    with pytest.raises(TypeError, match="columns"):
        OwnRows("attack", IDENTITY, cases=CASES)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="cases"):
        OwnRows("attack", IDENTITY, columns=BOUND)  # type: ignore[call-arg]


@pytest.mark.parametrize("cases", [CASES[:1], (*CASES, {"eps": 0.3})], ids=["fewer", "more"])
def test_a_file_whose_samples_have_another_number_of_rows_is_refused_and_not_emptied(path, cases):
    before = written(path).read_bytes()
    with pytest.raises(ResumeError):
        RowFile(path, OwnRows("bound", IDENTITY, BOUND, cases), resume=True)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (sample(0), "is none of the 2 that this run writes for sample 0, or one of them again"),
        (sample(1, eps=0.7), "is none of the 2"),
        (sample(7), "is of sample 7, which this run does not have"),
        ([{**row, "index": None} for row in sample(1)], "is of sample None"),
        (sample(1, status="fine"), "status must not be 'fine'"),
        (sample(1, guarantee="absolute"), "guarantee must not be 'absolute'"),
    ],
    ids=["twice", "another case", "another sample", "no sample", "no status", "no guarantee"],
)
def test_rows_that_the_run_cannot_have_written_are_refused(path, rows, said):
    written(path, samples=1)
    with path.open("a") as stream:
        stream.write(to_csv(rows, BOUND, header=False))
    before = path.read_bytes()
    with pytest.raises(ResumeError) as caught:
        opened(path, resume=True)
    assert said in caught.value.message
    assert path.read_bytes() == before


def test_a_stray_quote_does_not_cost_the_rows_behind_it(path):
    written(path, samples=3)
    lines = path.read_text().splitlines(keepends=True)
    lines[2] = lines[2].replace("ok", '"ok', 1)
    path.write_text("".join(lines))
    with pytest.raises(ResumeError, match=r"line 3 of .* has a quote that does not end"):
        opened(path, resume=True)
    assert path.read_text() == "".join(lines)


def test_a_resumed_file_is_not_touched_before_rows_or_manifest_are_written(path):
    written(path, samples=3)
    torn = path.read_bytes()[:-30]
    path.write_bytes(torn)
    manifest = told(path)
    with opened(path, resume=True) as file:
        assert (file.finished, path.read_bytes(), told(path)) == ({0, 1}, torn, manifest)
        file.append(sample(2))
        assert told(path)["state"] == "running"
    assert len(read_rows(path, BOUND)) == 6


def test_a_second_writer_is_refused_until_the_first_is_closed(path):
    first = opened(path)
    with pytest.raises(FileError, match="is being written by this process"):
        opened(path, resume=True)
    first.append(sample(0))
    first.close()
    with opened(path, resume=True) as second:
        second.append(sample(1))
    assert [row["index"] for row in read_rows(path, BOUND)] == [0, 0, 1, 1]


def test_rows_that_somebody_else_adds_stop_a_run_where_locks_do_not(path):
    file = opened(path)
    with path.open("a") as stream:
        stream.write(to_csv(sample(3), BOUND, header=False))
    with pytest.raises(FileError, match="something else writes into it"):
        file.append(sample(0))


# the manifest comes first, and nothing of others goes


def test_the_manifest_is_there_before_the_rows(path, monkeypatch):
    seen = []

    def write(target: Path, content: bytes, **how) -> None:
        seen.append(told(path)["state"])
        write_bytes(target, content, **how)

    monkeypatch.setattr("attrcert.saved.rowfiles.write_bytes", write)
    opened(path).close()
    opened(path, overwrite=True).close()
    assert seen == ["running", "replacing"]


@pytest.mark.parametrize("left", ["nothing", "the header", "a header of 0.1 without manifest", "an empty file"])
def test_a_run_that_was_killed_before_it_had_rows_is_begun_again(path, left):
    written(path, samples=0, complete=False)
    if left in ("nothing", "an empty file"):
        path.unlink()
    if left == "an empty file":
        path.touch()
    if left.startswith("a header of 0.1"):
        Path(f"{path}.json").unlink()
    with opened(path, resume=True) as file:
        file.append(sample(0))
        file.write_manifest({})
    assert len(read_rows(path, BOUND)) == 2
    assert told(path)["state"] == "complete"


def test_rows_that_an_overwriting_run_was_killed_before_replacing_are_not_taken_for_its_own(path):
    written(path)
    tell(path, state="replacing", identity={**IDENTITY, "seed": 1}, rows_sha256=None)
    with opened(path, {**IDENTITY, "seed": 1}, resume=True) as file:
        assert (file.rows, file.replaces) == ([], True)
    assert read_rows(path, BOUND) == []


@pytest.mark.parametrize("how", [{}, {"resume": True}, {"overwrite": True}], ids=["new", "resume", "overwrite"])
@pytest.mark.parametrize("rows", [True, False], ids=["beside rows", "alone"])
def test_a_json_file_of_others_is_never_replaced(path, how, rows):
    if rows:
        written(path)
    beside = Path(f"{path}.json")
    beside.write_text('{"my": "settings"}')
    before = path.read_bytes() if rows else None
    with pytest.raises(UsageError):
        opened(path, **how)
    assert beside.read_text() == '{"my": "settings"}'
    assert (path.read_bytes() if path.exists() else None) == before


def test_a_manifest_whose_rows_are_gone_is_not_replaced_unasked(path):
    written(path).unlink()
    with pytest.raises(UsageError, match=r"x.csv.json exists"):
        opened(path)
    opened(path, overwrite=True).close()


def test_a_damaged_manifest_is_overwritten_where_the_rows_are_ours(path):
    written(path)
    Path(f"{path}.json").write_text("{")
    opened(path, overwrite=True).close()
    assert told(path)["rows"] == 0


@pytest.mark.parametrize(
    "content",
    ["index,name\n3,mine\n", "index,label,predicted\n", "name,age\n", "\x00\x01", to_csv([], BOUND[1:], header=True)],
)
def test_a_csv_of_others_is_not_overwritten(path, content):
    path.write_text(content)
    with pytest.raises(UsageError, match="is not a file that attrcert wrote"):
        opened(path, overwrite=True)
    assert path.read_text() == content
    assert sorted(p.name for p in path.parent.iterdir()) == ["x.csv"]


@pytest.mark.parametrize("command", COLUMNS)
def test_rows_of_every_command_are_overwritten_without_their_manifest(path, command):
    columns = (
        library.AttackConfig(transfer=("integrated-gradients",)).columns if command == "attack" else COLUMNS[command]
    )
    path.write_text(to_csv([{"index": 0, "status": "ok"}], columns, header=True))
    opened(path, overwrite=True).close()
    assert read_rows(path, BOUND) == []


# a complete run's rows have a hash


def test_a_gate_refuses_rows_that_were_changed_after_the_run(path):
    written(path)
    words = ("gate", path, "--require", "max(T_e) <= 1")
    assert attrcert(*words).code == 0
    path.write_text(path.read_text().replace("0.3333333333333333", "0.1", 1))
    done = attrcert(*words)
    assert done.code == 2
    assert "was changed after its run had ended" in done.shown
    assert attrcert("gate", path, "--require", "max(T_e) <= 1", "--exit-zero").code == 2
    tell(path, rows_sha256=None)  # as version 0.1 wrote it
    assert attrcert(*words).code == 0


def test_a_report_of_rows_that_were_changed_says_so(tmp_path):
    out = tmp_path / "x.csv"
    assert attrcert("bound", "--limit", 2, "--quiet", "--out", out).code == 0
    assert "was changed after" not in attrcert("report", out, "--format", "markdown").out
    with out.open() as stream:
        T_e = next(csv.DictReader(stream))["T_e"]
    out.write_text(out.read_text().replace(T_e, "0.1", 1))
    done = attrcert("report", out, "--format", "markdown")
    assert done.code == 0
    assert "x.csv was changed after its run had ended: these are not the rows that the run wrote" in done.out
    with pytest.raises(UsageError, match="was changed after its run had ended"):
        merge([out])
    changed = out.read_text()
    resumed = attrcert("bound", "--limit", 2, "--out", out, "--resume")
    assert resumed.code == 2
    assert "was changed after its run had ended" in resumed.said
    assert out.read_text() == changed
    assert attrcert("gate", out, "--require", "max(T_e) <= 100").code == 2  # nothing made the rows the run's own


def test_rows_of_a_run_that_has_not_ended_have_no_hash(path):
    written(path, complete=False)
    assert "rows_sha256" not in told(path)


# versions

NEXT = SCHEMA + 1
FACT = Column("label_fact", str, "what is known of the label", since=NEXT)


@pytest.fixture
def next_version(monkeypatch) -> tuple[Column, ...]:
    """A version with a column and a setting more; a row of this one's schema says `kept` where it was ok."""
    at = next(i for i, column in enumerate(BOUND) if column.name == "guarantee")
    columns = (*BOUND[:at], FACT, *BOUND[at:])
    last = {SCHEMA: lambda row: {**row, "label_fact": f"was {row['status']}"}}
    monkeypatch.setattr(schemas, "MIGRATIONS", {**schemas.MIGRATIONS, **last})
    monkeypatch.setattr(schemas, "INTRODUCED", {"trust": (2, "all")})
    monkeypatch.setitem(COLUMNS, "bound", columns)
    for module in (schemas, manifests):
        monkeypatch.setattr(module, "SCHEMA", NEXT)
        monkeypatch.setattr(module, "SETTINGS", 2)
    return columns


def test_rows_of_an_older_version_are_resumed_with_the_columns_of_this_one(path, request):
    written(path, samples=1, complete=False)
    tell(path, settings=None)  # as version 0.1 wrote it
    columns = request.getfixturevalue("next_version")
    with opened(path, {**IDENTITY, "trust": "all"}, columns, resume=True) as file:
        assert [row["label_fact"] for row in file.rows] == ["was ok", "was ok"]
        file.append(sample(1, label_fact="kept"))
        file.write_manifest({})
    assert [row["label_fact"] for row in read_rows(path, columns)] == ["was ok", "was ok", "kept", "kept"]
    assert (told(path)["schema"], told(path)["settings"], told(path)["identity"]["trust"]) == (NEXT, 2, "all")


def test_rows_that_were_migrated_before_a_kill_wrote_the_manifest_are_read_as_they_are(path, request):
    written(path, samples=1, complete=False)
    columns = request.getfixturevalue("next_version")
    path.write_text(to_csv(sample(0, label_fact="kept"), columns, header=True))
    with opened(path, columns=columns, resume=True) as file:
        assert [row["label_fact"] for row in file.rows] == ["kept", "kept"]


def test_a_setting_that_came_later_is_what_it_was_in_effect(path, request):
    written(path, samples=1, complete=False)
    columns = request.getfixturevalue("next_version")
    with pytest.raises(ResumeError, match="trust was 'all' and is 'none'"):
        opened(path, {**IDENTITY, "trust": "none"}, columns, resume=True)
    old, new = IDENTITY, {**IDENTITY, "trust": "none"}
    assert differing_keys(new, old) == {"trust": ["trust is none and was all"]}
    assert differing_keys({**IDENTITY, "trust": "all"}, old) == {}
    assert schemas.differing(old, {**IDENTITY, "trust": "all"}) == {}


def test_rows_of_a_later_version_are_refused_by_its_name(path, request):
    with pytest.MonkeyPatch.context() as later:
        for module in (schemas, manifests):
            later.setattr(module, "SCHEMA", NEXT)
        with opened(path) as file:
            file.append(sample(0))
            file.write_manifest({"versions": {"attrcert": "0.9"}})
    said = f"x.csv was written by attrcert 0.9 with schema version {NEXT}, and this version knows up to {SCHEMA}"
    with pytest.raises(ResumeError, match=said):
        opened(path, resume=True)
    done = attrcert("gate", path, "--require", "max(T_e) <= 1")
    assert done.code == 2
    assert said in done.shown
    tell(path, schema=SCHEMA)
    columns = request.getfixturevalue("next_version")
    path.write_text(to_csv(sample(0), columns, header=True))
    with pytest.MonkeyPatch.context() as now:
        now.setattr(schemas, "SCHEMA", SCHEMA)
        now.setattr(manifests, "SCHEMA", SCHEMA)
        with pytest.raises(ResumeError, match="has the column 'label_fact', which a later version"):
            opened(path, resume=True)


def test_shards_of_two_versions_are_merged_into_this_ones(tmp_path, request):
    run = ("bound", "--limit", 2, "--quiet", "--eps", "0.1")
    for i in (1, 2):
        assert attrcert(*run, "--shard", f"{i}/2", "--out", tmp_path / f"{i}.csv").code == 0
    columns = request.getfixturevalue("next_version")
    new = tmp_path / "2.csv"
    new.write_text(to_csv([{**row, "label_fact": "kept"} for row in read_rows(new, BOUND)], columns, header=True))
    tell(new, rows_sha256=None)
    merged = merge([tmp_path / "1.csv", new])
    assert [row["label_fact"] for row in merged.rows] == [f"was {merged.rows[0]['status']}", "kept"]
    assert [column.name for column in merged.columns] == [column.name for column in columns]


def test_a_csv_of_version_0_1_is_resumed_and_judged(path):
    """As that version wrote its files: no settings version, no hash."""
    run = ("bound", "--limit", 3, "--quiet", "--batch-size", 1, "--out", path)
    assert attrcert(*run).code == 0
    whole = read_rows(path, BOUND)
    tell(path, settings=None, rows_sha256=None)
    assert attrcert("gate", path, "--require", "max(T_e) <= 100").code == 0
    path.write_text(to_csv(whole[:2], BOUND, header=True))
    tell(path, state="running")
    assert attrcert(*run, "--resume").code == 0
    assert [{**row, "seconds": 0} for row in read_rows(path, BOUND)] == [{**row, "seconds": 0} for row in whole]
