"""Archives on the cluster's file system, found again by their content."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from yarnps._errors import DataError
from yarnps.client.output import Say, size

if TYPE_CHECKING:
    from yarnps.files import Files

CHUNK = 4 << 20


class ArchiveCache:
    """``<home>/.yarnps/cache/<sha256>.<extension>``, shared by all applications of a user.

    Parameters
    ----------
    folder
        Address of the cache's folder.
    """

    def __init__(self, folder: str, say: Say) -> None:
        from yarnps.files import open_files

        self._files: Files
        self._files, path = open_files(folder)
        self._path = path.rstrip("/")
        self._say = say
        self.uploaded = 0  # bytes, by this object

    def find(self, digest: str, extension: str) -> str | None:
        """The address of an archive that is there already."""
        path = self._place(digest, extension)
        return self._files.address(path) if self._files.exists(path) else None

    def put_file(self, source: Path, extension: str, what: str) -> str:
        """The address of this file's content in the cache; uploads what is not there."""
        with open(source, "rb") as file:
            digest = _digest(file)
        with open(source, "rb") as file:
            return self._put(file, source.stat().st_size, digest, extension, what)

    def put_bytes(self, data: bytes, extension: str, what: str) -> str:
        """The same for content in memory."""
        import io

        digest = hashlib.sha256(data).hexdigest()
        return self._put(io.BytesIO(data), len(data), digest, extension, what)

    def _put(self, file: BinaryIO, length: int, digest: str, extension: str, what: str) -> str:
        path = self._place(digest, extension)
        if self._files.exists(path):
            self._say(f"{what}: on the cluster already, 0 bytes uploaded")
            return self._files.address(path)
        self._files.mkdirs(self._path)
        # Under a name of our own until it is complete: nobody ever uses half an archive.
        temporary = f"{self._path}/.{digest}.{os.uname().nodename}-{os.getpid()}.new"
        with self._files.open(temporary, "wb") as target:
            while chunk := file.read(CHUNK):
                target.write(chunk)
        try:
            self._files.rename(temporary, path)
        except DataError:
            # Somebody else has put the same content there in the meantime.
            if not self._files.exists(path):
                raise
            self._files.delete(temporary)
        self.uploaded += length
        self._say(f"{what}: {size(length)} uploaded")
        return self._files.address(path)

    def _place(self, digest: str, extension: str) -> str:
        return f"{self._path}/{digest}.{extension}"


def _digest(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while chunk := file.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()
