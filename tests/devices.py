"""A stand-in for devices that are not there when the tests run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor


class Elsewhere(Tensor):
    """Numbers on a device without double precision, which mps is: they take it once they are on the CPU."""

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is Tensor.cpu:
            return args[0].as_subclass(Tensor)
        if func is Tensor.double:
            raise TypeError("this device has no float64")
        return super().__torch_function__(func, types, args, kwargs)


def elsewhere(values: Tensor) -> Tensor:
    """The same numbers on that device."""
    return values.as_subclass(Elsewhere)
