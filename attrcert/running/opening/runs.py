"""A run: a checked model, data and task, ready to give rows."""

import platform
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from attrcert.columns import Cell, Row
from attrcert.loading.files import sha256
from attrcert.running.checks.derivatives import KINKS
from attrcert.running.checks.fidelity import Fidelity
from attrcert.running.checks.findings import Finding, Level
from attrcert.running.checks.own_maps import NAME
from attrcert.running.evaluating.evaluate import Evaluation, Warn
from attrcert.running.evaluating.own_maps import own_source
from attrcert.running.evaluating.work import Deltas
from attrcert.running.opening.digests import given_data, given_model
from attrcert.saved.rowfiles import OwnRows, RowFile
from attrcert.settings.computing import RunOptions
from attrcert.settings.sources import DataSpec, ModelSpec
from attrcert.settings.tasks import Task
from attrcert.vocabulary import indices_text

REPORTED_VERSIONS = ("attrcert", "torch", "torchvision", "numpy", "scipy")


@dataclass(frozen=True)
class Source:
    """What a run was opened from: another process can open it again."""

    model: ModelSpec
    data: DataSpec
    config: Task
    options: RunOptions


@dataclass(frozen=True)
class Run(Evaluation):
    """A checked model, data and configuration, ready to give rows."""

    batch_size: int
    fidelity: Mapping[float, Fidelity]  # of each softplus version, by its beta
    findings: tuple[Finding, ...]
    model_facts: Mapping[str, Any]
    rivals: Mapping[str, Mapping[str, Any]]  # the same of other checkpoints
    source: Source | None = None

    def rows(
        self,
        *,
        finished: Collection[Cell] = (),
        size: int | None = None,
        save: Deltas | None = None,
        warn: Warn,
    ) -> Iterator[list[Row]]:
        """Rows a batch at a time. Batches stay the same when some samples are finished, and so do their results.

        An attack's perturbations are given to `save` before their rows.
        """
        for rows in self.evaluated(self.open_batches(finished, size or self.batch_size), save=save, warn=warn):
            yield [row for row in rows if row["index"] not in finished]

    def open_batches(self, finished: Collection[Cell], size: int) -> list[tuple[int, ...]]:
        """The batches with a sample that is not finished."""
        batches = [self.data.indices[i : i + size] for i in range(0, len(self.data.indices), size)]
        return [batch for batch in batches if not all(index in finished for index in batch)]

    def batch(self, indices: tuple[int, ...], *, save: Deltas | None, warn: Warn) -> list[Row]:
        """The rows of one batch."""
        return next(self.evaluated([indices], save=save, warn=warn))

    def with_chunk(self, chunk: int | None) -> "Run":
        """The same with another number of points differentiated together."""
        source = self.source and replace(self.source, options=replace(self.source.options, chunk=chunk))
        return replace(self, work=self.work.with_chunk(chunk), source=source)

    def file(
        self, path: str | Path, *, resume: bool = False, overwrite: bool = False, save_deltas: bool = False
    ) -> RowFile:
        """A CSV for the rows and a manifest beside it, as --out writes them; `save_deltas` where the perturbations are kept too."""
        config, samples = self.config, frozenset(self.data.indices)
        identity = {**self.identity(), **({"save_deltas": True} if save_deltas else {})}
        rows = OwnRows(config.command, identity, config.columns, config.cases, samples)
        return RowFile(Path(path), rows, resume=resume, overwrite=overwrite)

    def identity(self) -> dict[str, Any]:
        """What makes two runs the same run."""
        betas = list(self.fidelity)
        model = self.model_facts or given_model(self.classifier)
        given = {} if "dataset" in self.data.facts else given_data(self.data)
        own = own_source(self.config.explained)
        beta = betas if len(betas) > 1 else next(iter(betas), None)
        told = {**self.config.identity(), **own, **model, **given, **self.data.facts, "softplus_beta": beta}
        if told.get("boxes"):  # what the file holds, wherever it is
            told["boxes"] = sha256(Path(told["boxes"]))
        return {**told, "transfer_from": dict(self.rivals)} if self.rivals else told

    def facts(self) -> dict[str, Any]:
        """What a reader of the summary must know."""
        config, notes = self.config, self.config.notes(len(self.data.selected))
        if not self.fidelity:  # there are no two networks to tell apart
            notes = {**notes, "measured": None}
        norms = dict.fromkeys(f"|delta|_{one.perturbation.delta_norm.p:g} <= eps" for one in config.singles)
        ball = f", perturbations {' or '.join(norms)} in {self.data.units}" if config.perturbs else ""
        classes = {"predicted": "the predicted class", "label": "the labelled class"}.get(
            config.explanation.target, f"class {config.explanation.target}"
        )
        return {
            "model": self.model_facts.get("checkpoint"),
            "data": self.data.facts.get("dataset"),
            config.done: f"{config.about(classes)}{ball}",
            "maps": "; ".join(finding.message for finding in self.findings if finding.check == NAME) or None,
            "activations": self._twin("" if notes.get("measured") else ", and the figures speak of that twin"),
            "kinks": "; ".join(one.message for one in self.findings if one.check == KINKS and one.level is Level.WARN)
            or None,
            **notes,
        }

    def _twin(self, spoken: str) -> str | None:
        if not self.fidelity:
            return None
        betas = ", ".join(f"{beta:g}" for beta in self.fidelity)
        many = len(self.fidelity) > 1
        close = "; ".join(
            (f"beta {beta:g}: " if many else "")
            + f"same label on {one.agreement:.0%}, mean cosine of the gradients {one.cosine:.2f} on {one.samples} samples"
            for beta, one in self.fidelity.items()
        )
        return f"ReLUs run as softplus, beta {betas}{spoken}: {close}"

    def environment(self) -> dict[str, Any]:
        """Where it ran and what was seen of the model; told in the manifest, not compared."""
        close = {f"{beta:g}": asdict(one) for beta, one in self.fidelity.items()}
        return {
            "versions": {"python": platform.python_version(), **{name: version(name) for name in REPORTED_VERSIONS}},
            "device": str(self.device),
            "fidelity": close if len(close) > 1 else next(iter(close.values()), None),
            "findings": [asdict(finding) for finding in self.findings],
            "facts": self.facts(),
            "samples": indices_text(self.data.selected),
        }
