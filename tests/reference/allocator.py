"""An allocator with a limit, on a machine that has more: tensors are counted while they live, and one too many is refused."""

import weakref
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Limited(TorchDispatchMode):
    """Every operation's new storages count until they are freed; beyond `limit` bytes CUDA's own error is raised."""

    def __init__(self, limit: float) -> None:
        super().__init__()
        self.limit, self.live, self.peak, self.refusals = limit, 0, 0, 0
        self._counted: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                self._count(tensor.untyped_storage())
        return result

    def _count(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._counted:
            return
        if self.live + size > self.limit:
            self.refusals += 1
            raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size} bytes")
        self._counted[key] = size
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._free, key)

    def _free(self, key: int) -> None:
        self.live -= self._counted.pop(key, 0)
