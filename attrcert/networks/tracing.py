"""What happens inside a network: which functions are called by which module, and what each module gives."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch._ops import OpOverload
from torch.overrides import TorchFunctionMode, resolve_name


class Called(TorchFunctionMode):
    """Notes which torch functions are called, and by which module."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self._network = network
        self._stack = [type(network).__name__]
        self.names: list[tuple[str, str]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append((function_name(func), self._stack[-1]))
        return func(*args, **(kwargs or {}))

    def __enter__(self) -> "Called":
        self._handles = []
        for name, module in self._network.named_modules():
            self._handles.append(
                module.register_forward_pre_hook(lambda *_, name=name: self._stack.append(name or "the model"))
            )
            self._handles.append(module.register_forward_hook(lambda *_: self._stack.pop() and None, always_call=True))
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *reason: Any) -> None:
        for handle in self._handles:
            handle.remove()
        super().__exit__(*reason)  # type: ignore[no-untyped-call]


def function_name(func: Any) -> str:
    """Of torch, without its module."""
    if isinstance(func, OpOverload):  # as exported programs call them
        return func.overloadpacket.__name__
    return (resolve_name(func) or getattr(func, "__name__", "")).rpartition(".")[2]


@contextmanager
def outputs_by_module(network: nn.Module) -> Iterator[dict[str, Tensor]]:
    """The first output row of every leaf module, in calling order."""
    seen: dict[str, Tensor] = {}

    def note(name: str, output: Any) -> None:
        if isinstance(output, Tensor) and output.ndim:
            seen.setdefault(name, output[0].detach().clone())

    leaves = [(name, module) for name, module in network.named_modules() if not list(module.children())]
    handles = [module.register_forward_hook(lambda _m, _i, out, name=name: note(name, out)) for name, module in leaves]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()
