"""The blocking work of the ApplicationMaster, done in threads: files, and the input's listing."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

from yarnps import data
from yarnps._errors import YarnpsError
from yarnps.am.config import Config
from yarnps.am.inputs import Broken, Listed
from yarnps.causes import Cause
from yarnps.data import DataSettings, Listing, list_input
from yarnps.files import Files, open_files
from yarnps.jobdir import AM_CERTIFICATE, AM_JSON, AM_KEY, CUTS, MANIFEST, SPLITS, JobDir
from yarnps.rabit.sharing import as_json

logger = logging.getLogger(__name__)

# For the files that a built-in program adds to a model: a gigabyte of text takes minutes.
FINISH_LIMIT_S = 3600.0


def import_readers(config: Config) -> None:
    """Import what the listing needs; while this runs nothing else may import."""
    data.import_readers(data.DataSettings.from_block(config.block))
    for address in (*config.block.data.train, *(config.block.data.test or ())):
        with suppress(YarnpsError):  # said when it is listed
            open_files(address)


def find_input(config: Config, job_dir: JobDir) -> Listed | Broken | str:
    """List the input as the runtime wants it: for the ledger, or for the workers to share.

    A text says what was found, where the state machine has no use for it (dmlc: nothing).
    """
    if config.block.runtime == "native":
        return list_all(config, job_dir)
    if config.block.runtime == "xgboost" and config.block.data.train:
        return share_input(config, job_dir)
    return ""


def list_all(config: Config, job_dir: JobDir) -> Listed | Broken:
    """The input of the job, and the cuts of earlier attempts if there have been any."""
    data = config.block.data
    settings = DataSettings.from_block(config.block)
    workers = config.worker.instances
    parts = config.block.sync.parts_of(workers)
    readers = parts or workers  # BSP: the splits must not depend on the number of workers
    try:
        train = list_input(list(data.train), settings, workers=readers)
        test = None if data.test is None else list_input(list(data.test), settings, workers=readers)
        earlier = earlier_cuts(job_dir) if config.attempt > 1 else None
    except YarnpsError as error:
        logger.exception("the input cannot be listed")
        return Broken(Cause.DATA.value, f"the input cannot be listed: {error.what}. {error.remedy}")
    return Listed(
        train=tuple(split.to_pb() for split in train.splits),
        test=() if test is None else tuple(split.to_pb() for split in test.splits),
        notes=(
            *_notes("training input", train),
            *_notes("test input", test),
            *_idle_parts(len(train.splits), parts or 0),
        ),
        resume=earlier,
    )


def share_input(config: Config, job_dir: JobDir) -> str | Broken:
    """List the input for workers that share it (`yarnps.shard`); says what was found.

    An earlier attempt's list stays: what a worker has gone on from its checkpoint with must not
    become another's.
    """
    data, workers = config.block.data, config.worker.instances
    settings = DataSettings.from_block(config.block)
    try:
        if job_dir.exists(SPLITS):
            return "input: as an earlier start has listed it"
        found = {"train": list_input(list(data.train), settings, workers=workers)}
        if data.test is not None:
            found["test"] = list_input(list(data.test), settings, workers=workers)
        shared = {name: as_json(listing.splits) for name, listing in found.items()}
        job_dir.write_json(SPLITS, {"workers": workers, **shared})
    except YarnpsError as error:
        logger.exception("the input cannot be listed")
        return Broken(Cause.DATA.value, f"the input cannot be listed: {error.what}. {error.remedy}")
    counts = [f"{len(each.splits)} splits to {name} on" for name, each in found.items()]
    notes = [note for name, each in found.items() for note in _notes(f"{name}ing input", each)]
    return "; ".join([f"input: {', '.join(counts)}, shared by {workers} workers", *notes])


def _idle_parts(splits: int, parts: int) -> list[str]:
    """A word on parts of BSP steps that have nothing to do."""
    if splits >= parts:
        return []
    text = f"{splits} splits for {parts} parts of a step: {parts - splits} parts are always empty"
    return [f"training input: {text}; a smaller data.split_size makes more"]


def _notes(name: str, listing: Listing | None) -> list[str]:
    """What was left out, by name, and what else a person should know of a listing."""
    if listing is None:
        return []
    left_out = [f"{name}: {path} is left out: {why}" for path, why in listing.skipped]
    return left_out + [f"{name}: {note}" for note in listing.notes]


def earlier_cuts(job_dir: JobDir) -> dict[str, Any]:
    """The complete cuts of earlier attempts, and every number that is taken."""
    complete = (job_dir.read_json(CUTS, str(n), MANIFEST) for n in job_dir.cut_numbers())
    return {
        "manifests": [manifest for manifest in complete if manifest is not None],
        "numbers": job_dir.cut_folders(),
    }


def write_manifest(job_dir: JobDir, cut: int, manifest: dict[str, Any]) -> None:
    """Make a cut count: its manifest appears whole or not at all."""
    job_dir.write_json(f"{CUTS}/{cut}/{MANIFEST}", manifest)


def delete_cuts(job_dir: JobDir, numbers: tuple[int, ...]) -> None:
    """Remove cuts; the manifest goes first, so that half a cut is never taken for a whole one."""
    for number in numbers:
        folder = job_dir.inside(CUTS, str(number))
        manifest = f"{folder}/{MANIFEST}"
        if job_dir.files.exists(manifest):
            job_dir.files.delete(manifest)
        if job_dir.files.exists(folder):
            job_dir.files.delete(folder, recursive=True)


def finish_app(config: Config, source: str) -> None:
    """What the job's built-in program adds to a model whose parts are all there.

    In a process of its own: it may take long, and must not hold up the ApplicationMaster.
    """
    module = f"yarnps.apps.{config.block.app}.finish"
    words = [source, config.job_dir, json.dumps(config.block.params)]
    try:
        done = subprocess.run(
            [sys.executable, "-m", module, *words],
            capture_output=True,
            text=True,
            timeout=FINISH_LIMIT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise YarnpsError(f"{module} was not through within {FINISH_LIMIT_S:.0f} s") from error
    if done.returncode:
        logger.error("%s: %s", module, done.stderr)
        last = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
        raise YarnpsError(f"{module} could not finish the model: {last}")


def finish_model(source: str, manifest: dict[str, Any], metrics: dict[str, float]) -> None:
    """Write the manifest of a model whose parts are all there."""
    files, path = open_files(source)
    whole = {**manifest, "metrics": metrics, "created": time.strftime("%Y-%m-%dT%H:%M:%SZ")}
    files.write_bytes(f"{path}/{MANIFEST}", json.dumps(whole, indent=1).encode())


def place_model(config: Config, source: str) -> None:
    """Rename a finished model to its final place.

    What this job has put there itself is no obstacle: a process that died before it could say so
    comes back and does it again.
    """
    files, path = open_files(source)
    _, final = open_files(config.model)
    ours = _application_of(files, final) == config.application
    if ours and not files.exists(path):
        return
    aside = f"{final}.{config.application}.old"
    if (ours or config.block.model.overwrite) and files.exists(final):
        if files.exists(aside):
            files.delete(aside, recursive=True)
        files.rename(final, aside)
    files.rename(path, final)
    if files.exists(aside):
        files.delete(aside, recursive=True)


def _application_of(files: Files, model: str) -> str:
    """The application that has written a model; empty where there is none, or it does not say."""
    if not files.exists(f"{model}/{MANIFEST}"):
        return ""
    try:
        manifest = json.loads(files.read_bytes(f"{model}/{MANIFEST}"))
    except ValueError:
        return ""
    return str(manifest.get("application", "")) if isinstance(manifest, dict) else ""


def remove_leftovers(config: Config) -> list[str]:
    """Remove folders of models that this job wrote beside the final one and did not need."""
    files, final = open_files(config.model)
    gone = []
    for info in files.glob(f"{final}.*.{config.application}.tmp"):
        files.delete(info.path, recursive=True)
        gone.append(info.path)
    return gone


def remove_keys(job_dir: JobDir) -> None:
    """Keys and addresses are of no use after the end."""
    for name in (AM_JSON, AM_CERTIFICATE, AM_KEY):
        if job_dir.exists(name):
            job_dir.files.delete(job_dir.inside(name))
