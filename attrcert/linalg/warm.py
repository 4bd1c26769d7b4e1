"""A lower estimate of the top singular value from a good start: Rayleigh-Ritz on the Krylov space of P = J^T J.

The result is never below |J w|_2 of the start w, and is attained by the vector it returns.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.linalg.basis import Basis
from attrcert.types import LinearMap


def warm_singular_value(
    J: LinearMap, start: Float[Tensor, "b n"], *, products: int
) -> tuple[Float[Tensor, " b"], Float[Tensor, "b n"], Float[Tensor, "b m"]]:
    """(|J w|_2, unit w, unit vector along J w) for the best w of a Krylov space of `products` dimensions."""
    basis = Basis(_unit(start))
    images = [J.matvec(basis.last)]
    for _ in range(products - 1):
        back = _unit(J.rmatvec(_unit(images[-1])))
        rest = basis.orthogonalise(back)
        # what rounding leaves of an exhausted space is no direction
        used_up = rest.norm(dim=1, keepdim=True) < 100 * torch.finfo(rest.dtype).eps
        basis.append(torch.where(used_up, 0.0, _unit(rest)))
        images.append(J.matvec(basis.last))
    A = torch.stack(images, dim=1)
    scale = A.abs().amax(dim=(1, 2), keepdim=True).clamp_min(torch.finfo(A.dtype).tiny)
    B = (A / scale).double()
    _, vectors = torch.linalg.eigh(B @ B.mT)
    top = vectors[:, :, -1].to(A.dtype)
    w = basis.combine(top)
    image = torch.einsum("bk,bkm->bm", top, A)
    gain = scale[:, 0, 0].double() * (image / scale[:, 0]).norm(dim=1, dtype=torch.float64)
    return gain, w, _unit(image)


def _unit(v: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
    tiny = torch.finfo(v.dtype).tiny
    v = v / v.abs().amax(dim=1, keepdim=True).clamp_min(tiny)
    return v / v.norm(dim=1, keepdim=True).clamp_min(tiny)
