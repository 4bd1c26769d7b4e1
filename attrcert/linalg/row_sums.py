"""sum_ij |P_ij| of P = J^T J, with J formed and P streamed in blocks of columns [wang2023practical, Theorem 2]."""

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.types import LinearMap

BLOCK = 512


def dense(J: LinearMap) -> Float[Tensor, "b m n"]:
    """The matrices of the map, a column a product."""
    b, m, n = J.shape
    columns = torch.empty(b, m, n, dtype=J.dtype, device=J.device)
    unit = torch.zeros(b, n, dtype=J.dtype, device=J.device)
    for j in range(n):
        unit[:, j] = 1
        columns[:, :, j] = J.matvec(unit)
        unit[:, j] = 0
    return columns


def root_of_absolute_gram(J: LinearMap, *, memory: int) -> Float[Tensor, " b"]:
    """sqrt(sum_ij |P_ij|); matrices J of at most `memory` bytes are held at a time, P never is."""
    b, m, n = J.shape
    at_once = max(1, memory // (m * n * J.dtype.itemsize))
    sums = []
    for rows in torch.arange(b, device=J.device).split(at_once):
        matrix = dense(J.select(rows))
        # entries of order one, so that no product under- or overflows
        unit = matrix.abs().amax(dim=(1, 2)).clamp_min(torch.finfo(J.dtype).tiny)
        matrix /= unit[:, None, None]
        blocks = (matrix.mT @ block for block in matrix.split(BLOCK, dim=2))
        total = torch.stack([block.abs().sum(dim=(1, 2), dtype=torch.float64) for block in blocks]).sum(0)
        sums.append(total.sqrt() * unit.double())
    return torch.cat(sums)
