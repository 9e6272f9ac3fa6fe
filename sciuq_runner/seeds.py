"""Independent random streams from one seed: the data do not change when the method does."""

from __future__ import annotations

import zlib

import numpy as np
import torch


def stream(seed: int, name: str) -> np.random.Generator:
    """A numpy generator for one purpose."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def torch_stream(seed: int, name: str) -> torch.Generator:
    """A torch generator for one purpose, on the CPU so that every device sees the same numbers."""
    return torch.Generator().manual_seed(int(stream(seed, name).integers(2**62)))
