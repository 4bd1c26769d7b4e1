"""An audit's time is measured and shared, whatever samples take."""

import time
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from attrcert.auditing.alarms import OutOfTime, at_most
from attrcert.auditing.planning import END, LEAST, STEP, Clock, Cost, shared, spend


@dataclass
class FakeTime:
    """Passes when something works."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class FakeWork:
    """Takes `seconds` a sample, and as long as `unit` of them for fewer."""

    name: str
    time: FakeTime
    seconds: float
    left: int = 1000
    done: int = 2
    most: int = 64
    unit: int = 1
    largest: int = 1
    batches: list[int] = field(default_factory=list)

    def take(self, samples: int) -> None:
        assert 0 < samples <= min(self.most, self.left)
        self.time.now += self.seconds * max(samples, self.unit)
        self.left, self.done, self.largest = self.left - samples, self.done + samples, max(self.largest, samples)
        self.batches.append(samples)


@contextmanager
def unseen(name: str, total: int, done: int):
    yield lambda samples: None


def spent(works: list[FakeWork], seconds: float, **each: float) -> tuple[Clock, list[str]]:
    clock, told = Clock(seconds, works[0].time), []
    spend(
        works, {work.name: each.get(work.name, work.seconds) for work in works}, clock, tell=told.append, watch=unseen
    )
    return clock, told


def test_parts_get_equal_times_and_what_one_does_not_need_goes_to_the_others():
    costs = {"slow": Cost(2.0, 4, 1000), "fast": Cost(0.1, 4, 1000), "short": Cost(1.0, 4, 10)}
    assert shared(90.0, costs) == {"slow": 20, "fast": 400, "short": 10}


def test_every_part_has_a_few_samples_before_any_has_more():
    assert shared(50.0, {"slow": Cost(10.0, 1, 100), "fast": Cost(1.0, 1, 100)}) == {"slow": LEAST - 1, "fast": 20}


def test_where_no_share_is_enough_the_first_part_that_fits_has_it():
    assert shared(10.0, {"one": Cost(7.0, 4, 9), "two": Cost(6.0, 4, 9)}) == {"one": 1, "two": 0}


def test_samples_are_planned_in_batches_as_they_were_measured():
    assert shared(10.0, {"one": Cost(1.0, 4, 100, unit=4)}) == {"one": 8}
    assert shared(3.0, {"one": Cost(1.0, 4, 100, unit=4)}) == {"one": 0}
    assert shared(3.0, {"one": Cost(1.0, 4, 3, unit=4)}) == {"one": 3}


def test_the_time_is_used_and_not_exceeded():
    fake = FakeTime()
    works = [FakeWork("a", fake, 0.5), FakeWork("b", fake, 3.0), FakeWork("c", fake, 0.01, left=50)]
    clock, told = spent(works, 120.0)
    assert 0 <= clock.left <= 3.5
    assert works[2].left == 0
    assert told[0].startswith("a ")
    times = [work.seconds * sum(work.batches) for work in works]
    assert times[0] == pytest.approx(times[1], rel=0.1)


def test_samples_that_get_slower_than_measured_exceed_the_time_by_a_batch_at_most():
    fake = FakeTime()
    slow = FakeWork("a", fake, 4.0)
    clock, _ = spent([slow, FakeWork("b", fake, 1.0)], 120.0, a=0.4)
    assert clock.left > -0.2 * clock.seconds
    assert slow.done >= LEAST


def test_time_that_is_left_when_samples_are_faster_than_measured_is_shared_again():
    fake = FakeTime()
    clock, told = spent([FakeWork("a", fake, 0.1)], 100.0, a=1.0)
    assert len(told) > 1
    assert clock.left <= max(END * clock.seconds, 0.2)


def test_a_batch_is_not_longer_than_its_part_of_the_time():
    fake = FakeTime()
    work = FakeWork("a", fake, 1.0)
    spent([work], 50.0)
    assert max(work.batches) == STEP * 50


def test_nothing_is_begun_when_the_time_is_over():
    fake = FakeTime()
    work = FakeWork("a", fake, 1.0)
    spent([work], 0.5)
    assert work.batches == []


def test_work_beyond_the_time_ends_though_it_holds_on_to_its_errors():
    def stubborn(until: float) -> None:
        while time.monotonic() < until:
            try:
                time.sleep(0.01)
            except Exception:  # as checks do
                continue

    started = time.monotonic()
    with pytest.raises(OutOfTime), at_most(0.05):
        stubborn(started + 10)
    assert time.monotonic() < started + 5
    with at_most(0.01):
        pass
    time.sleep(0.03)  # no alarm is left
