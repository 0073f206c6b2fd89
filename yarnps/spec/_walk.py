"""What the models know: which keys exist where, and what kind of value they take."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import BaseModel

from ._skein import Application
from ._yaml import Path, format_path

ROLE_NAMES: Final = ("server", "worker")


def _bare(annotation: Any) -> Any:
    """Without `Annotated` and without `| None`."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [arg for arg in get_args(annotation) if arg is not type(None)]
        return _bare(rest[0]) if len(rest) == 1 else annotation
    return annotation


def annotation_at(path: Path, root: Any = Application) -> Any:
    """The type of the value at a path; None where the models do not know the path."""
    here = _bare(root)
    for step in path:
        if isinstance(here, type) and issubclass(here, BaseModel):
            info = here.model_fields.get(str(step))
            if info is None:
                return None
            here = _bare(info.annotation)
        elif get_origin(here) in (dict, list, tuple):
            args = get_args(here)
            here = _bare(args[1] if get_origin(here) is dict else args[0])
        else:
            return None
    return here


def keys_at(path: Path) -> tuple[str, ...]:
    """Known keys of the mapping at a path."""
    here = annotation_at(path)
    if isinstance(here, type) and issubclass(here, BaseModel):
        return tuple(here.model_fields)
    return ROLE_NAMES if path == ("services",) else ()


@cache
def all_paths() -> tuple[Path, ...]:
    """Every key of a job file, with the roles' services."""

    def below(model: type[BaseModel], path: Path) -> Iterator[Path]:
        for name, info in model.model_fields.items():
            here = (*path, name)
            yield here
            kind = _bare(info.annotation)
            if here == ("services",):
                for role in ROLE_NAMES:
                    yield from below(annotation_at((*here, role)), (*here, role))
            elif isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from below(kind, here)

    return tuple(below(Application, ()))


def nearest(word: str, known: tuple[str, ...]) -> str:
    """The known word that was most likely meant, or ""."""
    folded = {k.casefold(): k for k in reversed(known)}
    bare = word.casefold().replace("-", "_")
    for guess in (bare, bare.removesuffix("s"), bare + "s"):
        if guess in folded:
            return folded[guess]
    close = difflib.get_close_matches(bare, list(folded), n=1, cutoff=0.6)
    return folded[close[0]] if close else ""


def nearest_key(path: Path) -> str:
    """What an unknown key was likely meant to be: a sibling, or the same key at its right place."""
    *parent, key = path
    if near := nearest(str(key), keys_at(tuple(parent))):
        return near
    same = [known for known in all_paths() if known[-1] == key]
    if not same:
        return ""

    def shared(known: Path) -> int:
        common = 0
        for a, b in zip(known, parent, strict=False):
            if a != b:
                break
            common += 1
        return common

    return format_path(max(same, key=lambda known: (shared(known), -len(known))))
