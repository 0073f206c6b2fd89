"""What the models know: which keys exist where, and what kind of value they take."""

from __future__ import annotations

import difflib
import types
from functools import cache
from typing import Annotated, Any, Final, TypeGuard, Union, get_args, get_origin

from pydantic import BaseModel

from ._skein import Application
from ._yaml import Path, format_path

ROLE_NAMES: Final = ("server", "worker")


def bare(annotation: Any) -> Any:
    """The type itself, without `Annotated` and without `| None`."""
    if get_origin(annotation) is Annotated:
        return bare(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [arg for arg in get_args(annotation) if arg is not type(None)]
        return bare(rest[0]) if len(rest) == 1 else annotation
    return annotation


def is_model(kind: Any) -> TypeGuard[type[BaseModel]]:
    """Whether a type is a model; Python 3.10 takes `dict[str, int]` for a class, too."""
    return isinstance(kind, type) and get_origin(kind) is None and issubclass(kind, BaseModel)


def annotation_at(path: Path, root: Any = Application) -> Any:
    """The type of the value at a path; None where the models do not know the path."""
    here = bare(root)
    for step in path:
        if is_model(here):
            info = here.model_fields.get(str(step))
            if info is None:
                return None
            here = bare(info.annotation)
        elif get_origin(here) in (dict, list, tuple):
            args = get_args(here)
            here = bare(args[1] if get_origin(here) is dict else args[0])
        else:
            return None
    return here


def keys_at(path: Path) -> tuple[str, ...]:
    """Known keys of the mapping at a path."""
    here = annotation_at(path)
    if is_model(here):
        return tuple(here.model_fields)
    return ROLE_NAMES if path == ("services",) else ()


@cache
def paths_below(path: Path) -> tuple[Path, ...]:
    """Every known key below a path; below `services`, those of the roles."""
    here = annotation_at(path)
    if not is_model(here):
        names: tuple[str, ...] = ROLE_NAMES if path == ("services",) else ()
    else:
        names = tuple(here.model_fields)
    found: list[Path] = []
    for name in names:
        found += [(*path, name), *paths_below((*path, name))]
    return tuple(found)


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
    for end in range(len(parent), -1, -1):  # nearby first: below the parent, then further up
        same = [known for known in paths_below(tuple(parent[:end])) if known[-1] == key]
        if same:
            return format_path(min(same, key=len))
    return ""
