"""Delegation tokens that YARN puts beside a container.

The file format is that of Hadoop's `Credentials` (org.apache.hadoop.security): "HDTS", a format
byte (0: writables, 1: protobuf), then aliases with their tokens.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from yarnps._errors import ClusterError

HDFS_KIND = "HDFS_DELEGATION_TOKEN"
_HA_PREFIX = "ha-hdfs:"


@dataclass(frozen=True)
class Token:
    """One entry of a token file."""

    alias: str
    kind: str
    service: str
    identifier: bytes

    @property
    def owner(self) -> str:
        """Who a delegation token speaks for; empty when the identifier does not say."""
        if not self.identifier or self.identifier[0] != 0:
            return ""
        return _Reader(self.identifier, "token identifier", start=1).text()


class _Reader:
    """Hadoop's DataInput, as far as tokens need it."""

    def __init__(self, data: bytes, name: str, start: int = 0) -> None:
        self._data, self._at, self._name = data, start, name

    def take(self, count: int) -> bytes:
        if count < 0 or self._at + count > len(self._data):
            raise ClusterError(
                f"not a readable token file: {self._name}",
                "It is written by YARN when a container starts; look at the node manager's log.",
            )
        part = self._data[self._at : self._at + count]
        self._at += count
        return part

    def vint(self) -> int:
        first = int.from_bytes(self.take(1), "big", signed=True)
        if first >= -112:
            return first
        negative = first < -120
        size = -(first + 120) if negative else -(first + 112)
        value = int.from_bytes(self.take(size), "big")
        return ~value if negative else value

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def bytes(self) -> bytes:
        return self.take(self.vint())

    def text(self) -> str:
        return self.bytes().decode("utf-8", "replace")

    @property
    def left(self) -> int:
        return len(self._data) - self._at


def parse_tokens(data: bytes, name: str = "token file") -> list[Token]:
    """The tokens in a token file's bytes; secrets are not kept.

    Raises
    ------
    ClusterError
        When the bytes are not a token file.
    """
    reader = _Reader(data, name)
    if reader.take(4) != b"HDTS":
        raise ClusterError(
            f"not a token file: {name}",
            "HADOOP_TOKEN_FILE_LOCATION must name the file that YARN wrote for this container.",
        )
    if reader.take(1) == b"\x01":
        return _parse_protobuf(reader.take(reader.varint()), name)
    tokens = []
    for _ in range(reader.vint()):
        alias = reader.text()
        identifier = reader.bytes()
        reader.bytes()  # the password
        kind, service = reader.text(), reader.text()
        tokens.append(Token(alias, kind, service, identifier))
    return tokens


def _fields(data: bytes, name: str) -> list[tuple[int, bytes]]:
    """The length-delimited fields of a protobuf message (others do not occur in these)."""
    reader, found = _Reader(data, name), []
    while reader.left:
        key = reader.varint()
        if key & 7 == 2:
            found.append((key >> 3, reader.take(reader.varint())))
        elif key & 7 == 0:
            reader.varint()
        else:
            reader.take(-1)
    return found


def _parse_protobuf(data: bytes, name: str) -> list[Token]:
    tokens = []
    for number, entry in _fields(data, name):
        if number != 1:  # CredentialsProto.tokens; 2 are secrets
            continue
        parts = dict(_fields(entry, name))  # CredentialsKVProto: alias, token, secret
        token = dict(_fields(parts.get(2, b""), name))  # identifier, password, kind, service
        tokens.append(
            Token(
                parts.get(1, b"").decode("utf-8", "replace"),
                token.get(3, b"").decode("utf-8", "replace"),
                token.get(4, b"").decode("utf-8", "replace"),
                token.get(1, b""),
            )
        )
    return tokens


def container_tokens() -> list[Token]:
    """The tokens of this container; empty outside of one."""
    location = os.environ.get("HADOOP_TOKEN_FILE_LOCATION")
    if not location or not Path(location).is_file():
        return []
    return parse_tokens(Path(location).read_bytes(), location)


def spell_as_token(host: str, port: int | None, tokens: list[Token]) -> tuple[str, int | None]:
    """The name node's address in the spelling of its token's service.

    The HDFS client finds a token by comparing text: Hadoop writes `ip:port`, so a name node given
    by name would not get its token. A name service (`ha-hdfs:name`) matches by its name.
    """
    services = [token.service for token in tokens if token.kind == HDFS_KIND]
    if port is None and _HA_PREFIX + host in services:
        return host, None
    wanted = {host, *_addresses(host)}
    for service in services:
        name, _, number = service.rpartition(":")
        if name in wanted and number == str(port):
            return name, port
    return host, port


def _addresses(host: str) -> list[str]:
    try:
        return sorted({str(found[4][0]) for found in socket.getaddrinfo(host, None)})
    except OSError:
        return []  # the connection itself will say that the name is unknown
