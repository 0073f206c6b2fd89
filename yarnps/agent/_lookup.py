"""Where is the ApplicationMaster now: a file (local back end) or skein's key-value store (YARN).

The store is asked with two hand-made messages, so that a container's environment needs no skein.
The service is ``skein.AppMaster/GetRange`` of skein 0.8 (its ``skein.proto``).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc

from yarnps.protocol.service import CHANNEL_OPTIONS

KEY = "yarnps.am"
LIMIT_S = 5.0


def find(lookup: str, certificate: bytes, key: bytes) -> str:
    """The published ``host:port``; empty when it is not there or not to be had in time."""
    kind, _, rest = lookup.partition(":")
    try:
        if kind == "file":
            return (Path(rest) / KEY).read_text().strip()
        if kind == "skein":
            return _ask_skein(rest, certificate, key)
    except (OSError, grpc.RpcError, ValueError):
        return ""  # the caller goes on trying, until its silence is too long
    return ""


def _ask_skein(address: str, certificate: bytes, key: bytes) -> str:
    credentials = grpc.ssl_channel_credentials(certificate, key, certificate)
    with grpc.secure_channel(address, credentials, CHANNEL_OPTIONS) as channel:
        get_range = channel.unary_unary(
            "/skein.AppMaster/GetRange", request_serializer=None, response_deserializer=None
        )
        return parse_range(get_range(range_request(KEY), timeout=LIMIT_S))


def range_request(key: str) -> bytes:
    """``GetRangeRequest{start = 1, end = 2}`` for exactly one key."""
    start, end = key.encode(), key.encode() + b"\0"
    return b"".join((b"\x0a", bytes([len(start)]), start, b"\x12", bytes([len(end)]), end))


def parse_range(reply: bytes) -> str:
    """The first value of ``GetRangeResponse{result = 3: KeyValue{value = 2}}``, or empty."""
    for number, result in _fields(reply):
        if number == 3:
            for inner, value in _fields(result):
                if inner == 2:
                    return value.decode()
    return ""


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and content of the length-delimited fields of a protobuf message."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            _, at = _varint(data, at)
        elif tag & 7 == 2:
            length, at = _varint(data, at)
            yield tag >> 3, data[at : at + length]
            at += length
        else:
            raise ValueError(f"unexpected wire type {tag & 7} from skein")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data):
            raise ValueError("truncated message from skein")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
