"""What five papers state and use, and where attrcert has it; shown by `attrcert catalogue papers`. Torch-free."""

from collections.abc import Mapping, Sequence

from attrcert.papers import (
    joo2023towards,
    singh2020attributional,
    wang2020smoothed,
    wang2023practical,
    wang2024certified,
)
from attrcert.papers.item import Item
from attrcert.references import PAPERS

ITEMS: Mapping[str, Sequence[Item]] = {
    "wang2023practical": wang2023practical.ITEMS,
    "wang2024certified": wang2024certified.ITEMS,
    "wang2020smoothed": wang2020smoothed.ITEMS,
    "joo2023towards": joo2023towards.ITEMS,
    "singh2020attributional": singh2020attributional.ITEMS,
}


def entries() -> list[dict[str, str]]:
    """All items, as the catalogue's other families are listed; what a paper's item has no answer to is empty."""
    return [
        {
            "name": item.part,
            "meaning": item.says,
            "reference": f"{PAPERS[key].authors}, {PAPERS[key].venue}",
            "paper": key,
            "sort": item.sort.value,
            "module": item.module,
            "command": item.command,
            "corrected": item.corrected,
        }
        for key, items in ITEMS.items()
        for item in items
    ]
