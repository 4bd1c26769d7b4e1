"""Workers that are actors of a Ray cluster."""

import logging
import os
import signal
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ray

from attrcert.errors import AttrcertError, UnexpectedError, UsageError
from attrcert.running.engines.engine import GO_ON, Died, Done, EngineError, Hand, Indices, Worker, WorkersDiedError
from attrcert.running.opening.runs import Source

PATIENCE = 10.0  # seconds without a result, after which it is asked whether any can come


@dataclass
class ActorHand:
    actor: Any
    keep: bool
    pending: Any = field(default=None)

    def give(self, indices: Indices) -> None:
        self.pending = self.actor.attempt.remote(indices, keep=self.keep)

    def dismiss(self) -> None:
        ray.kill(self.actor)


@dataclass(frozen=True)
class Actors:
    """One model per actor; every node must see the checkpoint and the data under the same path, and have attrcert installed."""

    source: Source
    keep: bool
    address: str | None
    gpus: float

    def __post_init__(self) -> None:
        if ray.is_initialized():
            return
        if self.address:
            check_answers(self.address)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a run tells nobody of itself
        before = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(address=self.address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise _unreachable(self.address, error) from error
        signal.signal(signal.SIGTERM, before)  # Ray would end the program at once, and nothing would say how to go on

    @property
    def room(self) -> int:
        """Actors that the cluster as it is can place; one that it cannot would be waited for without end."""
        there: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        cpus, gpus = int(there.get("CPU", 0)), there.get("GPU", 0.0)
        room = min(cpus // self.cpus, int(gpus / self.gpus)) if self.gpus else cpus // self.cpus
        if not room:
            raise UsageError(
                f"the Ray cluster must have {self.cpus} CPUs and {self.gpus:g} GPUs for a worker, got {cpus} CPUs and {gpus:g} GPUs",
                hint="a smaller --threads or --gpus-per-worker, or --ray-address of a cluster that has them",
            )
        return room

    @property
    def cpus(self) -> int:
        """Of a worker; Ray lets it have as many threads."""
        return self.source.options.threads or 1

    def hire(self) -> Hand:
        actor = ray.remote(Worker).options(num_cpus=self.cpus, num_gpus=self.gpus, max_restarts=0)
        return ActorHand(actor.remote(self.source), self.keep)

    def hear(self, busy: Sequence[Hand]) -> tuple[Hand, Done | Died]:
        hands = {hand.pending: hand for hand in busy if isinstance(hand, ActorHand)}
        ready = _first_of(list(hands))
        try:
            heard = ray.get(ready)
        except ray.exceptions.RayTaskError as error:
            raise UnexpectedError("a worker of Ray failed outside its work", trace=str(error)) from error
        except ray.exceptions.RayError as error:
            lines = str(error).splitlines() or [type(error).__name__]
            if "creation task" in lines[0]:
                hint = "every node must have the same attrcert and Python"
                raise EngineError(f"a worker of Ray cannot start: {lines[-1]}", hint=hint) from error
            return hands[ready], Died(f"its actor is gone: {lines[0]}")
        if isinstance(heard, AttrcertError):
            raise heard
        return hands[ready], heard


def check_answers(address: str) -> None:
    """Ray itself would try an address where nobody is for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return  # a word such as auto, which Ray looks up
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, error) from error


def _unreachable(address: str | None, error: Exception) -> UsageError:
    return UsageError(
        f"no Ray cluster can be reached at {address}: {error}",
        hint="--ray-address auto finds the one that `ray start` made on this machine; without it Ray starts here",
    )


def _first_of(pending: list[Any]) -> Any:
    """The first result. When Ray's process on this machine is killed, none comes and nobody says so: it is asked for now and then."""
    while True:
        ready, _ = ray.wait(pending, num_returns=1, timeout=PATIENCE)
        if ready:
            return ready[0]
        here = ray.get_runtime_context().get_node_id()
        if any(node["NodeID"] == here and not node["Alive"] for node in _nodes()):
            raise WorkersDiedError("Ray's own process on this machine is gone, and its workers with it", hint=GO_ON)


def _nodes() -> list[dict[str, Any]]:
    return ray.nodes()  # type: ignore[no-untyped-call]
