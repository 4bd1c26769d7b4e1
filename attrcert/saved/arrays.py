"""How arrays that runs save beside their rows are named, for those who write them and those who show them."""

from pathlib import Path

DELTAS, JACOBIANS = "deltas", "jacobians"  # in the metadata of a file: what it holds
MARK = "attrcert"  # the metadata's key; a file without it is somebody else's


def delta_key(index: object, eps: object, attack: object) -> str:
    """A perturbation."""
    return f"index={index}/eps={eps!r}/attack={attack}"


def moved_map_key(index: object, eps: object, attack: object) -> str:
    """The attribution at the perturbed input."""
    return f"{delta_key(index, eps, attack)}/map"


def input_key(index: object) -> str:
    return f"index={index}/input"


def map_key(index: object) -> str:
    """The attribution of the input as it was."""
    return f"index={index}/map"


def of_part(key: str, attribution: object, norm: object, softplus_beta: object = None) -> str:
    """The same in a run with several attributions, norms or softplus versions; the input is one for all."""
    sample, _, rest = key.partition("/")
    part = f"attribution={attribution}/norm={norm}" + (f"/softplus_beta={softplus_beta}" if softplus_beta else "")
    return key if rest == "input" else f"{sample}/{part}/{rest}"


def jacobian_key(index: object) -> str:
    return f"index={index}/jacobian"


def jacobian_file(rows: Path) -> Path:
    """Where the Jacobians of a run lie: beside its CSV."""
    return rows.with_name(f"{rows.name}.{JACOBIANS}.safetensors")
