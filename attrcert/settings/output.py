"""Where results go, and what else a command can be asked for."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attrcert.errors import UsageError
from attrcert.saved.files import check_free
from attrcert.saved.manifests import manifest_of
from attrcert.settings.declared import ATTACK, OUTPUT, RUN, SMOOTHING, THRESHOLD, Settings, option, setting
from attrcert.settings.presets import PRESETS
from attrcert.vocabulary import parse_indices

FORMATS = ("table", "json", "csv", "markdown", "latex")


def path(text: str, name: str) -> Path:
    return Path(text)


@dataclass(frozen=True)
class Complete(Settings):
    """How many samples may lack what was asked for."""

    max_incomplete: float = setting(0.0, "Exit 4 if a larger share of samples has no figure.", RUN, least=0, most=1)


@dataclass(frozen=True)
class Quiet(Settings):
    """Whether stderr stays empty."""

    quiet: bool = setting(False, "No progress and no warnings on stderr.", OUTPUT, flags=("--quiet", "-q"), basic=True)


@dataclass(frozen=True)
class Format(Settings):
    """How stdout looks."""

    format: str = setting("table", "Format of stdout.", OUTPUT, choices=FORMATS, basic=True)
    json: bool = setting(False, "The same as --format json.", OUTPUT)

    def check(self) -> None:
        """A flag stands for the format of its name, and for no other."""
        flags = [name for name in FORMATS if getattr(self, name, False)]
        said = [*map(option, flags), *([] if self.format in ("table", *flags) else [f"--format {self.format}"])]
        if flags and len(said) > 1:
            raise UsageError(f"{' and '.join(said)} exclude each other")
        if flags:
            object.__setattr__(self, "format", flags[0])


@dataclass(frozen=True)
class Output(Format, Complete, Quiet):
    """Of commands with rows."""

    out: Path | None = setting(
        None, "CSV with one row per sample and case; the manifest goes beside it.", OUTPUT, read=path, basic=True
    )
    resume: bool = setting(False, "Continue the run that --out holds.", OUTPUT, basic=True)
    overwrite: bool = setting(False, "Replace what --out holds.", OUTPUT, basic=True)
    dry_run: bool = setting(
        False,
        "Say what would be computed, how long it takes and in how much memory, and exit without rows.",
        OUTPUT,
        basic=True,
    )
    require: tuple[str, ...] = setting(
        (), 'Judge the rows and exit 1 if this does not hold, e.g. "p95(T_c_deg) <= 30"; repeatable. See `attrcert gate`.',
        OUTPUT, many=True, whole=True, metavar="RULE", basic=True,
    )  # fmt: skip

    def needs_file(self, other: Path | None = None) -> None:
        """--resume continues a CSV; --overwrite replaces it, or another file that the command writes."""
        if self.out is None and (self.resume or (self.overwrite and other is None)):
            raise UsageError("--resume and --overwrite need --out")


@dataclass(frozen=True)
class Keeping(Settings):
    """What is kept beside the rows."""

    save_jacobian: tuple[int, ...] = setting(
        (), "Keep the attribution's Jacobian at these samples, e.g. 3 or 3,17, in a file beside --out (d up to 4096).",
        OUTPUT, read=parse_indices, metavar="INDICES",
    )  # fmt: skip


@dataclass(frozen=True)
class Campaigning(Settings):
    """What an attack's command has beside the attacks."""

    preset: str | None = setting(None, "A paper's settings, where none are given.", ATTACK, choices=tuple(PRESETS))
    auc: bool = setting(False, "Also the area under each figure over the eps list.", OUTPUT)
    save_deltas: Path | None = setting(
        None, "Keep the perturbations in this .safetensors file, keyed by index, eps and attack.", OUTPUT, read=path, basic=True,
    )  # fmt: skip

    @property
    def meant(self) -> Mapping[str, Any]:
        """The preset's settings."""
        return PRESETS[self.preset].settings if self.preset else {}

    @contextmanager
    def blamed(self, given: Collection[str]) -> Iterator[None]:
        """An error about a setting that was not given, but is the preset's, says so."""
        try:
            yield
        except UsageError as error:
            for name in self.meant:
                if name not in given and error.message.startswith(f"{option(name)} "):
                    raise UsageError(
                        f"{error.message}, which the preset {self.preset} sets", hint=error.hint
                    ) from error
            raise


@dataclass(frozen=True)
class Global(Settings):
    """A bound without a model."""

    smoothgrad_lipschitz: float | None = setting(
        None,
        "The global bound for SmoothGrad of any function with |f| <= F (probabilities: 0.5), with --sigma and --max-deviation; no model "
        "or data are read.", THRESHOLD, metavar="F",
    )  # fmt: skip


@dataclass(frozen=True)
class ClosedForm(Settings):
    """What the paper prints."""

    published: float | None = setting(
        None, "Print the published closed form for this |h|/M instead: not an answer, since |h| depends on the radius.",
        SMOOTHING, least=0, most=1,
    )  # fmt: skip


@dataclass(frozen=True)
class Files(Settings):
    """Where the maps go."""

    out: Path = setting(Path("maps.npz"), "An .npz file for the maps.", OUTPUT, read=path, basic=True)
    png: Path | None = setting(None, "A folder for heatmaps beside their inputs.", OUTPUT, read=path, basic=True)
    csv: Path | None = setting(
        None, "With --certify-pixels: a CSV with one row per sample, for `gate` and `report`; the manifest goes beside it.", OUTPUT,
        read=path, basic=True,
    )  # fmt: skip
    overwrite: bool = setting(False, "Replace the files.", OUTPUT, basic=True)

    def check(self) -> None:
        if self.out.suffix != ".npz" or not self.out.parent.is_dir():
            raise UsageError(f"--out must name an .npz file in a folder that exists, got {self.out}")
        if self.csv is not None and (self.csv.suffix == ".npz" or not self.csv.parent.is_dir()):
            raise UsageError(f"--csv must name a CSV in a folder that exists, got {self.csv}")
        check_free(self.out, *((self.csv, manifest_of(self.csv)) if self.csv else ()), overwrite=self.overwrite)


@dataclass(frozen=True)
class Findings(Format):
    """How the findings are shown."""

    format: str = setting("table", "Format of stdout.", OUTPUT, choices=("table", "json"), basic=True)
