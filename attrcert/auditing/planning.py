"""How an audit spends its time: what a sample takes is measured, and the parts share what is left."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Protocol

from attrcert.sizes import readable_seconds

LEAST = 4  # samples that every part is to have, if there is time
STEP = 0.2  # of the whole time: a batch is to take no more
GROWTH = 4  # times the largest batch so far: what a larger one takes is not known well
SLACK = 1.25  # times what was planned for a part, after which the next one has its turn
END = 0.03  # of the whole time: less is not shared again


@dataclass(frozen=True)
class Clock:
    """The time there is, from when the clock was made."""

    seconds: float
    now: Callable[[], float]
    start: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", self.now())

    @property
    def passed(self) -> float:
        return self.now() - self.start

    @property
    def left(self) -> float:
        return self.seconds - self.passed


class Paced(Protocol):
    """Work that is done a few samples at a time."""

    @property
    def name(self) -> str: ...
    @property
    def done(self) -> int: ...
    @property
    def left(self) -> int: ...
    @property
    def most(self) -> int:
        """Samples at once."""
        ...

    @property
    def unit(self) -> int:
        """Samples of the first batch."""
        ...

    @property
    def largest(self) -> int:
        """And of the largest so far."""
        ...

    def take(self, samples: int) -> None: ...


@dataclass(frozen=True)
class Cost:
    """What a sample takes in batches of `unit`, and how many are done and left. Fewer at once may take as long as that many."""

    seconds: float
    done: int
    left: int
    unit: int = 1

    def fitting(self, seconds: float) -> int:
        """Samples that can be done in so much time, in whole units."""
        if self.seconds * self.left <= seconds:
            return self.left
        return min(self.left, math.floor(seconds / (self.seconds * self.unit)) * self.unit)


# shows how far a part is: its name and samples in all and done before
Watch = Callable[[str, int, int], AbstractContextManager[Callable[[int], None]]]


def shared(seconds: float, costs: Mapping[str, Cost]) -> dict[str, int]:
    """How many more samples of each part: a few of each first, then equal times, and what a part does not need for the others."""
    few = {name: min(cost.left, max(0, LEAST - cost.done)) for name, cost in costs.items()}
    enough = sum(few[name] * cost.seconds for name, cost in costs.items()) <= seconds
    plan = few if enough else dict.fromkeys(costs, 0)
    rest = seconds - sum(plan[name] * cost.seconds for name, cost in costs.items())
    cheapest = sorted(costs, key=lambda name: (costs[name].left - plan[name]) * costs[name].seconds)
    shares = [(name, len(costs) - place) for place, name in enumerate(cheapest)]
    for name, sharing in (
        *shares,
        *((name, 1) for name in costs),
    ):  # what nobody's share was enough for goes to the first
        cost = replace(costs[name], left=costs[name].left - plan[name])
        more = cost.fitting(rest / sharing)
        plan[name] += more
        rest -= more * cost.seconds
    return plan


def spend(
    works: Sequence[Paced], each: dict[str, float], clock: Clock, *, tell: Callable[[str], None], watch: Watch
) -> None:
    """Until the time is over or all is done; `each` says what a sample of each takes, and is kept up to date."""
    while clock.left > END * clock.seconds:
        costs = {work.name: Cost(each[work.name], work.done, work.left, work.unit) for work in works}
        plan = shared(clock.left, costs)
        if not any(plan.values()):
            return
        tell("; ".join(f"{name} {n} in {readable_seconds(n * each[name])}" for name, n in plan.items() if n))
        for work in works:
            if plan[work.name] and clock.left > 0:
                each[work.name] = carried_out(work, plan[work.name], each[work.name], clock, watch)


def carried_out(work: Paced, samples: int, each: float, clock: Clock, watch: Watch) -> float:
    """So many samples, or fewer where they take longer than planned; what the last ones took."""
    until = clock.passed + SLACK * samples * each
    with watch(work.name, work.done + samples, work.done) as advance:
        while samples and work.left and clock.passed < until and clock.left >= min(each, END * clock.seconds):
            affordable = max(1, math.floor(STEP * clock.seconds / each)) if each else samples
            size = min(samples, work.most, GROWTH * max(1, work.largest), affordable)
            started, done = clock.now(), work.done
            work.take(size)
            each = (clock.now() - started) / size
            advance(work.done - done)
            samples -= size
    return each
