"""`torch.nn.Embedding` and `torch.nn.EmbeddingBag` with privately fetched rows. Needs torch."""

from __future__ import annotations

from typing import Generic, TypeVar

import numpy as np
import torch
from torch import nn

from . import lookups
from .lookups import PrivateRows, Report


def _array(tensor: torch.Tensor | None) -> np.ndarray | None:
    return None if tensor is None else np.asarray(tensor.detach().cpu().numpy())


def _tensor(array: np.ndarray, like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(array).to(like.device)


_LookUp = TypeVar("_LookUp", lookups.Embedding, lookups.EmbeddingBag)


class _Private(nn.Module, Generic[_LookUp]):
    """Common base of both modules: takes and returns tensors on the device of the input."""

    def __init__(self, look_up: _LookUp):
        super().__init__()
        self._look_up: _LookUp = look_up

    @property
    def num_embeddings(self) -> int:
        return self._look_up.rows.layout.rows

    @property
    def embedding_dim(self) -> int:
        return self._look_up.rows.layout.dim

    @property
    def padding_idx(self) -> int | None:
        return self._look_up.padding_idx

    @property
    def last(self) -> Report:
        """Report on the last inference."""
        return self._look_up.rows.last


class Embedding(_Private[lookups.Embedding]):
    """Replacement of a `torch.nn.Embedding` for inference. It has no parameters and no gradients."""

    def __init__(self, rows: PrivateRows, *, max_norm: float | None = None, norm_type: float = 2.0):
        super().__init__(lookups.Embedding(rows, max_norm=max_norm, norm_type=norm_type))

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return _tensor(self._look_up(input.detach().cpu().numpy()), input)


class EmbeddingBag(_Private[lookups.EmbeddingBag]):
    """Replacement of a `torch.nn.EmbeddingBag` for inference."""

    def __init__(
        self,
        rows: PrivateRows,
        *,
        mode: str = "mean",
        max_norm: float | None = None,
        norm_type: float = 2.0,
        include_last_offset: bool = False,
    ):
        bag = lookups.EmbeddingBag(
            rows, mode=mode, max_norm=max_norm, norm_type=norm_type, include_last_offset=include_last_offset
        )
        super().__init__(bag)

    def forward(
        self,
        input: torch.Tensor,
        offsets: torch.Tensor | None = None,
        per_sample_weights: torch.Tensor | None = None,
    ) -> torch.Tensor:
        numbers = input.detach().cpu().numpy()
        return _tensor(self._look_up(numbers, _array(offsets), _array(per_sample_weights)), input)


def replace(module: nn.Embedding | nn.EmbeddingBag, rows: PrivateRows) -> Embedding | EmbeddingBag:
    """Returns the private replacement of a torch module, with the same mode and limits."""
    layout = rows.layout
    if (module.num_embeddings, module.embedding_dim) != (layout.rows, layout.dim):
        raise ValueError(f"a module of {module.num_embeddings} x {module.embedding_dim}, rows of another")
    if module.padding_idx != layout.padding_idx:
        raise ValueError(f"the module's padding_idx is {module.padding_idx}, the layout's {layout.padding_idx}")
    max_norm, norm_type = module.max_norm, module.norm_type
    if isinstance(module, nn.EmbeddingBag):
        last = module.include_last_offset
        return EmbeddingBag(rows, mode=module.mode, include_last_offset=last, max_norm=max_norm, norm_type=norm_type)
    return Embedding(rows, max_norm=max_norm, norm_type=norm_type)
