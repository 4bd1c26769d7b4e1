"""The measured correction c of a first-order bound, and the linearisation error eta [wang2023practical, Theorem 3,
Eq. 39].

c = max(1, |g(x + s delta) - g(x)|_2 / |J delta|_2 over s = +-1), delta the worst perturbation found in the ball; T' =
c T. It is what was observed at one direction and one radius: `corrected`, never a certificate.

Departures: both signs (the paper takes +v only), and linf as well as l2. As printed, the theorem's hypothesis forces
c = 1 or J delta = 0.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.ascent.balls import on_sphere
from attrcert.bounds.first_order.enclosed import FirstOrder
from attrcert.draws import Draws
from attrcert.types import LinearMap
from attrcert.vocabulary import Norm

ChangeBy = Callable[[Float[Tensor, "b n"]], Float[Tensor, "b m"]]


@dataclass(frozen=True)
class Linearity:
    """c (infinite where J delta = 0 but g moves), eta at the worst perturbation found, eta's mean over random ones."""

    c: Float[Tensor, " b"]
    eta: Float[Tensor, " b"]
    eta_random: Float[Tensor, " b"] | None


@dataclass(frozen=True)
class Linearisation:
    """g near x against its linearisation there: `change(delta)` is g(x + delta) - g(x), `image` is J times the worst direction."""

    change: ChangeBy
    worst: FirstOrder
    image: Float[Tensor, "b m"]
    random: tuple[tuple[Float[Tensor, "b n"], Float[Tensor, "b m"]], ...]

    def ratio(self, eps: Float[Tensor, " b"]) -> Float[Tensor, " b"]:
        """c alone, with an eps for each sample."""
        delta = eps.to(self.worst.direction)[:, None] * self.worst.direction
        moved = torch.maximum(_norm(self.change(delta)), _norm(self.change(-delta)))
        return torch.where(moved == 0, 1.0, (moved / (eps * _norm(self.image))).clamp_min(1))

    def __call__(self, eps: float) -> Linearity:
        plus, minus = self.change(eps * self.worst.direction), self.change(-eps * self.worst.direction)
        moved = torch.maximum(_norm(plus), _norm(minus))
        c = torch.where(moved == 0, 1.0, (moved / (eps * _norm(self.image))).clamp_min(1))
        eta = torch.maximum(_norm(plus - eps * self.image), _norm(minus + eps * self.image))
        errors = [_norm(self.change(eps * unit) - eps * image) for unit, image in self.random]
        return Linearity(c, eta, torch.stack(errors).mean(0) if errors else None)


def linearise(
    change: ChangeBy,
    J: LinearMap,
    worst: FirstOrder,
    *,
    norm: Norm,
    draws: Draws,
    random: int,
    known: tuple[Float[Tensor, "b n"], Float[Tensor, "b m"]] | None = None,
) -> Linearisation:
    """Products with the worst direction and with `random` directions on the norm's unit sphere serve every eps.

    `known` is a normal vector whose product is known already: but for linf it is the first of them.
    """
    pairs = []
    if known is not None and random and norm.p != torch.inf:
        length = known[0].norm(p=norm.p, dim=1, keepdim=True)
        pairs.append((known[0] / length, known[1] / length))
    units = on_sphere(draws.normal("eta", random - len(pairs), J.shape[2], like=J), norm)
    pairs += [(unit, J.matvec(unit)) for unit in units.unbind(dim=1)]
    return Linearisation(change, worst, J.matvec(worst.direction), tuple(pairs))


def _norm(z: Float[Tensor, "b n"]) -> Float[Tensor, " b"]:
    return z.norm(dim=1, dtype=torch.float64).cpu()
