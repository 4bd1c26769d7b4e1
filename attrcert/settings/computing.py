"""How to compute, which no result depends on."""

from dataclasses import dataclass

from attrcert.errors import UsageError
from attrcert.settings.declared import RUN, Settings, setting
from attrcert.sizes import parse_bytes


def _size(text: str, name: str) -> int | None:
    """A whole number, or auto."""
    if text == "auto":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"{name} must be auto or a whole number of at least 1, got {text!r}")
    return int(text)


@dataclass(frozen=True)
class Place(Settings):
    """Where to compute."""

    device: str = setting("auto", "auto, cpu, cuda, cuda:1, ...", RUN, basic=True)


@dataclass(frozen=True)
class RunOptions(Place):
    """Of one process: where, and how much at once."""

    batch_size: int | None = setting(
        None, "Samples at once, or auto: as many as fit into --memory.", RUN, read=_size, least=1, unsaid="auto"
    )
    chunk: int | None = setting(
        None,
        "Points (samples times nodes or draws) differentiated together, or auto: the fastest of a few sizes, measured on the first "
        "samples where the run is long enough.", RUN, read=_size, least=1, flags=("--chunk", "--ig-chunk"), unsaid="auto",
    )  # fmt: skip
    memory: str = setting("4GB", "What the graphs and bases of a batch may fill, e.g. 4GB.", RUN)
    max_hours: float = setting(12.0, "Refuse row sums that are estimated to take longer.", RUN)
    threads: int | None = setting(
        None, "CPU threads of each process.", RUN, least=1, unsaid="all cores, which local workers share; a Ray worker has one",
    )  # fmt: skip
    sharing: int = 1  # workers that share the memory

    def check(self) -> None:
        parse_bytes(self.memory)
        if not self.max_hours > 0:
            raise UsageError(f"--max-hours must be positive, got {self.max_hours}")


@dataclass(frozen=True)
class Workers(Settings):
    """Who computes."""

    engine: str = setting(
        "local", "Where batches are computed: in processes here, or by Ray (needs attrcert[ray]).", RUN, choices=("local", "ray"),
    )  # fmt: skip
    workers: int = setting(
        1, "Processes (local) or actors (ray), each with a model of its own.", RUN, least=1, basic=True
    )
    ray_address: str | None = setting(
        None, "Of a Ray cluster, or auto for the one of this machine.", RUN, unsaid="Ray is started here",
    )  # fmt: skip
    gpus_per_worker: float = setting(0.0, "GPUs, or a share of one, that Ray gives to each worker.", RUN, least=0)

    def check(self) -> None:
        if self.engine == "local" and (self.ray_address is not None or self.gpus_per_worker):
            raise UsageError("--ray-address and --gpus-per-worker go with --engine ray")

    @property
    def sharing(self) -> int:
        """Workers that share this machine's memory."""
        return self.workers if self.engine == "local" else 1
