"""Labelled samples from a name, an array file, a table, a folder, torchvision or the user's own factory; decoded when asked for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from attrcert.errors import DataError, UsageError
from attrcert.loading import bundled
from attrcert.loading.architectures import factory
from attrcert.loading.array_archives import read_array, read_arrays
from attrcert.loading.arrays import array_samples
from attrcert.loading.birds import PREFIX, birds, birds_of, refuse_birds
from attrcert.loading.class_names import read_classes
from attrcert.loading.files import regular, sha256
from attrcert.loading.image_folders import folder_images
from attrcert.loading.known_sets import set_of, torchvision_set
from attrcert.loading.libraries.library import Preparation
from attrcert.loading.pixels import Form, Images, Wanted
from attrcert.loading.resizing import Resized
from attrcert.loading.scales import Scaled, spans
from attrcert.loading.tables import ENDINGS as TABLES
from attrcert.loading.tables import read_table
from attrcert.loading.wrapping import PICTURE, Opened, called, wrap
from attrcert.registry import no_such
from attrcert.saved.files import readable
from attrcert.settings.declared import declared
from attrcert.settings.sources import DEFAULT_MAX_INPUT, DataSpec
from attrcert.types import PIXELS, Box
from attrcert.vocabulary import Kind

# how data are come by, not which; files of labels and classes are in the identity by what they hold
NOT_CHOSEN = ("data_root", "download", "max_input", "labels", "classes")
# arrays of an .npz; the first is what all were called once, and says nothing
NAMED = {"images": None, "signals": Kind.SIGNALS, "features": Kind.TABULAR}


@dataclass(frozen=True)
class LoadedData:
    """Samples, the indices that were selected, what the manifest says of where they came from, and which shard of them to use;
    `scale` is what their features were divided by; `usual` is how such images are prepared where nobody says otherwise.
    """

    images: Images
    selected: tuple[int, ...]
    facts: dict[str, Any]
    shard: tuple[int, int] | None = None
    max_input: str = DEFAULT_MAX_INPUT
    form: Form = field(default_factory=Form)
    within: Box = PIXELS
    scale: Float[Tensor, " channels"] | None = None
    sources: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    usual: Preparation | None = None
    notes: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # of a table, that are features

    @property
    def indices(self) -> tuple[int, ...]:
        """Those to use: every n-th, so that shards are alike."""
        return self.selected if self.shard is None else self.selected[self.shard[0] - 1 :: self.shard[1]]

    def source(self, index: int) -> str | None:
        """The sample's file, within the folder of the data."""
        return self.sources[index] if self.sources else None

    @property
    def of_pixels(self) -> bool:
        """Whether inputs are pixels in [0, 1]."""
        return self.form == Form() and self.scale is None

    @property
    def units(self) -> str:
        """What eps is measured in, and where inputs may be."""
        if self.of_pixels:
            return "pixel units [0,1]"
        divided = {"std": "each feature's standard deviation", "range": "each feature's range"}
        low, high = self.within.low, self.within.high
        span = f"inputs in [{float(low):g},{float(high):g}]" if low.ndim == 0 else "inputs within the data's range"
        span = span if self.within.widest < inf else "inputs of any size"
        scale = self.facts.get("feature_scale")
        return f"units of {divided[scale]} (maps too), {span}" if scale in divided else f"input units, {span}"

    def named(self, index: int, message: str) -> str:
        """What is wrong with a sample, with its file's name unless that is there already."""
        source = self.source(index)
        return message if source is None or source in message else f"{source}: {message}"

    def label_name(self, label: object) -> str | None:
        """What the class is called, if the data say so."""
        return self.classes[label] if isinstance(label, int) and 0 <= label < len(self.classes) else None


def load_data(spec: DataSpec, *, plane: Kind = Kind.IMAGES, of_model: Sequence[str | int] | None = None) -> LoadedData:
    """The data that `spec` names or holds; nothing is decoded yet. The model may know what samples of two dimensions are, and the names
    of its classes.
    """
    named = isinstance(spec.dataset, str)
    limits = spec.input_range if isinstance(spec.input_range, tuple) else None
    free = (-inf, inf) if isinstance(spec.input_range, str) else None
    wanted = Wanted(Kind(spec.data_kind) if spec.data_kind else None, plane, limits or free)
    said = read_classes(Path(spec.classes)) if spec.classes else None
    known = said or (tuple(map(str, of_model)) if of_model else None)
    found = _source(spec, wanted, known)() if named else wrap(spec.dataset, wanted=wanted)
    if len(found.images) == 0:
        raise DataError(f"{spec.dataset if named else 'the data'} holds no {found.form.kind}")
    images = _resized(found, spec)
    images, within, scale = _spanned(images, found.form, spec)
    selection = {name: getattr(spec, name) for name in declared(DataSpec) if name not in NOT_CHOSEN}
    facts = {**selection, "dataset_sha256": found.digest} if named else _chosen_beside(spec)
    selected = chosen(spec, len(images))
    if spec.shard and spec.shard[0] > len(selected):
        raise UsageError(f"shard {spec.shard[0]}/{spec.shard[1]} of {len(selected)} samples has none")
    return LoadedData(
        images,
        selected,
        facts | ({"classes": list(said)} if said else {}),
        spec.shard,
        spec.max_input,
        found.form,
        within,
        scale,
        found.sources,
        said or found.classes,
        found.usual,
        found.notes,
        found.columns,
    )


def _chosen_beside(spec: DataSpec) -> dict[str, Any]:
    """What is said of data that were given as objects, and is not told by the samples."""
    said = {"input_range": spec.input_range, "feature_scale": spec.feature_scale}
    return {name: value for name, value in said.items() if value is not None}


def _resized(found: Opened, spec: DataSpec) -> Images:
    if not (spec.resize or spec.crop):
        return found.images
    if found.form.kind is not Kind.IMAGES:
        raise UsageError(f"--resize and --crop are for images, and the data are {found.form.kind}")
    return Resized(found.images, spec.resize, spec.crop, found.form)


def _spanned(images: Images, form: Form, spec: DataSpec) -> tuple[Images, Box, Tensor | None]:
    """The samples in the units of --feature-scale, the range that they lie in, and the scale."""
    within = Box.of(form.low, form.high)
    if spec.input_range != "data" and not spec.feature_scale:
        return images, within, None
    seen = spans(images)
    within = seen.within if spec.input_range == "data" else within
    if not spec.feature_scale:
        return images, within, None
    scale = seen.scale(spec.feature_scale)
    entries = scale.view(-1, *[1] * (seen.low.ndim - 1)).expand_as(seen.low).flatten()
    return Scaled(images, scale), within.divided(entries), scale


def chosen(spec: DataSpec, size: int) -> tuple[int, ...]:
    """The indices that --indices, or --skip and --limit, pick."""
    if spec.indices is not None and (spec.skip or spec.limit is not None):
        raise UsageError("--indices excludes --skip and --limit")
    picked = spec.indices if spec.indices is not None else tuple(range(size))[spec.skip :][: spec.limit]
    beyond = [index for index in picked if not 0 <= index < size]
    if beyond:
        raise UsageError(f"--indices must be below {size}, the number of samples, got {beyond[0]}")
    if not picked:
        raise UsageError(f"no sample is left: {size} samples, --skip {spec.skip}")
    return picked


def look_for(spec: DataSpec) -> None:
    """Refuse a name that leads nowhere, before anything is loaded or run."""
    if isinstance(spec.dataset, str):
        _source(spec, Wanted(), None)


def _source(spec: DataSpec, wanted: Wanted, classes: tuple[str, ...] | None) -> Callable[[], Opened]:
    """What opens the data that a name stands for."""
    name = spec.dataset
    path = bundled.samples().get(name) or Path(name)
    _check_beside(spec, path)
    if name.startswith("torchvision:"):
        set_of(name)
        return lambda: torchvision_set(spec, wanted)
    if name.startswith(PREFIX):
        birds_of(name)
        return lambda: birds(spec, wanted)
    if path.suffix in ARRAYS:
        regular(path, "data file", DataError)
        return lambda: ARRAYS[path.suffix](path, spec, wanted, classes)
    with readable(path):
        if path.is_dir():
            refuse_birds(path)
            return lambda: _folder(path, spec, wanted, classes)
        if ":" in name:
            return lambda: wrap(called(factory(name), {}, name), name, wanted=wanted)
        if path.exists():
            raise DataError(
                f"data must be a folder of images, an {', '.join(ARRAYS)} file or module:factory, got the file {path}"
            )
    if path.suffix or path.parent != Path("."):
        raise DataError(f"there is no data file or folder {path}")
    raise no_such("data file or folder", name, "sample", bundled.samples())


def _check_beside(spec: DataSpec, path: Path) -> None:
    """Options that only some kinds of files have a use for."""
    if spec.labels is not None and path.suffix != ".npy":
        raise UsageError(f"--labels goes with an .npy, got the data {spec.dataset}")
    if spec.label_column is not None and path.suffix not in TABLES:
        raise UsageError(f"--label-column goes with {' and '.join(TABLES)}, got the data {spec.dataset}")


def _archive(path: Path, spec: DataSpec, wanted: Wanted, classes: tuple[str, ...] | None) -> Opened:
    found, samples, labels = read_arrays(path, tuple(NAMED), "labels", spec.max_input)
    made = array_samples(samples, labels, path.name, wanted, called=NAMED[found])
    return Opened(made, made.form, sha256(path))


def _single_array(path: Path, spec: DataSpec, wanted: Wanted, classes: tuple[str, ...] | None) -> Opened:
    labels = None if spec.labels is None else Path(spec.labels)
    made = array_samples(read_array(path), None if labels is None else read_array(labels), path.name, wanted)
    return Opened(made, made.form, "+".join(sha256(one) for one in (path, labels) if one is not None))


def _table(path: Path, spec: DataSpec, wanted: Wanted, classes: tuple[str, ...] | None) -> Opened:
    table = read_table(path, spec.label_column, classes, spec.max_input)
    made = array_samples(table.features, table.labels, path.name, wanted)
    return Opened(made, made.form, sha256(path), classes=table.classes, notes=table.notes, columns=table.columns)


ARRAYS: Mapping[str, Callable[[Path, DataSpec, Wanted, tuple[str, ...] | None], Opened]] = {
    ".npz": _archive,
    ".npy": _single_array,
    **dict.fromkeys(TABLES, _table),
}


def _folder(path: Path, spec: DataSpec, wanted: Wanted, classes: tuple[str, ...] | None) -> Opened:
    form = wanted.form(PICTURE, path.name)
    made = folder_images(path, "L" if spec.channels == 1 else "RGB", spec.max_input, form, classes)
    return Opened(made.images, form, made.digest, made.sources, made.classes)
