"""sum_ij |P_ij| of P = J^T J, column by column; P is never held, and J only where it fits [wang2023practical, Theorem 2]."""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.linalg.maps import copied
from attrcert.types import LinearMap

BLOCK = 512


def dense(J: LinearMap, *, copies: int = 1) -> Float[Tensor, "b m n"]:
    """The matrices of the map, a column a product, `copies` of a sample together."""
    b, m, n = J.shape
    matrix = torch.empty(b, m, n, dtype=J.dtype, device=J.device)
    wide = copied(J, copies)
    for j, units in _units(J, copies):
        matrix[:, :, j : j + copies] = wide.matvec(units).view(b, copies, m)[:, : n - j].mT
    return matrix


def root_of_absolute_gram(J: LinearMap, *, memory: int, copies: int = 1) -> Float[Tensor, " b"]:
    """sqrt(sum_ij |P_ij|); matrices J of at most `memory` bytes are held at a time, and where not even one fits, columns only."""
    b, m, n = J.shape
    at_once = memory // (m * n * J.dtype.itemsize)
    if not at_once:
        return _streamed(J, copies)
    return torch.cat([_formed(J.select(rows), copies) for rows in torch.arange(b, device=J.device).split(at_once)])


def products_a_sample(m: int, n: int, itemsize: int, *, memory: int) -> int:
    """What `root_of_absolute_gram` takes: a column of J a product, and of P one more where J is not held."""
    return n if m * n * itemsize <= memory else 2 * n


def _formed(J: LinearMap, copies: int) -> Float[Tensor, " b"]:
    matrix = dense(J, copies=copies)
    # entries of order one, so that no product under- or overflows
    unit = matrix.abs().amax(dim=(1, 2)).clamp_min(torch.finfo(J.dtype).tiny)
    matrix /= unit[:, None, None]
    blocks = (matrix.mT @ block for block in matrix.split(BLOCK, dim=2))
    total = torch.stack([block.abs().sum(dim=(1, 2), dtype=torch.float64) for block in blocks]).sum(0)
    return total.sqrt() * unit.double()


def _streamed(J: LinearMap, copies: int) -> Float[Tensor, " b"]:
    b = J.shape[0]
    total = torch.zeros(b, dtype=torch.float64, device=J.device)
    wide = copied(J, copies)
    for _, units in _units(J, copies):
        images = wide.matvec(units)
        unit = images.abs().amax(dim=1, keepdim=True).clamp_min(torch.finfo(J.dtype).tiny)
        columns = wide.rmatvec(images / unit).abs().sum(dim=1, dtype=torch.float64) * unit[:, 0].double()
        total += columns.view(b, copies).sum(dim=1)
    return total.sqrt()


def _units(J: LinearMap, copies: int) -> Iterator[tuple[int, Float[Tensor, "points n"]]]:
    """The unit vectors from each j on, `copies` at a time for every sample; there is nothing behind the last."""
    b, _, n = J.shape
    units = torch.zeros(b, copies, n, dtype=J.dtype, device=J.device)
    for j in range(0, n, copies):
        places = torch.arange(min(copies, n - j), device=J.device)
        units.zero_()
        units[:, places, j + places] = 1
        yield j, units.flatten(0, 1)
