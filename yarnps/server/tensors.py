"""Files of tensors in the format of safetensors, written and read without holding them whole.

Tensors grow piece by piece in local files while a server goes on serving; the header, which needs
their sizes, is written when all are there. `safetensors.numpy.load_file` reads the result.
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from yarnps._errors import DataError

_CODES = {
    "float32": "F32",
    "float64": "F64",
    "int64": "I64",
    "int32": "I32",
    "uint32": "U32",
    "uint8": "U8",
}
_DTYPES = {code: np.dtype(name) for name, code in _CODES.items()}
_COPY_BYTES = 4 << 20
_HEADER_LIMIT = 64 << 20


@dataclass
class _Growing:
    dtype: np.dtype[Any]
    shape: tuple[int, ...]  # of one row
    file: Any
    rows: int = 0


def _spool() -> Any:
    return tempfile.TemporaryFile()  # closed with the writer


class TensorWriter:
    """Collects tensors row by row; `write` makes one file of them."""

    def __init__(self) -> None:
        self._tensors: dict[str, _Growing] = {}

    def append(self, name: str, rows: NDArray[Any]) -> None:
        """Add rows to a tensor; the first call fixes its dtype and the shape of a row."""
        tensor = self._tensors.get(name)
        if tensor is None:
            tensor = _Growing(rows.dtype, rows.shape[1:], _spool())
            self._tensors[name] = tensor
        if rows.dtype != tensor.dtype or rows.shape[1:] != tensor.shape:
            raise ValueError(f"tensor {name} has rows of {tensor.shape}, got {rows.shape[1:]}")
        if rows.size:
            tensor.file.write(memoryview(np.ascontiguousarray(rows).data).cast("B"))
        tensor.rows += len(rows)

    def write(self, file: BinaryIO, metadata: dict[str, str]) -> int:
        """Write everything to `file`; returns the number of bytes."""
        header: dict[str, Any] = {"__metadata__": metadata}
        offset = 0
        for name, tensor in self._tensors.items():
            shape = [tensor.rows, *tensor.shape]
            end = offset + tensor.dtype.itemsize * math.prod(shape)
            header[name] = {
                "dtype": _CODES[tensor.dtype.name],
                "shape": shape,
                "data_offsets": [offset, end],
            }
            offset = end
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for tensor in self._tensors.values():
            tensor.file.seek(0)
            shutil.copyfileobj(tensor.file, file, _COPY_BYTES)
        return 8 + len(text) + offset

    def close(self) -> None:
        for tensor in self._tensors.values():
            tensor.file.close()
        self._tensors.clear()


class TensorReader:
    """Reads rows of the tensors in a file.

    Parameters
    ----------
    file
        Open for reading; it must be able to seek.
    address
        For messages.

    Raises
    ------
    DataError
        The file is not one of tensors, or ends too early.
    """

    def __init__(self, file: BinaryIO, address: str) -> None:
        self._file = file
        self._address = address
        length = int.from_bytes(self._exactly(8), "little")
        if not 2 <= length <= _HEADER_LIMIT:
            raise self._broken("it does not begin with a header")
        try:
            header = json.loads(self._exactly(length))
            self.metadata: dict[str, str] = header.pop("__metadata__", {})
            self._tensors = {
                name: (_DTYPES[entry["dtype"]], tuple(entry["shape"]), entry["data_offsets"][0])
                for name, entry in header.items()
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._broken(f"its header cannot be read ({error!r})") from error
        self._start = 8 + length

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def rows(self, name: str) -> int:
        """How many rows a tensor has."""
        return int(self._tensor(name)[1][0])

    def read(self, name: str, first: int = 0, count: int | None = None) -> NDArray[Any]:
        """Rows [first, first + count) of a tensor."""
        dtype, shape, offset = self._tensor(name)
        count = shape[0] - first if count is None else count
        row_bytes = dtype.itemsize * math.prod(shape[1:])
        self._file.seek(self._start + offset + first * row_bytes)
        data = self._exactly(count * row_bytes)
        return np.frombuffer(data, dtype).reshape(count, *shape[1:])

    def _tensor(self, name: str) -> tuple[np.dtype[Any], tuple[int, ...], int]:
        try:
            return self._tensors[name]
        except KeyError:
            raise self._broken(f"it has no tensor {name}") from None

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size > 0:
            part = self._file.read(min(size, _HEADER_LIMIT))
            if not part:
                raise self._broken("it ends too early")
            parts.append(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _broken(self, why: str) -> DataError:
        return DataError(
            f"not a file of tensors: {self._address}: {why}",
            "remove it, or name the folder that yarnps wrote",
        )
