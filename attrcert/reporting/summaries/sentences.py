"""What a run found, in plain sentences that say what they rest on: one per attribution, norm, beta and case, from rows alone."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrcert.columns import Cell, Row
from attrcert.reporting.summaries.accuracies import Accuracy, percent
from attrcert.reporting.summaries.bounds import measured_beyond
from attrcert.reporting.summaries.cases import CaseSummary, asked_for, summarise_cases
from attrcert.reporting.summaries.fidelity import kept_labels
from attrcert.reporting.summaries.labels import labels_told
from attrcert.reporting.summaries.localised import summarise_localised
from attrcert.reporting.summaries.scores import summarise_scores
from attrcert.reporting.summaries.statistics import (
    LowStatistic,
    Statistic,
    by_part,
    figures,
    grouped,
    number,
    on_maps,
    unusable_told,
    usable,
)
from attrcert.reporting.tables.text_table import plain, told
from attrcert.vocabulary import CENTRE, Guarantee, part_name, plain_name, round_down, round_up

Found = Iterable[str]
WORTH = {
    Guarantee.FIRST_ORDER: "By first-order estimates, which attacks can exceed,",
    Guarantee.CORRECTED: "By corrected first-order estimates, which attacks can exceed,",
    Guarantee.PROVED: "It is proved that",
    Guarantee.EMPIRICAL: "By a rule that is no certificate,",
}
NOTHING = "No sample could be used, so nothing is said of the attributions."


def sentences(rows: Sequence[Row], command: str, identity: Mapping[str, Any]) -> list[str]:
    """Of the rows of a command (as their manifest names it) and what their run depended on; failed samples are left out."""
    good = usable(rows)
    claims = dict.fromkeys(claim for part in by_part(good).values() for claim in _CLAIMS[command](part, identity))
    return [*(claims or [NOTHING]), *labels_told(good), *kept_labels(good), *unusable_told(rows)]


def _bounds(rows: Sequence[Row], identity: Mapping[str, Any]) -> Found:
    """What is proved where that was asked for, and what is estimated where nothing is."""
    asked = any(row.get("guarantee") == Guarantee.PROVED for row in rows)
    for of_eps in _by_eps(rows):
        limit = _limit(of_eps, "angle_proved_deg") if asked else None
        if asked:
            yield _bounded(of_eps, Guarantee.PROVED, limit)
        if limit is None:
            yield _measured(of_eps) + _bounded(of_eps, Guarantee.FIRST_ORDER, _limit(of_eps, "T_c_deg"))


def _measured(rows: Sequence[Row]) -> str:
    """What the run itself saw of perturbations beyond the estimate."""
    beyond, samples = measured_beyond(rows)
    if not beyond:
        return ""
    return (
        f"T_e is too low on {beyond} of {samples} samples: there the worst perturbation found moves the map farther. "
    )


def _limit(rows: Sequence[Row], name: str) -> float | None:
    """The angle that half of the samples keep, or none; those without a bound lie beyond every angle."""
    found = figures(rows, name)
    return Statistic.of(found, beyond=len(rows) - len(found)).median


def _bounded(rows: Sequence[Row], guarantee: Guarantee, limit: float | None) -> str:
    proved = guarantee is Guarantee.PROVED
    if limit is not None:
        return (
            f"{WORTH[guarantee]} the {_map(rows)} turns by no more than {_degrees(limit, round_up)} within {_ball(rows)} on "
            f"{_at_least_half(rows)}."
        )
    name = "angle_proved_deg" if proved else "T_c_deg"
    without = f"{len(rows) - len(figures(rows, name))} of {len(rows)} samples"
    worth = "Nothing is proved of" if proved else "First-order estimates do not limit"
    return f"{worth} how far perturbations within {_ball(rows)} turn the {_map(rows)} on {without}."


def _attacks(rows: Sequence[Row], identity: Mapping[str, Any]) -> Found:
    """The best of the attacks on each sample, beside what it was to stay below; and what is left of the accuracy."""
    for of_eps in _by_eps(on_maps(rows)):
        samples = list(grouped(of_eps, lambda row: row["index"]).values())
        turned = "T_hat_c_deg" if figures(of_eps, "T_hat_c_deg") else "T_hat_e"
        reached = LowStatistic.of([max(figures(one, turned), default=0.0) for one in samples]).median or 0.0
        moved = (
            f"turned the {_map(of_eps)} by at least {_degrees(reached, round_down)}"
            if turned == "T_hat_c_deg"
            else f"moved the {_map(of_eps)} by at least {round_down(reached, 3)} (T_hat_e)"
        )
        yield f"Within {_ball(of_eps)} an attack that keeps the label {moved} on {_half(samples)}{_compared(samples)}."

    for of_eps in _by_eps(rows):
        for attack, of_attack in grouped(of_eps, lambda row: str(row.get("attack"))).items():
            if one := Accuracy.of_rows(of_attack):
                yield _left(of_attack, attack, one)


def _left(rows: Sequence[Row], attack: str, one: Accuracy) -> str:
    """The accuracy under attack; a transferred one has its checkpoint."""
    made, right = attack.partition(":")[2], "right" if one.labelled else "with the prediction that they had"
    before = f", from {percent(one.accuracy)} without" if one.labelled else ""
    who = f"perturbations found on {made} leave" if made else "an attack on the predictions leaves"
    left = f"{percent(one.accuracy_attacked)} of the {len(rows)} samples {right}{before}"
    return f"Within {_ball(rows)} {who} {left}; a stronger attack may leave fewer."


def _compared(samples: Sequence[Sequence[Row]]) -> str:
    """What the attack says of the bounds that stand beside it."""
    told = []
    for name, flag in (("the first-order bound T_e", "violated"), ("the proved bound", "violated_proved")):
        seen = [
            any(row.get(flag) is True for row in one)
            for one in samples
            if any(row.get(flag) is not None for row in one)
        ]
        if seen:
            told.append(f"{name} on {f'{sum(seen)} of {len(seen)}' if any(seen) else 'none'}")
    return f"; it exceeded {' and '.join(told)}" if told else ""


def _turned(rows: Sequence[Row], identity: Mapping[str, Any]) -> Found:
    for of_case in grouped(rows, lambda row: (row.get("radius"), row.get("eps"))).values():
        reached = LowStatistic.of([max(figures([row], "T_hat_c_deg"), default=0.0) for row in of_case]).median or 0.0
        yield (
            f"Within {_ball(of_case)} an attack turned the smoothed {_map(of_case)} by at least {_degrees(reached, round_down)} on "
            f"{_half(of_case)}."
        )
    yield from _smoothed(rows, identity)


def _inverted(rows: Sequence[Row], identity: Mapping[str, Any]) -> Found:
    """The eps within which half of the samples keep a threshold; an empty one is beyond every eps."""
    for (kind, threshold), of_case in grouped(rows, lambda row: (row["threshold_kind"], row["threshold"])).items():
        found = figures(of_case, "eps_max")
        eps = LowStatistic.of(found, above=len(of_case) - len(found)).median
        within = "of any size" if eps is None else f"within {_norm(of_case)} {round_down(eps, 3)}"
        kept = _kept(str(kind), number(threshold)).format(f"the {_map(of_case)}")
        worth = WORTH[Guarantee(str(of_case[0].get("guarantee") or Guarantee.FIRST_ORDER.value))]
        worth = WORTH[Guarantee.CORRECTED] if identity.get("corrected") else worth
        yield f"{worth} no perturbation {within} {kept} on {_at_least_half(of_case)}."


def _kept(kind: str, threshold: float) -> str:
    """What a perturbation does not do to the maps."""
    return {
        "angle": f"turns {{}} by more than {threshold:g} degrees",
        "deviation": f"moves {{}} by more than {threshold:g}",
        "cosine-distance": f"takes {{}} farther than a cosine distance of {threshold:g}",
        "top-k": f"leaves less than {100 * threshold:g} % of the largest entries of {{}} among the largest",
    }[kind]


def _smoothed(rows: Sequence[Row], identity: Mapping[str, Any]) -> Found:
    """Of certificates, whichever figure was asked for."""
    figure = asked_for(rows)
    for part in summarise_cases(rows):
        worth = Guarantee(part.guarantee)
        median = part.statistic.median
        kept = bool(median) if figure != "cosine" else median is not None and median >= 0
        claim = (_CERTIFIED[figure] if kept else _uncertified)(part, rows)
        promised = not kept or worth is Guarantee.CONFIDENCE
        notes = [_noise(part, rows), _confidence(rows, identity) if kept and promised else ""]
        told = f" ({', '.join(filter(None, notes))})" if any(notes) else ""
        yield f"{claim[0].upper()}{claim[1:]}{told}." if promised else f"{WORTH[worth]} {claim}{told}."


def _cosine(part: CaseSummary, rows: Sequence[Row]) -> str:
    asked = part.case.get("threshold", max(figures(rows, "threshold"), default=None))
    also = "" if asked is None else f", and of {number(asked):g} on {part.met} of {part.samples}"
    return f"{_who(part, rows)} keeps a cosine of {round_down(part.statistic.median or 0.0, 3)} {_within(part, rows)}{also}"


def _largest(part: CaseSummary, rows: Sequence[Row]) -> str:
    within = f"within {_norm(rows)} {round_down(part.statistic.median or 0.0, 3)}"
    return f"{_who(part, rows)} keeps {_threshold(part)} {within}"


def _smallest(part: CaseSummary, rows: Sequence[Row]) -> str:
    limit = f"with a {_spread(rows)} of {part.statistic.median:g} or less"
    return f"{limit} {_who(part, rows)} keeps {_threshold(part)} {_within(part, rows)}"


def _uncertified(part: CaseSummary, rows: Sequence[Row]) -> str:
    without = f"{part.samples - part.met} of {part.samples} samples"
    if part.figure == "radius_min":
        return f"no {_spread(rows)} of the grid keeps {_threshold(part)} {_within(part, rows)} on {without}"
    claim = f"nothing is certified of the {_how(rows)} {_map(rows)} of {without} {_within(part, rows)}".rstrip()
    return f"{claim}, as 1 - cosine is not bounded below 1" if rows[0].get("noise") == CENTRE else claim


_CERTIFIED = {"cosine": _cosine, "eps_max": _largest, "radius_min": _smallest}


def _who(part: CaseSummary, rows: Sequence[Row]) -> str:
    return f"the {_how(rows)} {_map(rows)} of {_half(range(part.samples))}"


def _how(rows: Sequence[Row]) -> str:
    return "centre-smoothed" if rows[0].get("noise") == CENTRE else "smoothed"


def _threshold(part: CaseSummary) -> str:
    return f"a cosine of {number(part.case['threshold']):g}"


def _within(part: CaseSummary, rows: Sequence[Row]) -> str:
    return f"within {_norm(rows)} {number(part.case['eps']):.4g}" if "eps" in part.case else ""


def _noise(part: CaseSummary, rows: Sequence[Row]) -> str:
    return f"{_spread(rows)} {number(part.case['radius']):g}" if "radius" in part.case else ""


def _spread(rows: Sequence[Row]) -> str:
    return "sigma" if rows[0].get("noise") in ("gaussian", CENTRE) else "radius"


def _pixels(rows: Sequence[Row], identity: Mapping[str, Any]) -> Found:
    share = LowStatistic.of(figures(rows, "pixels_share")).median or 0.0
    radius = min(figures(rows, "pixel_radius"), default=0.0)
    yield (
        f"On {_half(rows)} at least {round_down(100 * share, 3)} % of the largest pixels of the smoothed {_map(rows)} stay among them "
        f"for most of the noise, whatever the perturbation within {_norm(rows)} "
        f"{round_down(radius, 3)} ({_confidence(rows, identity)})."
    )


def _scores(rows: Sequence[Row], identity: Mapping[str, Any]) -> Found:
    """Of each metric the median of the figure that comes first, at each eps."""
    leading = [one for one in summarise_scores(rows) if one.column.leads and one.statistic.median is not None]
    for name, cases in grouped(leading, lambda one: one.column.name).items():
        near = {one.eps: "" if one.eps is None else f" within {_norm(rows)} {one.eps:.4g}" for one in cases}
        medians = _listed([f"{told(one.statistic.median, plain, 3)}{near[one.eps]}" for one in cases])
        samples = max(one.statistic.count for one in cases)
        yield f"The median {name} of the {_map(rows)} is {medians} (measured on {samples} sample{'s' * (samples > 1)})."
    for one in summarise_localised(rows):
        right = "" if one.top1 is None else f", on {percent(one.top1)} with the right class"
        yield f"The box of the {_map(rows)} is that of the object (IoU 0.5) on {percent(one.gt_known)} of {one.samples} samples{right}."


def _listed(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]


def _confidence(rows: Sequence[Row], identity: Mapping[str, Any]) -> str:
    """With what probability, of a sample or of all."""
    failure = max(figures(rows, "failure"), default=0.0)
    return f"confidence {100 * (1 - failure):.6g} % for {'all together' if identity.get('simultaneous') else 'each'}"


def _by_eps(rows: Sequence[Row]) -> Iterable[Sequence[Row]]:
    return grouped(rows, lambda row: row.get("eps")).values()


def _norm(rows: Sequence[Row]) -> str:
    """Of the perturbations; rows that people wrote may lack it."""
    return str(rows[0].get("norm") or "a distance of")


def _ball(rows: Sequence[Row]) -> str:
    return f"{_norm(rows)} {number(rows[0]['eps']):.4g}"


def _map(rows: Sequence[Row]) -> str:
    """The attribution by its name alone: its parameters stand elsewhere; of several softplus versions, which."""
    name, beta = plain_name(str(rows[0].get("attribution") or "attribution")), rows[0].get("softplus_beta")
    return f"{name.replace('-', ' ')} map" + ("" if beta is None else f" ({part_name('softplus_beta', beta)})")


def _half(samples: Sequence[Any]) -> str:
    return f"half of the {len(samples)} samples" if len(samples) > 1 else "the sample"


def _at_least_half(samples: Sequence[Any]) -> str:
    return f"{'at least ' * (len(samples) > 1)}{_half(samples)}"


def _degrees(value: Cell, rounded: Callable[[float, int], str]) -> str:
    return f"{rounded(number(value), 3)} degrees"


_CLAIMS: Mapping[str, Callable[[Sequence[Row], Mapping[str, Any]], Found]] = {
    "bound": _bounds,
    "attack": _attacks,
    "max-eps": _inverted,
    "certify": _smoothed,
    "pixels": _pixels,
    "attack-smooth": _turned,
    "score": _scores,
}
