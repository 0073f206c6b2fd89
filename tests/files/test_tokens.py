"""Token files in the format of Hadoop's Credentials, written here byte by byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from yarnps._errors import ClusterError
from yarnps.files import open_files
from yarnps.files._tokens import Token, container_tokens, parse_tokens, spell_as_token


def vint(value: int) -> bytes:
    """A Hadoop variable-length integer (WritableUtils.writeVInt)."""
    if -112 <= value <= 127:
        return value.to_bytes(1, "big", signed=True)
    size = (value.bit_length() + 7) // 8
    return (-112 - size).to_bytes(1, "big", signed=True) + value.to_bytes(size, "big")


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return vint(len(data)) + data


def identifier(owner: str) -> bytes:
    """A delegation token's identifier: version, owner, renewer, real user, …"""
    return b"\0" + text(owner) + text("yarn") + text("") + vint(1) + vint(2) + vint(3) + vint(4)


def token_file(*tokens: tuple[str, str, bytes]) -> bytes:
    """(kind, service, identifier) each; then one secret key."""
    body = b"".join(
        text(f"alias-{service}") + text(ident) + text(b"p" * 20) + text(kind) + text(service)
        for kind, service, ident in tokens
    )
    return b"HDTS\0" + vint(len(tokens)) + body + vint(1) + text("secret") + text(b"s" * 300)


HDFS = "HDFS_DELEGATION_TOKEN"


def test_tokens_are_read() -> None:
    data = token_file(
        ("RM_DELEGATION_TOKEN", "10.0.0.1:8032", b"x" * 200),
        (HDFS, "127.0.0.1:29820", identifier("alice@REALM")),
    )
    first, second = parse_tokens(data)
    assert (first.kind, first.service, len(first.identifier)) == (
        "RM_DELEGATION_TOKEN",
        "10.0.0.1:8032",
        200,
    )
    assert (second.kind, second.service, second.owner) == (HDFS, "127.0.0.1:29820", "alice@REALM")
    assert second.alias == "alias-127.0.0.1:29820"


def test_the_protobuf_format_is_read() -> None:
    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2, len(data)]) + data

    token = b"".join(
        [field(1, identifier("bob")), field(2, b"pw"), field(3, HDFS.encode()), field(4, b"ns:1")]
    )
    entry = field(1, b"ns:1") + field(2, token)
    message = field(1, entry) + field(2, field(1, b"secret") + field(3, b"s"))
    (found,) = parse_tokens(b"HDTS\x01" + bytes([len(message)]) + message)
    assert (found.kind, found.service, found.owner) == (HDFS, "ns:1", "bob")


@pytest.mark.parametrize(
    "data", [b"", b"HDTX\0\0", b"HDTS\0\x05\x03abc", token_file((HDFS, "a", b""))[:9]]
)
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(ClusterError, match="token file: some file"):
        parse_tokens(data, "some file")


@pytest.mark.parametrize(
    ("host", "port", "expected"),
    [
        ("localhost", 29820, ("127.0.0.1", 29820)),
        ("127.0.0.1", 29820, ("127.0.0.1", 29820)),
        ("localhost", 1, ("localhost", 1)),
        ("no-such-host.invalid", 29820, ("no-such-host.invalid", 29820)),
        ("cluster", None, ("cluster", None)),
        ("nn.example", 8020, ("nn.example", 8020)),
    ],
)
def test_the_name_node_is_spelled_as_its_token(
    host: str, port: int | None, expected: tuple[str, int | None]
) -> None:
    tokens = [
        Token("", "OTHER", "127.0.0.1:1", b""),
        Token("", HDFS, "127.0.0.1:29820", b""),
        Token("", HDFS, "ha-hdfs:cluster", b""),
        Token("", HDFS, "nn.example:8020", b""),
    ]
    assert spell_as_token(host, port, tokens) == expected


def test_the_containers_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_TOKEN_FILE_LOCATION", raising=False)
    assert container_tokens() == []
    path = tmp_path / "container_tokens"
    path.write_bytes(token_file((HDFS, "127.0.0.1:29820", identifier("alice/host@REALM"))))
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(path))
    files, inner = open_files("hdfs://localhost:29820/x")
    assert files.home() == "/user/alice"
    # What others see keeps the spelling that they wrote.
    assert files.address(inner) == "hdfs://localhost:29820/x"
