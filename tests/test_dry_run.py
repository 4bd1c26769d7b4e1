"""A dry run says what would be done, and does not do it."""

import json

from reference.program import attrcert


def test_a_dry_run_tells_samples_rows_memory_and_time_and_writes_nothing(tmp_path):
    words = ("bound", "--limit", 3, "--eps", 0.1, "--eps", 0.2, "--out", tmp_path / "rows.csv", "--dry-run")
    done = attrcert(*words)
    assert done.code == 0, done.err
    assert "samples: 3" in done.out.splitlines()
    assert "rows: 6" in done.out.splitlines()
    assert "time: about" in done.shown
    assert "memory: " in done.out
    assert list(tmp_path.iterdir()) == []
    told = json.loads(attrcert(*words, "--json").out)
    assert (told["samples"], told["rows"]) == (3, 6)
    assert told["model"] == "fashion-natural"
