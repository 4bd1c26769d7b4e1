"""What float64 leaves open of z, s'(z) and F, where moduli carried through many norms would leave nothing [higham2002accuracy].

`rounding` carries errors through the moduli of all weights. A norm subtracts a mean and multiplies by what it divides by: moduli grow
tenfold in each, its Jacobian does not. Here errors go through the moduli of the weights only up to the next activation; from there the
Jacobians N_im = dz_i/da_m carry them, which are computed anyway.

With l_i the local errors at z_i (of the affine steps before it), m_i those of the curve at a_i, e_i >= |z_i - computed|,

    e_i <= l_i + |B_i| e_0 + sum_m |N_im| (m_m + |s''| e_m^2 / 2 + few u |s'| e_m),

since a_m is off by s'(z_m) (z_m - computed), the curve's remainder, and m_m. F, from the output:

    |F_m - computed| <= k_m + sum_i |N_im|^T w_i,    w_i = d_i (|F_i| + |F_i - computed|) + h_i,

d_i >= |s'(z_i) - computed|, k and h local. Both sides have F's error, and no i has all of it before its N is known: let
b_m = sum_i |N_im|^T d_i t_i with t_i the largest |F_i|, a_m the same sum for w without F's error, and theta with a + theta b <= theta t.
Then F is off by at most a + theta b: from the last activation on, by induction.

N itself is off by at most `unit` times its paths' moduli. So `unit` times the older bound of each sum is added.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.bounds.proved.curves import blurred, largest_bend, steepest
from attrcert.bounds.proved.network import Carried, Network
from attrcert.bounds.proved.rounding import EPS, FEW, Doubt
from attrcert.linalg.proofs import times

Each = Float[Tensor, "b _"]
Matrix = Float[Tensor, "_ _ _"]


@dataclass(frozen=True)
class AsComputed:
    """A network at its points, as computed, with the older bounds; the last steps' moduli are those of `explained`."""

    network: Network
    values: list[Tensor]
    slope: dict[int, Each]
    F: dict[int, Each]
    explained: Each
    doubt: Doubt


class Digits:
    """Takes the activations of a network in their order, some rows of dz/dx at a time."""

    def __init__(self, known: AsComputed) -> None:
        self.known = known
        network, values = known.network, known.values
        self.z = {i: values[network.before(i)].flatten(1) for i in network.curves}
        self.local = {i: part.flatten(1) for i, part in _stretches(network, values).items()}
        self.handed = self._handed()
        self.start = (EPS * (1 + values[0].abs())).flatten(1)
        self.size = {i: part.abs().amax(dim=1, keepdim=True).expand_as(part) for i, part in known.F.items()}
        self.error: dict[int, list[Tensor]] = {i: [] for i in self.z}
        self.found: dict[int, Each] = {}  # e
        self.steep: dict[int, Each] = {}  # d
        self.inside: dict[int, Each] = {}  # what a_m has beside s' times the error of z_m
        self.a = {i: self.known.doubt.unit * self.handed[i] for i in self.z}
        self.b = {i: torch.zeros_like(part) for i, part in self.z.items()}

    def learn(self, i: int, start: int, B: Matrix, N: dict[int, Matrix]) -> None:
        """The rows from `start` on of activation i."""
        part = slice(start, start + B.shape[1])
        moduli = {m: part.abs() for m, part in N.items()}
        crude = (2 + 2 * len(self.z)) * self.known.doubt.unit * self.known.doubt.z[i][:, part]
        e = self.local[i][:, part] + times(B.abs(), self.start) + crude
        for m, modulus in moduli.items():
            e = e + times(modulus, self.inside[m])
        self.error[i].append(e)
        curve, z, slope = self.known.network.curve(i), self.z[i][:, part], self.known.slope[i][:, part]
        d = largest_bend(curve, z, e) * e + FEW * EPS * slope.abs()
        w = d * self.known.F[i][:, part].abs() + self._added(i)[:, part]
        t = d * self.size[i][:, part]
        for m, modulus in moduli.items():
            self.a[m] = self.a[m] + times(modulus.mT, w)
            self.b[m] = self.b[m] + times(modulus.mT, t)

    def finish(self, i: int) -> None:
        """All rows of activation i are known."""
        network, z = self.known.network, self.z[i]
        curve, slope = network.curve(i), self.known.slope[i].abs()
        e = torch.cat(self.error[i], dim=1)
        self.found[i] = e
        bend = largest_bend(curve, z, e)
        self.steep[i] = bend * e + FEW * EPS * slope
        value = curve.value(z).abs()
        argument = FEW * EPS * z.abs()
        own = steepest(curve, z, e + argument) * argument + FEW * EPS * value
        self.inside[i] = own + bend * e.square() / 2 + FEW * EPS * slope * e

    def doubt(self, B: dict[int, Matrix]) -> Doubt:
        """The smaller of both bounds; `B` has the Jacobians."""
        old = self.known.doubt
        crude = self._pulled({i: self._w(i, torch.zeros_like(self.z[i])) for i in self.z})
        more = self._pulled({i: self.steep[i] * self.size[i] for i in self.z})
        a = {i: part + old.unit * crude[i] for i, part in self.a.items()}
        b = {i: part + old.unit * more[i] for i, part in self.b.items()}
        theta = torch.zeros_like(self.start[:, :1])
        for i, size in self.size.items():
            room = size - b[i]
            least = torch.where(room > 0, a[i] / room, torch.where(a[i] > 0, torch.inf, 0.0))
            theta = torch.maximum(theta, least.amax(dim=1, keepdim=True))
        F = {i: torch.fmin(a[i] + torch.where(b[i] > 0, theta * b[i], 0.0), old.F[i]) for i in a}
        w = {i: self._w(i, F[i]) for i in self.z}
        gradient = old.unit * (self.handed[0] + self._pulled(w)[0])
        for i, part in w.items():
            gradient = gradient + times(B[i].abs().mT, part)
        z = {i: torch.fmin(part, old.z[i]) for i, part in self.found.items()}
        slope = {i: torch.fmin(part, old.slope[i]) for i, part in self.steep.items()}
        share = [blurred(self.known.network.curve(i), self.z[i], part).amax(dim=1) for i, part in z.items()]
        gradient = torch.fmin(gradient, old.gradient)
        return replace(old, z=z, slope=slope, F=F, gradient=gradient, share=torch.stack(share).amax(dim=0))

    def _w(self, i: int, F: Each) -> Each:
        return self.steep[i] * (self.known.F[i].abs() + F) + self._added(i)

    def _added(self, i: int) -> Each:
        """h: the products with s'; what the stretch behind has rounded is in k, which F's error has and s' multiplies."""
        slope = self.known.slope[i].abs()
        return FEW * EPS * slope * self.known.F[i].abs() + slope * self.known.doubt.unit * self.handed[i]

    def _handed(self) -> dict[int, Each]:
        """What later activations and the output hand to each activation, and to the input (0), through moduli."""
        known, found = self.known, {}

        def handed(i: int, carried: Carried | None) -> Carried:
            slope, F = known.slope[i].abs(), known.F[i].abs()
            found[i] = torch.zeros_like(F) if carried is None else carried.centre[:, 0]
            return Carried((slope * F)[:, None])

        network = known.network
        given = Carried(known.explained.abs()[:, None])
        pulled = network.magnitude.pull(len(network.steps) - 1, given, handed)
        found[0] = torch.zeros_like(known.values[0].flatten(1)) if pulled is None else pulled.centre[:, 0]
        return found

    def _pulled(self, given: dict[int, Each]) -> dict[int, Each]:
        """What is given at the activations' inputs, through the moduli of everything."""
        known, found = self.known, {}

        def through(i: int, carried: Carried | None) -> Carried:
            found[i] = torch.zeros_like(given[i]) if carried is None else carried.centre[:, 0]
            return Carried((given[i] + (known.slope[i].abs() + self.steep[i]) * found[i])[:, None])

        network = known.network
        pulled = network.magnitude.pull(len(network.steps) - 1, None, through)
        found[0] = torch.zeros_like(self.start) if pulled is None else pulled.centre[:, 0]
        return found


def _stretches(network: Network, values: list[Tensor]) -> dict[int, Tensor]:
    """The local errors at every activation's input: those of the affine steps since the activations before it."""
    error: list[Tensor] = [torch.zeros_like(values[0])]
    for step, value in zip(network.steps[1:], values[1:], strict=True):
        errors = [error[i] for i in step.inputs]
        if step.curve is not None:
            error.append(torch.zeros_like(value))
        elif step.operation is not None:
            given = values[step.inputs[0]].abs()
            rounded = (step.terms + FEW) * EPS * (step.magnitude.apply(given) + value.abs())
            error.append(step.magnitude.apply(errors[0]) + rounded + step.lost)
        else:
            error.append(sum(errors[1:], errors[0]) + FEW * EPS * value.abs())
    return {i: error[network.before(i)] for i in network.curves}
