"""Feature ids for names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b

_POSITIVE = (1 << 63) - 1
_noted: dict[int, str] | None = None


def hash64(text: str | bytes) -> int:
    """A 63-bit id for a name: the same in every process, version and run.

    Named features get their ids so: a number in column `c` has the id hash64("c") and its value;
    a text `t` in it has the id hash64("c=t") and the value 1.

    Examples
    --------
    >>> hash64("carrier=UA")
    7896211222577040420
    """
    data = text.encode() if isinstance(text, str) else text
    key = int.from_bytes(blake2b(data, digest_size=8).digest(), "little") & _POSITIVE
    if _noted is not None:
        _noted[key] = data.decode("utf-8", "backslashreplace")
    return key


@contextmanager
def noting_names() -> Iterator[dict[int, str]]:
    """Note the name behind each id that is made meanwhile, to show rows to a person."""
    global _noted
    names: dict[int, str] = {}
    _noted = names
    try:
        yield names
    finally:
        _noted = None
