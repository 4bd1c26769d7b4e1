"""The table of maps that are certified pixel by pixel."""

from collections.abc import Iterable, Sequence

from attrcert.columns import Row
from attrcert.reporting.summaries.bounds import Summary, counts_text
from attrcert.reporting.summaries.statistics import figures, mean, number
from attrcert.reporting.tables.text_table import TextTable
from attrcert.vocabulary import Guarantee, round_down, round_up

LOW = ("pixels_top", "pixels_not")


def pixel_table(summary: Summary, rows: Sequence[Row]) -> TextTable:
    """How many pixels are certified on the mean of the samples, and what that guarantees."""
    usable = [row for row in rows if row.get("pixels_share") is not None]
    shares = figures(usable, "pixels_share")
    return TextTable(
        title="Pixels that stay among the largest, or outside, for every small perturbation",
        facts=(*summary.told("failure", "bounded"), *_asked(usable)),
        header=("sigma", "pixels_share mean", "min", *LOW, "pixels_abstained", "samples"),
        cells=(
            (
                f"{number(usable[0]['radius']):.4g}",
                *(f"{round_down(100 * share, 3)} %" for share in (sum(shares) / len(shares), min(shares))),
                *(_mean(usable, name) for name in (*LOW, "pixels_abstained")),
                str(len(usable)),
            ),
        )
        if usable
        else (),
        notes=(
            f"{summary.samples} samples: {counts_text(summary.status, summary.misclassified)}.",
            *_promise(summary, usable),
        ),
    )


def _mean(rows: Sequence[Row], name: str) -> str:
    """Of a count, rounded towards fewer certified pixels."""
    return (round_down if name in LOW else round_up)(mean(figures(rows, name)) or 0.0, 4)


def _asked(rows: Sequence[Row]) -> Iterable[str]:
    """What was marked in each draw."""
    for row in rows[:1]:
        pixels = sum(int(number(row[name])) for name in (*LOW, "pixels_abstained"))
        marked = int(number(row["pixels_marked"]))
        yield f"attribution: {row.get('attribution')}"
        yield f"largest: {marked} of {pixels} pixels, by |g| summed over channels, of each draw"


def _promise(summary: Summary, rows: Sequence[Row]) -> Iterable[str]:
    for row in rows[:1]:
        shared = summary.facts.get("failure") or "for all pixels of a sample together"
        yield f"Draws used: {number(row['samples']):.0f} for each sample. Counts of pixels are means over the samples."
        yield "pixels_share: how many are certified top, divided by how many are the largest."
        yield (
            f"{Guarantee.CONFIDENCE}: with probability 1 - {number(row['failure']):g} over the program's own draws, {shared}, a certified "
            "pixel is on its side for more than half of the noise, at x and at every x + delta with "
            f"|delta|_2 <= {round_down(number(row['pixel_radius']), 4)}. Many pixels keep it farther: pixel_radius in the .npz."
        )
        yield "Of abstained pixels nothing is claimed. More --samples certify more of them; so may a smaller --sigma, but less far."
