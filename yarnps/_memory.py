"""Memory that a process frees and soon asks for again stays with it.

The C library gives larger pieces back to the system at once. The next array of that size is then
made of fresh pages, and clearing them takes longer than all that is done with a message of 1 MB.
"""

from __future__ import annotations

import ctypes

# Of glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3

# Arrays that come and go with messages are smaller than this; the tables' own are larger, and are
# grown by the system without a copy.
_KEPT_BYTES = 8 << 20

# Free memory at the heap's end that is not given back.
_SPARE_BYTES = 16 << 20


def keep_pages() -> None:
    """Keep what is freed, up to a limit. Does nothing where the C library is another one."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_MMAP_THRESHOLD, _KEPT_BYTES)
    mallopt(_TRIM_THRESHOLD, _SPARE_BYTES)
