"""What is said of the time that is left."""

import pytest

from attrcert import BoundConfig, DataSpec, ModelSpec, open_run
from attrcert.cli import progress
from attrcert.cli.progress import Pace, tell_estimate
from attrcert.running.engines.engine import Here


def test_a_batch_moves_the_bar_while_it_is_computed_but_not_to_its_end():
    pace = Pace(total=10, done=2, each=5.0)
    assert pace.left(1.0, 0) is None
    assert pace.at(20) == 6.0
    assert pace.left(8.0, 20) == pytest.approx(8.0)  # 4 of 8 in 8 s
    assert 9.9 < pace.at(10**6) < 10
    pace.finish(4, 40)  # they took twice what was thought
    assert (pace.at(40), pace.each) == (6, 10.0)
    assert pace.left(8.0, 60) == pytest.approx(8 * 2 / 6)


def test_without_derivatives_finished_batches_tell_the_time():
    pace = Pace(total=10, done=0)
    pace.finish(5, 0)
    assert (pace.at(0), pace.left(3.0, 0)) == (5, 3.0)


def test_a_long_run_is_told_before_it_begins(monkeypatch, capsys):
    run = open_run(ModelSpec(), DataSpec(limit=16), BoundConfig())
    monkeypatch.setattr(progress, "LONG", 0.0)
    each = tell_estimate(run, Here(), 16, 16)
    assert each is not None
    assert each > 5  # products, and gradients beside them
    assert "16 samples" in capsys.readouterr().err
    assert tell_estimate(run, Here(), 16, 3) is None  # too few
    assert tell_estimate(run, Here(), 2, 16) is None  # their first batch is soon done
    assert capsys.readouterr().err == ""
