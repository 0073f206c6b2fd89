"""Which lists of keys are remembered."""

from __future__ import annotations

from yarnps.protocol.keylists import NAME_BYTES, KeyLists, name_of


def test_the_lists_used_latest_are_kept_within_the_limit() -> None:
    lists = KeyLists(100)
    for name in (b"a", b"b", b"c"):
        lists.keep(name, 30, name.upper())
    assert lists.find(b"a") == b"A"
    lists.keep(b"d", 30)
    assert lists.find(b"b") is None and lists.find(b"a") == b"A" and lists.find(b"d") == b""
    lists.keep(b"a", 90, b"again")
    assert len(lists) == 1 and lists.find(b"a") == b"again"
    lists.keep(b"huge", 101)
    assert len(lists) == 0
    lists.keep(b"e", 100)
    lists.drop(b"e")
    lists.drop(b"never there")
    lists.keep(b"f", 100)
    assert lists.find(b"f") == b""
    lists.clear()
    lists.keep(b"g", 100)
    assert len(lists) == 1


def test_names_tell_lists_apart() -> None:
    assert len(name_of(b"x" * 100)) == NAME_BYTES
    assert name_of(b"x" * 100) != name_of(b"x" * 99 + b"y")
