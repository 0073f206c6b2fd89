"""Hiding secrets: values of `env` variables whose names say that they hold one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import yaml

from ._job import Job, Source
from ._yaml import compose

MASK: Final = "***"
_SECRET: Final = re.compile(
    r"SECRET|TOKEN|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY",
    re.IGNORECASE,
)


def is_secret(name: str) -> bool:
    """Whether a variable of this name most likely holds a secret."""
    return _SECRET.search(name) is not None


def masked(data: Any) -> Any:
    """The same data with the values of secret-looking `env` variables replaced.

    For what is shown or kept: a rendered specification, `Job.skein`, or any part of them.
    """
    if isinstance(data, Mapping):
        return {
            key: _mask_env(value) if key == "env" and isinstance(value, Mapping) else masked(value)
            for key, value in data.items()
        }
    return [masked(item) for item in data] if isinstance(data, (list, tuple)) else data


def masked_text(text: str) -> str:
    """A job file's text with the same values replaced; comments and order stay.

    Raises
    ------
    yaml.YAMLError
        The text is not YAML.
    """
    node = compose(text)
    spans = sorted({*_secret_spans(node)}, reverse=True) if node is not None else []
    for start, end in spans:
        lines = "\n" if text[start:end].endswith("\n") else ""
        text = f'{text[:start]}"{MASK}"{lines}{text[end:]}'
    return text


def masked_job(job: Job) -> Job:
    """The same job without secrets: for the job directory and for people."""
    text = job.text.expandtabs() if job.path.endswith(".json") else job.text
    return replace(
        job,
        text=masked_text(text),
        skein=masked(job.skein),
        roles={name: replace(role, env=_mask_env(role.env)) for name, role in job.roles.items()},
        origins=tuple(_mask_source(source) for source in job.origins),
    )


def _mask_env(env: Mapping[str, Any]) -> dict[str, Any]:
    return {name: MASK if is_secret(name) else value for name, value in env.items()}


def _mask_source(source: Source) -> Source:
    name = re.search(r"\.env\.(\w+)$", source.path)
    if name is None or not is_secret(name[1]):
        return source
    origin = source.origin
    if origin.startswith("--set "):
        origin = f"{origin.partition('=')[0]}={MASK}"
    return source._replace(value=MASK, origin=origin)


def _secret_spans(node: yaml.Node) -> Iterator[tuple[int, int]]:
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _secret_spans(item)
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        if key.value == "env" and isinstance(value, yaml.MappingNode):
            for name, secret in value.value:
                if isinstance(name.value, str) and is_secret(name.value):
                    yield secret.start_mark.index, secret.end_mark.index
        else:
            yield from _secret_spans(value)
