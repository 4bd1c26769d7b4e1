"""Where a Lanczos process says that lambda_max must lie below: the root U >= theta of sum_{j<=k} p_j(U)^2 = 1/w.

The p_j are the orthonormal polynomials of the process (see `enclosure`, which proves the claim). They have real roots below theta, the
largest Ritz value, so the sum rises above it, and U <= x is decided by one evaluation at x. Of a process in several blocks the block where
the sum is smallest counts. All of this is small and on the host, in numpy, whose calls cost less than torch's.
"""

from dataclasses import replace
from functools import cache

import numpy as np
from jaxtyping import Bool, Float64
from scipy.special import betaincinv

from attrcert.linalg.krylov import SPARES, Section

POINTS, ROUNDS = 33, 4  # of the grid for U, and how often it is refined
# Steps between two rescalings of the sum. In units of the largest coefficient a step multiplies by at most x over the coupling, as a
# rule 1e6 over rounding; four such steps, squared, stay below 1e300. What overflows all the same (failures below 1e-30) errs upwards, or
# is right: inf is reached, as it should be, and a NaN behind it is not, which enlarges U.
RESCALE_EVERY = 4


@cache
def least_mass(n: int, failure: float) -> float:
    """The mass that a fixed direction has in a uniform start, but for a probability of `failure`."""
    return float(betaincinv(0.5, (n - 1) / 2, failure)) if n > 1 else 1.0


def block_mass(section: Section, n: int, failure: float) -> Float64[np.ndarray, " b"]:
    """The mass to count with in every block: m blocks share `failure` as `enclosure` says."""
    shares = [0.9, *(0.1 / 2 ** (m - 1) for m in range(2, 2 + SPARES))]
    by_count = [least_mass(n, (share * failure) ** (1 / m)) for m, share in enumerate(shares, 1)]
    return np.array(by_count)[np.minimum(section.blocks, 1 + SPARES) - 1]


def below(
    section: Section, w: Float64[np.ndarray, " b"], x: Float64[np.ndarray, " b"], signs: Float64[np.ndarray, " ends"]
) -> Bool[np.ndarray, "b ends"]:
    """Whether U <= x, for x above theta; with sign -1 of the negative map."""
    inner, unit = _in_units(section)
    points = (x / unit - _coupling(section))[:, None] * signs
    reached = _log_christoffel(inner, points) >= -np.log(w)[:, None]
    return reached | (section.scale == 0)[:, None]  # of a zero map U is 0


def upper_end(
    section: Section,
    theta: Float64[np.ndarray, " b"],
    w: Float64[np.ndarray, " b"],
    sign: Float64[np.ndarray, " b"],
) -> Float64[np.ndarray, " b"]:
    """U from above: it errs upwards, by 1e-4 of U - theta at most (failures down to 1e-10).

    With sign -1 it is that of the negative map, whose top Ritz value is theta.
    """
    inner, unit = _in_units(section)
    t, wanted = theta / unit, -np.log(w)
    # U - theta lies between rounding and the root of the first term alone, |U - alpha_1| <= beta_1 / sqrt(w)
    low, high = np.full_like(t, -40.0), 2.0 + wanted / 2
    fractions, rows = np.linspace(0, 1, POINTS), np.arange(len(t))
    for _ in range(ROUNDS):
        logs = low[:, None] + (high - low)[:, None] * fractions
        enough = _log_christoffel(inner, sign[:, None] * (t[:, None] + np.exp(logs))) >= wanted[:, None]
        first = np.where(enough, np.arange(POINTS), POINTS - 1).min(axis=1)
        low, high = logs[rows, np.maximum(first - 1, 0)], logs[rows, first]
    return np.where(section.scale > 0, unit * (t + np.exp(high) + _coupling(section)), theta)


def _in_units(section: Section) -> tuple[Section, Float64[np.ndarray, " b"]]:
    """The section in units of its largest coefficient, and these; couplings of a zero map or behind the last step are 1."""
    unit = np.where(section.scale == 0, 1.0, section.scale)
    nothing = (section.scale == 0)[:, None] | ~section.counted
    beta = np.where(nothing, 1.0, section.beta / unit[:, None])
    return replace(section, alpha=section.alpha / unit[:, None], beta=beta), unit


def _coupling(section: Section) -> Float64[np.ndarray, " b"]:
    """What the coupling of blocks at the rounding level may add, in units of the largest coefficient."""
    return section.rounding * (section.blocks - 1)


@np.errstate(over="ignore", invalid="ignore")
def _log_christoffel(section: Section, x: Float64[np.ndarray, "b points"]) -> Float64[np.ndarray, "b points"]:
    """log sum_{j=0..k} p_j(x)^2 at points x of each sample, of the block where it is smallest.

    The negative map has the polynomials of -x, up to a sign. A point a row, so that numpy's innermost loop is over the samples.
    """
    x = np.ascontiguousarray(x.T)
    before, now, total, log_sum = np.zeros_like(x), np.ones_like(x), np.ones_like(x), np.zeros_like(x)
    least, ended, coupling = np.full_like(x, np.inf), np.zeros(x.shape[1]), np.zeros(x.shape[1])
    final = section.steps[:, None] == np.arange(1, section.alpha.shape[1] + 1)
    parts = (section.alpha, section.beta, section.broken | final, final)
    alphas, betas, closes, last = (np.ascontiguousarray(part.T) for part in parts)
    splits = [bool(closed.any()) for closed in closes]
    for j, splits_here in enumerate(splits):
        before, now = now, ((x - alphas[j]) * now - coupling * before) / betas[j]
        coupling, total = betas[j], total + now * now
        if splits_here or j % RESCALE_EVERY == RESCALE_EVERY - 1:
            root = np.sqrt(total)
            before, now, total, log_sum = before / root, now / root, np.ones_like(x), log_sum + np.log(total)
        if not splits_here:
            continue
        closed = closes[j]
        least = np.where(closed & (ended < 1 + SPARES), np.minimum(least, log_sum), least)
        ended = np.where(last[j], np.inf, ended + closed)
        before, now = np.where(closed, 0.0, before), np.where(closed, 1.0, now)
        log_sum, coupling = np.where(closed, 0.0, log_sum), np.where(closed, 0.0, coupling)
    return least.T
