"""The columns of what a bounded deviation says of other metrics; each promises what its deviation does."""

from typing import Any, Literal

from attrcert.columns.column import Column, figure
from attrcert.vocabulary import Guarantee


def consequences(
    source: str, guarantee: Guarantee | Literal["row"], suffix: str = "", **more: Any
) -> tuple[Column, ...]:
    """Of what bounds the deviation."""
    return (
        figure(
            f"top_k_bound{suffix}", guarantee, f"least share of the k largest entries by |.| that stay among them, from {source}",
            worse="down", most=1, since=3, compared=("mean",), **more,
        ),
        figure(
            f"pearson_bound{suffix}", guarantee, f"least correlation of the maps, from {source}; empty where nothing follows",
            worse="down", lacking=-1.0, least=-1, most=1, since=3, **more,
        ),
        figure(
            f"mass_centre_bound{suffix}", guarantee, f"most pixels between the centres of mass of |.|, from {source} (images)",
            unit="pixels", since=3, **more,
        ),
    )  # fmt: skip
