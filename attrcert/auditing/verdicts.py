"""The verdict of an audit in words: each sentence is made by one function, of rows alone, and says what it rests on.

The answer comes first, and then what weakens it. Reached figures are rounded down and bounds up, so that no sentence says too much.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import acos
from math import degrees as in_degrees
from statistics import median

from attrcert.auditing.parts import ATTACK, LEAST_COSINE, PROOF, SMOOTH
from attrcert.auditing.phrases import counted, degrees, listed, parts, percent
from attrcert.columns import Row
from attrcert.reporting.gating.promises import broken
from attrcert.reporting.summaries.statistics import figures, grouped, number, on_maps, usable
from attrcert.settings.auditing import Yard
from attrcert.vocabulary import Status, round_down, round_up

TURNED = 30.0  # degrees by which a map must turn to be called another one
MANY, SOME = 0.5, 0.05  # shares of the samples
FEW = 8  # samples of which little can be said
FAR = 1.1  # times a first-order bound: an attack that is farther has refuted it, and not its last digits
NO_ANGLE = 180.0  # what is counted where no angle follows
ANGLE = in_degrees(acos(LEAST_COSINE))
TWIN = "softplus twin"  # the check of it


@dataclass(frozen=True)
class Grounds:
    """The rows of each part, what perturbations are measured by, what the checks warned of, which parts are left out and why, and of
    several attributions whose each part is."""

    rows: Mapping[str, Sequence[Row]]
    yard: Yard
    warned: Mapping[str, str]
    left_out: Mapping[str, str]
    whose: Mapping[str, str] = field(default_factory=dict)

    def of(self, kind: str) -> list[Row]:
        """The rows with figures of the parts of a kind."""
        return on_maps(usable(row for name, rows in self.rows.items() if name.startswith(kind) for row in rows))

    def balls(self, rows: Iterable[Row]) -> dict[tuple[str, float], str]:
        """Norms and sizes, and how they are written: of pixels sizes in linf as parts of 255."""
        cases = dict.fromkeys((str(row["norm"]), number(row["eps"])) for row in rows)
        parts = self.yard.spread is None
        return {
            (norm, eps): f"{norm} {f'{255 * eps:.4g}/255' if norm == 'linf' and parts else f'{eps:.4g}'}"
            for norm, eps in cases
        }

    def cases(self, kind: str) -> dict[str, list[Row]]:
        """A row of each sample per ball: that of the attack which turned it farthest."""
        rows = self.of(kind)
        names, found = self.balls(rows), dict[str, dict[object, Row]]()
        for row in rows:
            case = found.setdefault(names[str(row["norm"]), number(row["eps"])], {})
            before = case.get(row["index"])
            if before is None or _angle(row) > _angle(before):
                case[row["index"]] = row
        return {ball: list(of_ball.values()) for ball, of_ball in found.items()}

    def of_map(self, attribution: str) -> "Grounds":
        """The same of the parts of one attribution."""
        whose = {name: other for name, other in self.whose.items() if other == attribution}
        rows = {name: rows for name, rows in self.rows.items() if self.whose.get(name, "") == attribution}
        left_out = {name: why for name, why in self.left_out.items() if self.whose.get(name, "") == attribution}
        return replace(self, rows=rows, left_out=left_out, whose=whose)

    @property
    def map(self) -> str:
        told = (str(row["attribution"]) for rows in self.rows.values() for row in rows if row.get("attribution"))
        return next(filter(None, self.whose.values()), "") or next(told, "map").removesuffix(", unit")


def verdict(found: Grounds) -> tuple[str, ...]:
    """All sentences that there is something to say for; of several attributions each has its own, and what is true of all is said once."""
    told: dict[str, None] = {}
    for attribution in dict.fromkeys(found.whose.values()) or [""]:
        own, heading = found.of_map(attribution), [f"{attribution}:"] if attribution else []
        told |= dict.fromkeys([*heading, *(sentence for tell in SENTENCES for sentence in tell(own))])
    return tuple(told)


def contradicted(found: Grounds) -> Iterable[str]:
    """A bound that promised to hold and did not."""
    if rows := broken(row for rows in found.rows.values() for row in rows):
        yield f"Something is wrong: an attack exceeded a proved or confidence bound on {len(rows)} rows. Trust no figure here."


def exceeded(found: Grounds) -> Iterable[str]:
    """Where attacks refuted the first-order bounds."""
    rows = refuted(found.of(ATTACK))
    if not rows:
        return
    judged = [row for row in found.of(ATTACK) if row.get("violated") is not None]
    far = f"attacks reached up to {round_down(max(figures(rows, 'tightness')), 3)} times what they allow, and over {FAR:g} times in "
    cases = f"{len(rows)} of {len(judged)} cases (a sample and a ball)"
    if not many_refuted(found.of(ATTACK)):
        yield f"First-order bounds are not certificates: {far}{cases}."
        return
    kinks = found.warned.get("kinks", "")
    reason = f" The network has kinks, which they do not see: {kinks}." if kinks else ""
    yield f"Do not rely on the first-order bounds of this network: {far}{cases}.{reason}"


def refuted(rows: Iterable[Row]) -> list[Row]:
    """The rows whose attack is clearly beyond the first-order bound."""
    return [row for row in rows if row.get("violated") and number(row.get("tightness") or 0.0) > FAR]


def many_refuted(rows: Sequence[Row]) -> bool:
    """Whether that is no exception."""
    return len(refuted(rows)) > SOME * sum(row.get("violated") is not None for row in rows)


def thin(found: Grounds) -> Iterable[str]:
    """What the samples themselves cannot carry."""
    few = {name: count for name, count in _counts(found).items() if count < FEW}
    if few:
        yield f"Few samples: {parts(few)}. Take what they say as a first impression."
    rows = _once(found.of(ATTACK) or found.of(SMOOTH) or found.of(PROOF))
    told = [row for row in rows if row.get("correct") is not None]
    wrong = sum(not row["correct"] for row in told)
    if told and wrong > MANY * len(told):
        yield (
            f"The model is wrong on {wrong} of {len(told)} samples, so these are mostly explanations of wrong answers: check --mean, "
            "--std and the order of the labels."
        )
    failed = {row["index"] for rows in found.rows.values() for row in rows if str(row["status"]).startswith("error:")}
    if failed:
        yield f"{len(failed)} samples could not be used; the message in their rows says why."
    unsure = {row["index"] for row in found.of(ATTACK) if row["status"] == Status.NOT_CONVERGED}
    if unsure:
        yield f"On {len(unsure)} samples the first-order bound did not converge; the message in their rows says why."


def another_network(found: Grounds) -> Iterable[str]:
    """A softplus version that is far from its network."""
    if TWIN in found.warned:
        yield f"Attacks and bounds speak of a softplus version that is not close to the network: {found.warned['softplus twin']}."


def answer(found: Grounds) -> Iterable[str]:
    """Whether the explanation is stable, as far as attacks tell; never better than what they tried."""
    cases = found.cases(ATTACK)
    if not cases:
        yield f"Is the {found.map} stable? No attack was made, so nobody knows how far it moves."
        return
    many = [case for case in cases.items() if _share(case[1]) >= MANY]
    ball, rows = many[0] if many else max(cases.items(), key=lambda case: _share(case[1]))
    share, angles = _share(rows), _angles(rows)
    if share >= MANY:
        yield (
            f"Is the {found.map} stable? No: within {ball} an attack turned {percent(share)} of the maps by more than {TURNED:g} degrees, "
            f"half of all by {degrees(median(angles), round_down)} or more."
        )
    elif share > SOME:
        yield (
            f"Is the {found.map} stable? Not for every sample: within {ball} an attack turned {percent(share)} of the maps by more than "
            f"{TURNED:g} degrees."
        )
    else:
        tried = f"no attack turned more than {percent(SOME)} of the maps by more than {TURNED:g} degrees, within {listed(cases)}"
        doubt = refuted(found.of(ATTACK)) or min(map(len, cases.values())) < FEW or TWIN in found.warned
        known = "That is not shown" if doubt else "As far as these attacks can tell, yes"
        yield (
            f"Is the {found.map} stable? {known}: {tried}. A stronger attack may get farther; only what is proved or certified below is "
            "sure."
        )


def meant(found: Grounds) -> Iterable[str]:
    """What such perturbations are to the eye, or in the data."""
    yard = found.yard
    told = [
        f"{ball} by {yard.levels(eps, norm):.2g}{yard.compared(yard.levels(eps, norm))}"
        for (norm, eps), ball in found.balls(found.of(ATTACK)).items()
    ]
    if told:
        yield (
            f"How large these are, for inputs of {yard.d} numbers, {yard.told}, root mean square in l2 and at most in linf: "
            f"{'; '.join(told)}."
        )


def reached(found: Grounds) -> Iterable[str]:
    """How far attacks turned the maps."""
    cases = found.cases(ATTACK)
    told = [
        f"{degrees(median(_angles(rows)), round_down)} within {ball} (one by {degrees(max(_angles(rows)), round_down)})"
        for ball, rows in cases.items()
    ]
    lost = max((sum(row["status"] == Status.LABEL_CHANGED for row in rows) for rows in cases.values()), default=0)
    none = f" On up to {lost} samples none kept the label; they count as not turned." if lost else ""
    if told:
        yield (
            f"On half of the samples attacks that keep the label turned the {found.map} by {listed(told)} or more: reached, so the worst "
            f"case is at least that.{none}"
        )


def allowed(found: Grounds) -> Iterable[str]:
    """What the first-order bounds say, where they are not refuted."""
    told = []
    for ball, rows in found.cases(ATTACK).items():
        angles = figures(rows, "T_c_deg")
        half = median([*angles, *[NO_ANGLE] * (len(rows) - len(angles))])
        told.append(f"{'any angle' if half >= NO_ANGLE else degrees(half, round_up)} within {ball}")
    if told and not many_refuted(found.of(ATTACK)):
        yield f"First-order bounds allow for half of the samples {listed(told)}: estimates that attacks can exceed, no certificates."


def proved(found: Grounds) -> Iterable[str]:
    """In how large a ball something is proved, per norm, and where nothing is."""
    for of_norm in grouped(found.of(PROOF), lambda row: row["norm"]).values():
        cases, names = grouped(of_norm, lambda row: number(row["eps"])), found.balls(of_norm)
        told = {eps: figures(rows, "angle_proved_deg") for eps, rows in sorted(cases.items(), reverse=True)}
        balls = {eps: ball for (_, eps), ball in names.items()}
        eps = next((eps for eps, angles in told.items() if 2 * len(angles) > len(cases[eps])), None)
        if eps is None:
            yield f"Nothing is proved: even within {balls[min(told)]} the proved bound allows any direction for most samples."
            continue
        angles = told[eps]
        half = f"; on half of them by no more than {degrees(median(angles), round_up)}" if len(angles) > 1 else ""
        yield (
            f"No perturbation within {balls[eps]} can turn it by more than {degrees(max(angles), round_up)} (proved, on {len(angles)} of "
            f"{counted(cases[eps])}{half})."
        )
        if eps < max(told):
            yield f"Within {balls[max(told)]} the proved bound allows any direction for most samples, so nothing is proved there."


def smoothed(found: Grounds) -> Iterable[str]:
    """Within what the smoothed map keeps its direction."""
    for sigma, rows in grouped(found.of(SMOOTH), lambda row: number(row["radius"])).items():
        sizes = [
            number(row["eps_max"])
            for row in rows
            if row["status"] in (Status.OK, Status.EVERYWHERE) and row.get("eps_max")
        ]
        failure = max(figures(rows, "failure"), default=0.0)
        if 2 * len(sizes) <= len(rows):
            yield f"For most samples no ball is certified in which the smoothed map (sigma {sigma:g}) keeps a cosine of {LEAST_COSINE:g}."
            continue
        yield (
            f"The smoothed map (directions averaged over Gaussian noise, sigma {sigma:.3g}) keeps a cosine of {LEAST_COSINE:g} "
            f"({ANGLE:.0f} degrees) within l2 {round_down(min(sizes), 2)} on {len(sizes)} of {counted(rows)}, and on half of them within "
            f"{round_down(median(sizes), 2)} (confidence {100 * (1 - failure):.4g} % for each). It is another map than the {found.map} "
            "above."
        )


def not_done(found: Grounds) -> Iterable[str]:
    """Parts that could not be computed, by name."""
    for name, reason in found.left_out.items():
        yield f"Not computed: {name}, since {reason.rstrip('.')}."


def rests(found: Grounds) -> Iterable[str]:
    """On how many samples each part rests."""
    if counts := _counts(found):
        yield f"Samples that were used: {parts(counts)}."


SENTENCES: tuple[Callable[[Grounds], Iterable[str]], ...] = (
    contradicted, answer, exceeded, thin, another_network, meant, reached, allowed, proved, smoothed, not_done, rests,
)  # fmt: skip


def _once(rows: Iterable[Row]) -> list[Row]:
    """A row of each sample."""
    return list({row["index"]: row for row in rows}.values())


def _angle(row: Row) -> float:
    return number(row.get("T_hat_c_deg") or 0.0)


def _angles(rows: Iterable[Row]) -> list[float]:
    return [_angle(row) for row in rows]


def _share(rows: Sequence[Row]) -> float:
    return sum(angle > TURNED for angle in _angles(rows)) / len(rows)


def _counts(found: Grounds) -> dict[str, int]:
    """Samples of each part."""
    return {name: len(_once(rows)) for name, rows in found.rows.items() if rows}
