"""Which earlier run a run is compared with, and whether the two compare: what may differ, and what must not."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attrcert.errors import UsageError
from attrcert.saved.runfiles import RunTable
from attrcert.saved.schemas import differing
from attrcert.vocabulary import did_you_mean

MODEL = ("checkpoint", "checkpoint_sha256", "arch", "arch_args", "arch_sha256", "mean", "std", "output", "classes")
HOW = (
    "seed",
    "dtype",
    "metric",
    "transfer",
    "transfer_from",
    "save_deltas",
    "dataset",
)  # no figure's meaning depends on these
GROUPS = {  # names for several keys of an identity
    "attribution": (
        "attribution", "ig_steps", "quadrature", "baseline", "lrp_rule", "lrp_stabiliser", "layer", "sigma", "radius", "noise_draws",
        "smooth_base", "smooth_unit", "loss_hessian",
    ),
    "norm": ("norm", "p"),
    "data": ("dataset_sha256", "resize", "crop", "channels", "skip", "limit", "indices", "shard"),
    "beta": ("softplus_beta",),
}  # fmt: skip
IMAGES = ("dataset_sha256", "resize", "crop", "channels")  # with these equal, an index means the same image
MANIFEST = "manifest"


@dataclass(frozen=True)
class Pair:
    """A run and its baseline; `paired` where an index means the same image in both, `allowed` is what they may differ in."""

    new: RunTable
    old: RunTable
    paired: bool
    allowed: frozenset[str]


def pair_up(tables: Sequence[RunTable], baselines: Sequence[RunTable], allowed: Collection[str]) -> tuple[Pair, ...]:
    """Each run with the baseline of the same kind. Runs that do not compare are refused, with what differs."""
    pairs = []
    for new in tables:
        like = [old for old in baselines if old.kind == new.kind]
        if len(like) > 1:
            raise UsageError(
                f"{new.name} has two baselines: {like[0].name} and {like[1].name}", hint="give one of them"
            )
        pairs += [Pair(new, old, _comparable(new, old, allowed), frozenset(allowed)) for old in like]
    if not pairs:
        commands = ", ".join(f"{table.name} of `{table.kind}`" for table in (*tables, *baselines))
        raise UsageError(f"each baseline must come from the same command as a run, got {commands}")
    return tuple(pairs)


def _comparable(new: RunTable, old: RunTable, allowed: Collection[str]) -> bool:
    """Whether samples can be paired; raises where the runs differ in what was not allowed to."""
    if new.manifest is None or old.manifest is None:
        if MANIFEST in allowed:
            return False
        without = new if new.manifest is None else old
        raise UsageError(
            f"{without.name} has no manifest, so it is not known whether the runs compare",
            hint=f"keep {without.name}.json beside it, or --allow-mismatch {MANIFEST}",
        )
    ours, theirs = new.manifest["identity"], old.manifest["identity"]
    told = differing_keys(ours, theirs, allowed)
    _check_known(allowed, {*ours, *theirs})
    refused = {key: texts for key, texts in told.items() if key not in allowed}
    if refused:
        raise UsageError(
            f"{new.name} and {old.name} do not compare: "
            + "; ".join(text for texts in refused.values() for text in texts),
            hint="compute one of them again, or " + " ".join(f"--allow-mismatch {key}" for key in refused),
        )
    return not differing(ours, theirs).keys() & {*_images(ours, theirs)}


def _images(*identities: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys that tell which image an index means; the data's name where nothing was hashed."""
    hashed = all(identity.get("dataset_sha256") for identity in identities)
    return IMAGES if hashed else (*IMAGES, "dataset")


def differing_keys(
    ours: Mapping[str, Any], theirs: Mapping[str, Any], allowed: Collection[str] = ()
) -> dict[str, list[str]]:
    """What differs and is not allowed to, by the name of its group, or its own."""
    names = {key: group for group, keys in GROUPS.items() for key in keys}
    names |= {"dataset": "data"} if "dataset" in _images(ours, theirs) else {}
    found: dict[str, list[str]] = {}
    for key, (now, before) in differing(ours, theirs).items():
        if key in MODEL or key in allowed or (key in HOW and key not in names):
            continue
        text = f"{key} is {_brief(now)} and was {_brief(before)}"
        found.setdefault(names.get(key, key), []).append(text)
    return found


def _brief(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _check_known(allowed: Collection[str], keys: Collection[str]) -> None:
    known = {*keys, *GROUPS, MANIFEST}
    for key in allowed:
        if key not in known:
            raise UsageError(
                f"--allow-mismatch must name what a manifest's identity holds, got {key!r}",
                hint=did_you_mean(key, known, f"one of {', '.join(sorted(known))}"),
            )
