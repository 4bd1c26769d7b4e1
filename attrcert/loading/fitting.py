"""The weights of a file that fit a network best, wherever in the file they stand; what is left out is told, what is missing is an error."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor, nn

from attrcert.errors import CheckpointError, UsageError
from attrcert.loading.weight_files import AVERAGED, DEEPEST, Tree, WeightFile
from attrcert.vocabulary import shortened, some

MOST_ARGUMENTS, MOST_CHANNELS = 20, 16  # that are told
COUNTER = "num_batches_tracked"  # of batch norms, which nothing depends on


@dataclass(frozen=True)
class Fit:
    """Tensors under the names that are wanted, and how they were found: entry, prefix, what stands beside them, and who fits too."""

    wanted: Mapping[str, Tensor]
    weights: Mapping[str, Tensor]
    tree: Tree
    prefix: str = ""
    beside: tuple[str, ...] = ()
    rivals: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        return _place(self.tree, self.prefix)


Names = Sequence[Mapping[str, Tensor]]  # the network's tensors under its own names, and under those that files may have
Renamed = Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]]


def fitted(names: Names, file: WeightFile, entry: str | None = None) -> Fit:
    """The best fit to the first of the names under which most tensors are there."""
    fits = [best_fit(wanted, file, entry) for wanted in names]
    return max(fits, key=lambda fit: len(fit.wanted.keys() & fit.weights.keys()))


def best_fit(wanted: Mapping[str, Tensor], file: WeightFile, entry: str | None = None) -> Fit:
    """The entry and prefix with most of the wanted tensors; of those that fit alike, one that holds no averages, then as `Tree`s come,
    then the shorter prefix.
    """
    trees = [tree for tree in file.trees if entry is None or tree.entry == entry]
    if not trees:
        known = some([tree.entry for tree in file.trees if tree.entry], 20) or "none"
        raise UsageError(
            f"--checkpoint-key must be an entry of {file.name} with tensors, got {entry!r}; it has {known}"
        )
    found = [
        (-matched, bool(AVERAGED.search(prefix)), place, prefix.count("."), prefix, tree)
        for place, tree in enumerate(trees)
        for prefix, matched in _prefixes(tree.weights, wanted).items()
    ]
    if not found:
        return Fit(wanted, trees[0].weights, trees[0])
    ordered = sorted(found, key=lambda one: one[:4])
    most, *_, prefix, tree = ordered[0]
    fit = _fit(wanted, tree, prefix)
    complete = not any(problems(wanted, fit.weights).values())
    rivals = tuple(_place(one[5], one[4]) for one in ordered[1:] if one[0] == most) if complete else ()
    return replace(fit, rivals=rivals)


def problems(wanted: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> dict[str, list[str]]:
    """What keeps the given weights from being those of the network."""
    common = [key for key in wanted if key in given]
    own = {_stem(key) for key in wanted}
    odd = {
        "missing": [key for key in wanted if key not in given and not key.endswith(COUNTER)],
        "of another shape": [
            f"{key} {tuple(given[key].shape)} instead of {tuple(wanted[key].shape)}"
            for key in common
            if given[key].shape != wanted[key].shape
        ],
        "of another kind": [
            f"{key} {given[key].dtype} instead of {wanted[key].dtype}"
            for key in common
            if given[key].is_floating_point() != wanted[key].is_floating_point() and not key.endswith(COUNTER)
        ],
    }
    unexpected = [key for key in given if key not in wanted]
    misfit = any(odd.values()) or not common
    # a part that the network has none like may stand beside it; one more of a kind that it has makes another network
    return odd | {"unexpected": [key for key in unexpected if misfit or _stem(key) in own]}


def other_classes(fit: Fit) -> int | None:
    """How many classes the weights have, where nothing but the number of outputs of the last layer keeps them from fitting."""
    wanted, given = fit.wanted, fit.weights
    differing = [key for key in wanted if key in given and wanted[key].shape != given[key].shape]
    missing = [key for key in wanted if key not in given and not key.endswith(COUNTER)]
    if missing or any(wanted[key].shape[1:] != given[key].shape[1:] for key in differing):
        return None
    ours, theirs = ({tensors[key].shape[:1] for key in differing} for tensors in (wanted, given))
    return next(iter(theirs))[0] if len(ours) == len(theirs) == 1 and all(theirs) else None


def last_layer(file: WeightFile) -> int | None:
    """How many outputs the last layer of a file's likeliest weights has."""
    matrices = [tensor for tensor in file.trees[0].weights.values() if tensor.ndim >= 2]
    return matrices[-1].shape[0] if matrices else None


def fill(network: nn.Module, fit: Fit, file: WeightFile, renamed: Renamed = dict) -> list[str]:
    """Load the weights strictly: every tensor of the network, of its shape and kind. Says what was left out and what fitted too.
    `renamed` brings them under the network's own names where others were wanted.
    """
    wrong = problems(fit.wanted, fit.weights)
    if any(wrong.values()):
        listed = "; ".join(f"{len(keys)} {kind}: {some(keys)}" for kind, keys in wrong.items() if keys)
        saved = some([f"{key}={value}" for key, value in file.arguments.items()], MOST_ARGUMENTS)
        raise CheckpointError(
            f"{file.name} does not fit the architecture: {listed}",
            hint="check --arch and --arch-arg" + (f"; it was saved with {saved}" if saved else ""),
        )
    used = {key: tensor for key, tensor in fit.weights.items() if key in fit.wanted}
    network.load_state_dict(used if fit.wanted.keys() == network.state_dict().keys() else renamed(used), strict=False)
    return list(_told(fit, [fit.prefix + key for key in fit.weights if key not in used], file.name))


def _told(fit: Fit, unused: list[str], name: str) -> Iterator[str]:
    left = [*unused, *fit.beside]
    if left:
        told = "".join(_said_of_normalisation(key, fit.tree.weights[key]) for key in left)
        yield f"{len(left)} tensors of {name} are left out, since the architecture has none of their names: {some(left)}{told}"
    if fit.rivals:
        yield (
            f"{name} has weights that fit under {fit.place} and under {some(list(fit.rivals))}; those under {fit.place} are taken "
            "(--checkpoint-key takes another entry)"
        )


def _said_of_normalisation(key: str, tensor: Tensor) -> str:
    """Of a tensor that is left out and may be what inputs are normalised with, which the architecture then does not do."""
    word = key.rpartition(".")[2].rpartition("_")[2]
    if word not in ("mean", "std") or key.endswith("running_mean") or tensor.numel() > MOST_CHANNELS:
        return ""
    values = ",".join(f"{value:.4g}" for value in tensor.flatten().tolist())
    return f"; {key} may be the model's normalisation: --{word} {values}"


def _prefixes(given: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> Counter[str]:
    """How many of the wanted tensors there are after each prefix: those of their shape count twice."""
    found: Counter[str] = Counter()
    for key, tensor in given.items():
        parts = key.split(".", DEEPEST)
        for cut in range(len(parts)):
            rest = ".".join(parts[cut:])
            if rest in wanted:
                found[key[: len(key) - len(rest)]] += 1 + (wanted[rest].shape == tensor.shape)
    return found


def _fit(wanted: Mapping[str, Tensor], tree: Tree, prefix: str) -> Fit:
    inside = {key.removeprefix(prefix): tensor for key, tensor in tree.weights.items() if key.startswith(prefix)}
    return Fit(wanted, inside, tree, prefix, tuple(key for key in tree.weights if not key.startswith(prefix)))


def _stem(key: str) -> str:
    """What a tensor belongs to, without its number: layer of layer3.0.weight."""
    return key.partition(".")[0].rstrip("0123456789_")


def _place(tree: Tree, prefix: str) -> str:
    return shortened(" ".join(part for part in (tree.entry, f"{prefix}*" if prefix else "") if part) or "no entry", 60)
