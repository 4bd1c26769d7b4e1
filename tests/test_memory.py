"""What is kept in memory follows from what is allowed, and no result follows from it."""

import pytest
import torch
from reference.allocator import Limited
from reference.program import attrcert
from torch import nn

from attrcert.attributions.gradient import Hessian, Saliency
from attrcert.attributions.integrated_gradients import IntegratedGradients
from attrcert.attributions.smoothed import SmoothGrad
from attrcert.errors import UsageError
from attrcert.running.evaluating.methods import explainer
from attrcert.running.opening.memory import Plan, plan, sample_bytes
from attrcert.running.opening.opening import open_run
from attrcert.settings.computing import RunOptions
from attrcert.settings.sources import DataSpec, ModelSpec
from attrcert.settings.tasks import BoundConfig
from attrcert.sizes import parse_bytes, readable_bytes


@pytest.fixture
def sample(smooth_cnn, images):
    """A network, an image and its class."""
    return smooth_cnn(side=9), images(1, 1, 9, 9), torch.tensor([1])


def planned(sample, attribution, memory: int, vectors: int = 10) -> Plan:
    return plan(attribution, *sample, memory=memory, vectors=vectors)


@pytest.mark.parametrize(("text", "size"), [("4GB", 4 * 10**9), ("800M", 8 * 10**8), ("1.5 g", 1.5 * 10**9), ("7B", 7)])
def test_a_size_is_read_with_its_unit(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "0", "0GB", "4", "4 XB"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(UsageError, match="--memory must be a size"):
        parse_bytes(text)


def test_more_memory_takes_more_samples_up_to_a_most(sample):
    each = 3 * sample_bytes(Saliency(), *sample) + 10 * 81 * 8
    assert [planned(sample, Saliency(), n * each).samples for n in (1, 2, 5)] == [1, 2, 5]
    assert planned(sample, Saliency(), 10**15) == Plan(128, least=each)


def test_all_graphs_are_kept_where_they_fit(sample):
    attribution = IntegratedGradients(steps=20)
    point, basis, on_the_way = sample_bytes(Saliency(), *sample), 10 * 81 * 8, 4 * 20 * 81 * 8
    whole, least = 3 * 20 * point + basis + on_the_way, 3 * point + basis + on_the_way
    assert planned(sample, attribution, 2 * whole) == Plan(2, least=least)
    room = whole - 1 - basis - on_the_way
    assert planned(sample, attribution, whole - 1) == Plan(1, chunk=room // (6 * point), least=least)  # less at once
    assert planned(sample, attribution, basis + on_the_way + 26 * point) == Plan(1, 4, held=14, least=least)


def test_vectors_share_graphs_that_are_not_kept_as_far_as_there_is_room_for_them(sample):
    wide = nn.Sequential(nn.Flatten(), nn.Linear(81, 9000), nn.Softplus(), nn.Linear(9000, 2)).double()
    on_the_way = 4 * 400 * 81 * 8  # of one vector, at 400 points
    attribution = IntegratedGradients(steps=400)
    found = [planned((wide, *sample[1:]), attribution, times * on_the_way) for times in (1, 4, 11, 12, 32, 40)]
    assert [fits.copies for fits in found] == [1, 1, 2, 3, 8, 8]
    assert all(fits.held < 400 for fits in found)


@pytest.mark.parametrize("share", [1.0, 0.5, 0.2, 0.05])
def test_what_is_kept_and_what_is_done_at_once_fit_together(sample, share):
    point, basis = sample_bytes(Saliency(), *sample), 10 * 81 * 8
    memory = int(share * 40 * point) + basis
    fits = planned(sample, IntegratedGradients(steps=50), memory)
    assert fits.chunk >= 1
    held, on_the_way = 50 if fits.held is None else fits.held, fits.copies * 4 * 50 * 81 * 8
    assert held * point + 3 * fits.chunk * point + basis + on_the_way <= max(memory, fits.least)


def test_a_smoothed_map_is_planned_like_its_draws(sample):
    short = planned(sample, SmoothGrad(samples=40), 10 * sample_bytes(Saliency(), *sample))
    assert (short.samples, short.chunk) == (1, 1)


@pytest.mark.parametrize("held", [0, 1, 3, 7, None])
@pytest.mark.parametrize("chunk", [1, 2, 7])
def test_products_do_not_depend_on_the_graphs_that_are_kept(smooth_cnn, images, held, chunk):
    f, z, y = smooth_cnn(), images(7, 1, 5, 5), torch.arange(7) % 4
    v = images(7, 25, seed=3)
    whole, some = Hessian(f, z, y), Hessian(f, z, y, chunk=chunk, held=held)
    torch.testing.assert_close(some.gradient(), whole.gradient(), rtol=1e-12, atol=1e-14)
    for _ in range(2):
        torch.testing.assert_close(some.matvec(v), whole.matvec(v), rtol=1e-12, atol=1e-14)
    keep = torch.tensor([4, 0])
    torch.testing.assert_close(some.select(keep).matvec(v[keep]), whole.matvec(v)[keep], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("held", [0, 4, None])
@pytest.mark.parametrize("keep", [[2, 2, 2, 0, 0, 0], [6, 1, 6, 6, 1, 3], list(range(7)) * 2])
def test_vectors_of_one_point_have_the_products_that_they_have_alone(smooth_cnn, images, held, keep):
    f, z, y, rows = smooth_cnn(), images(7, 1, 5, 5), torch.arange(7) % 4, torch.tensor(keep)
    v = images(len(keep), 25, seed=3)
    expected = Hessian(f, z[rows], y[rows]).matvec(v)
    wide = Hessian(f, z, y, chunk=2, held=held).select(rows)
    assert wide.shape == (len(keep), 25, 25)
    torch.testing.assert_close(wide.matvec(v), expected, rtol=1e-12, atol=1e-14)
    again = torch.tensor([5, 0, 1, -1])
    torch.testing.assert_close(wide.select(again).matvec(v[again]), expected[again], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("held", "built"), [(0, 4), (4, 2), (7, 1), (None, 7)])
def test_vectors_share_the_graphs_that_memory_has_no_room_for(smooth_cnn, images, held, built):
    """A forward pass a graph: four chunks of two points are built once for both vectors, but for those that are kept."""
    network, passes = smooth_cnn(), []

    def f(x):
        passes.append(len(x))
        return network(x)

    hessian = Hessian(f, images(7, 1, 5, 5), torch.arange(7) % 4, chunk=2, held=held)
    hessian.matvec(images(7, 25))
    del passes[:]
    rows = torch.arange(7).repeat_interleave(2)
    hessian.select(rows).matvec(images(14, 25))
    assert len(passes) == built


@pytest.mark.parametrize(("held", "kept"), [(0, 0), (3, 1), (4, 2), (None, 4)])
def test_no_more_graphs_are_kept_than_are_held(smooth_cnn, images, held, kept):
    hessian = Hessian(smooth_cnn(), images(7, 1, 5, 5), torch.arange(7) % 4, chunk=2, held=held)
    hessian.gradient()
    hessian.matvec(images(7, 25))
    assert len(hessian._graphs) == kept


@pytest.mark.parametrize(
    "words",
    [
        ("--attribution", "ig", "--ig-steps", 6, "--limit", 2),
        ("--attribution", "ig", "--ig-steps", 3, "--norm", "linf", "--eps", "0.01", "--limit", 1),
        ("--attribution", "smooth-grad", "--noise-draws", 6, "--limit", 2),
    ],
)
def test_a_run_in_little_memory_gives_the_rows_of_one_in_much(words):
    run = ("bound", *words, "--dtype", "float64", "--format", "csv", "--quiet")
    much, little = attrcert(*run), attrcert(*run, "--memory", "1MB")
    assert (much.code, little.code) == (0, 0)
    for ours, theirs in zip(much.rows, little.rows, strict=True):
        assert float(ours["T_e"]) == pytest.approx(float(theirs["T_e"]), rel=1e-9)
        assert ours["steps"] == theirs["steps"]


@pytest.mark.parametrize(("memory", "short"), [("1MB", True), ("4GB", False)])
@pytest.mark.parametrize("attribution", ["integrated-gradients", "smooth-grad"])
def test_a_run_explains_by_what_was_planned_and_its_identity_does_not_tell(attribution, memory, short):
    config = BoundConfig(attribution=attribution, noise_draws=20)
    run = open_run(ModelSpec(), DataSpec(limit=2), config, RunOptions(memory=memory))
    made = explainer(run.config, run.classifier.mean, run.work.layout)
    held = (made.base if attribution == "smooth-grad" else made).held
    assert (held is not None) is short
    assert held == run.work.layout.held
    assert not {"held", "chunk"} & run.identity().keys()


SIZES = [
    (7, "7 B"),
    (1999, "2 KB"),
    (999_400, "999 KB"),
    (999_999, "1 MB"),
    (3_565_536_000, "3.57 GB"),
    (2 * 10**12, "2 TB"),
]


@pytest.mark.parametrize(("count", "text"), SIZES)
def test_bytes_are_told_with_a_unit_that_can_be_given_back(count, text):
    assert readable_bytes(count) == text
    assert parse_bytes(text) == pytest.approx(count, rel=0.005)  # three digits


@pytest.mark.parametrize("attribution", [("saliency",), ("ig", "--ig-steps", 3)], ids=str)
def test_memory_that_one_sample_does_not_fit_into_is_told_and_the_run_goes_on(attribution):
    words = ("bound", "--limit", 1, "--attribution", *attribution)
    short, roomy = (attrcert(*words, "--memory", memory) for memory in ("100KB", "1GB"))
    assert (short.code, roomy.code) == (0, 0)
    assert "more than --memory 100KB" in short.said
    assert "--memory" not in roomy.said


def test_graphs_that_are_built_again_are_told_since_they_take_time():
    words = ("bound", "--limit", 1, "--attribution", "ig", "--ig-steps", 20)
    assert "built again for every product" in attrcert(*words, "--memory", "2MB").said
    assert "built again" not in attrcert(*words, "--memory", "1GB").said


def test_workers_are_told_of_their_share_of_the_memory():
    done = attrcert("bound", "--limit", 2, "--memory", "200KB", "--workers", 2)
    assert "more than a worker's share of --memory, 100 KB" in done.said
    assert "fewer --workers" in done.said


def test_a_chunk_that_does_not_fit_is_told():
    words = ("bound", "--limit", 1, "--attribution", "ig", "--ig-steps", 6, "--memory", "1MB")
    assert "--chunk 100 does not fit into --memory: " in attrcert(*words, "--chunk", 100).said
    assert "--chunk" not in attrcert(*words, "--chunk", 1).said


def limited_rows(limit: float) -> tuple[list, Limited, list[str]]:
    """Two batches of eight samples with an allocator that has so much."""
    run = open_run(ModelSpec(), DataSpec(limit=16), BoundConfig(dtype="float64"), RunOptions(batch_size=8, chunk=8))
    warnings: list[str] = []
    with Limited(limit) as allocator:
        rows = [row for rows in run.rows(warn=warnings.append) for row in rows]
    return rows, allocator, warnings


def test_a_batch_that_an_allocator_refuses_is_halved_and_the_next_ones_are_not_tried_whole():
    rows, allocator, warnings = limited_rows(float("inf"))
    assert (allocator.refusals, warnings) == (0, [])
    # what is kept of the failed batch would leave no room for half of it
    limit = 0.75 * allocator.peak
    short, tight, told = limited_rows(limit)
    assert tight.refusals == 1
    assert tight.peak > 0.4 * allocator.peak  # half a batch is what was done at once
    assert told == ["out of memory with 8 samples at once; going on with 4"]
    assert [row["status"] for row in short] == [row["status"] for row in rows]
    for ours, theirs in zip(short, rows, strict=True):
        assert ours["T_e"] == pytest.approx(theirs["T_e"], rel=1e-9)


def test_a_worker_does_not_try_again_what_did_not_fit():
    run = open_run(ModelSpec(), DataSpec(limit=16), BoundConfig(), RunOptions(batch_size=8, chunk=8))
    batches = run.open_batches((), 8)
    warnings: list[str] = []
    peaks = []
    for batch in (batches[0], batches[0][:4]):
        with Limited(float("inf")) as roomy:
            run.batch(batch, save=None, warn=warnings.append)
        peaks.append(roomy.peak)
    with Limited(sum(peaks) / 2) as tight:  # room for half a batch, not for a whole one
        for batch in batches:
            run.batch(batch, save=None, warn=warnings.append)
    assert tight.refusals == 1
    assert len(warnings) == 1


def test_samples_that_do_not_fit_alone_are_error_rows_and_every_one_is_tried():
    _, roomy, _ = limited_rows(float("inf"))
    rows, allocator, told = limited_rows(roomy.peak / 16)  # half of what one of eight takes
    assert [row["status"] for row in rows] == ["error:memory"] * 16
    assert told == [f"out of memory with {b} samples at once; going on with {b // 2}" for b in (8, 4, 2)]
    assert allocator.refusals == 3 + 16
