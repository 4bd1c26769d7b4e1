"""The number of points that are differentiated together is the fastest of a few, and finding it out costs little."""

import math

import pytest
import torch
from reference.program import attrcert

from attrcert.bounds.first_order.linf_row_sums import check_hours
from attrcert.errors import UsageError
from attrcert.library import bound
from attrcert.linalg.maps import usual_chunk
from attrcert.running.evaluating.methods import certifiers
from attrcert.running.opening.opening import open_run
from attrcert.running.opening.tuning import fastest_chunk, product_seconds
from attrcert.settings.computing import RunOptions
from attrcert.settings.sources import DataSpec, ModelSpec
from attrcert.settings.tasks import BoundConfig

PLENTY = 10**6


@pytest.mark.parametrize(("side", "together"), [(28, 32), (112, 32), (224, 8), (2000, 1)])
def test_fewer_large_images_than_small_ones_go_together_unless_something_was_measured(side, together):
    for b in (0, 3):
        assert usual_chunk(torch.empty(b, 3, side, side, device="meta")) == together


class Machine:
    """Takes a known time per point at each size, and keeps what it was asked."""

    def __init__(self, best: int) -> None:
        self.best, self.asked = best, []

    def __call__(self, size: int) -> float:
        self.asked.append(size)
        return 1 + abs(math.log2(size / self.best))


@pytest.mark.parametrize("best", [4, 8, 16, 32, 64, 256, 1024])
def test_the_fastest_size_is_found_from_the_usual_one(best):
    machine = Machine(best)
    assert fastest_chunk(machine, 32, points=PLENTY, most=PLENTY) == best
    assert len(machine.asked) == len(set(machine.asked))


@pytest.mark.parametrize(("most", "found"), [(1, 1), (20, 20), (64, 64), (100, 64), (128, 128)])
def test_no_size_is_tried_or_taken_that_does_not_fit(most, found):
    machine = Machine(4096)
    assert fastest_chunk(machine, 32, points=PLENTY, most=most) == found
    assert max(machine.asked) <= most


def test_a_gain_that_noise_may_be_is_not_worth_another_size():
    assert fastest_chunk(lambda size: 1.0 if size == 32 else 0.97, 32, points=PLENTY, most=PLENTY) == 32


@pytest.mark.parametrize("points", [1, 16, 33, 190])
def test_a_short_run_is_not_measured(points):
    machine = Machine(1)
    assert fastest_chunk(machine, 32, points=points, most=PLENTY) == 32
    assert machine.asked == []


@pytest.mark.parametrize("best", [4, 4096])
@pytest.mark.parametrize("points", [200, 400, 1000, 5000])
def test_measuring_costs_no_more_than_a_share_of_the_run(points, best):
    machine = Machine(best)
    fastest_chunk(machine, 32, points=points, most=PLENTY)
    # six products of every point of a size that is looked at, and one of every point of the run
    assert 0 < 6 * sum(machine.asked) <= points


def test_a_size_is_measured_though_there_are_fewer_images(smooth_cnn, images):
    sizes = []

    def counted(z):
        sizes.append(len(z))
        return network(z)

    network = smooth_cnn(side=9)
    assert product_seconds(counted, images(3, 1, 9, 9), torch.tensor([0, 1, 2]), 8) > 0
    assert sizes == [8]


def opened(attribution="saliency", **options):
    return open_run(ModelSpec(), DataSpec(limit=4), BoundConfig(attribution=attribution), RunOptions(**options))


@pytest.mark.parametrize("attribution", ["saliency", "input-x-gradient", "integrated-gradients", "smooth-grad"])
def test_a_run_differentiates_no_more_points_together_than_it_is_told(attribution, monkeypatch):
    run = opened(attribution, chunk=3)
    sizes = []
    call = type(run.classifier).__call__

    def counted(classifier, x):
        if x.requires_grad:
            sizes.append(len(x))
        return call(classifier, x)

    monkeypatch.setattr(type(run.classifier), "__call__", counted)
    with run.classifier.prepared():
        batch = run.open_batches((), 4)[0]
        run.batch(batch, save=None, warn=print)
    graphs = [size for size in sizes if size > 3]
    # the label margins differentiate the logits of the whole batch once, beside the attribution
    assert set(graphs) <= {4}
    assert len(graphs) <= 1
    assert 3 in sizes


def test_workers_take_the_size_that_was_measured_and_measure_nothing(monkeypatch):
    asked = []

    def measured(seconds, usual, *, points, most):
        asked.append((usual, points, most))
        return 5

    monkeypatch.setattr("attrcert.running.opening.layouts.fastest_chunk", measured)
    run = opened("integrated-gradients")
    assert asked == [(32, 4 * 20, 4 * 20)]
    assert run.work.layout.chunk == run.source.options.chunk == 5
    source = run.source
    assert open_run(source.model, source.data, source.config, source.options).work.layout.chunk == 5
    assert len(asked) == 1
    assert run.with_chunk(3).work.layout.chunk == run.with_chunk(3).source.options.chunk == 3


def test_workers_do_not_ask_again_whether_row_sums_take_too_long(monkeypatch):
    timed = []
    monkeypatch.setattr("attrcert.running.opening.layouts.product_seconds", lambda *_: timed.append(1) or 1e-9)
    config = BoundConfig(norm="linf", linf_method=("row-sums",))
    source = open_run(ModelSpec(), DataSpec(limit=1), config, RunOptions(chunk=4)).source
    assert len(timed) == 1
    open_run(source.model, source.data, source.config, source.options)
    assert len(timed) == 1


@pytest.mark.parametrize(
    ("samples", "memory", "attribution", "copies"),
    [
        (1, "4GB", "saliency", 32),
        (5, "4GB", "saliency", 6),
        (40, "4GB", "saliency", 1),
        (1, "4GB", "integrated-gradients", 1),
        (1, "400KB", "saliency", 1),
    ],
)
def test_vectors_of_few_samples_are_multiplied_together_where_there_is_room(samples, memory, attribution, copies):
    config = BoundConfig(attribution=attribution, norm="linf")
    run = open_run(ModelSpec(), DataSpec(limit=samples), config, RunOptions(memory=memory))
    assert run.work.layout.copies == copies
    (certify,) = certifiers(run.config, None, run.work.layout)
    assert certify.copies == copies
    assert run.work.layout.chunk >= copies  # or they would be multiplied one by one all the same


def test_the_library_refuses_what_a_run_fills_in():
    with pytest.raises(UsageError, match="setting must be one of"):
        bound("fashion-natural", limit=1, held=4)


def test_a_resumed_run_goes_on_with_the_size_it_began_with(tmp_path):
    out = tmp_path / "b.csv"
    words = ("bound", "--limit", 6, "--batch-size", 3, "--out", out, "--quiet")
    assert attrcert(*words, "--chunk", 2).code == 0
    whole = out.read_text()
    lines = whole.splitlines(keepends=True)
    out.write_text("".join(lines[:4]))
    assert attrcert(*words, "--resume").code == 0
    header = lines[0].split(",")
    timed = header.index("seconds")
    for ours, theirs in zip(out.read_text().splitlines(), whole.splitlines(), strict=True):
        # a message may hold commas, but these rows have none
        assert [c for i, c in enumerate(ours.split(",")) if i != timed] == [
            c for i, c in enumerate(theirs.split(",")) if i != timed
        ]
    assert '"chunk": 2' in out.with_name("b.csv.json").read_text()


@pytest.mark.parametrize("word", ["0", "-1", "2.5", "many"])
def test_what_is_no_number_of_points_is_refused(word):
    refused = attrcert("bound", "--limit", 1, "--chunk", word)
    assert refused.code == 2
    assert "--chunk must be auto or a whole number of at least 1" in refused.err


def test_row_sums_that_take_too_long_are_refused_with_the_numbers():
    check_hours(100, 4, seconds=1.0, points=1, samples=36, hours=1.0)
    with pytest.raises(
        UsageError, match=r"100 products a sample, about 1\.03 hours for 37 samples of d = 100; .* allows 1"
    ):
        check_hours(100, 4, seconds=1.0, points=1, samples=37, hours=1.0)
    with pytest.raises(UsageError, match="about 20 hours"):
        check_hours(100, 4, seconds=1.0, points=20, samples=36, hours=1.0)


def test_row_sums_whose_matrix_does_not_fit_take_twice_the_products():
    with pytest.raises(UsageError, match="301,056 products a sample"):
        check_hours(150528, 4, seconds=1.0, points=1, samples=1, hours=1.0)


def test_a_run_refuses_row_sums_beyond_its_hours_and_computes_them_within():
    words = ("bound", "--norm", "linf", "--linf-method", "row-sums", "--limit", 1, "--quiet")
    refused = attrcert(*words, "--max-hours", "1e-6")
    assert refused.code == 2
    assert "--max-hours allows 1e-06" in refused.err
    assert "--linf-method scaled" in refused.err
    assert attrcert(*words, "--max-hours", "1").code == 0
    assert attrcert(*words, "--max-hours", "0").code == 2
