"""Object stores by their fsspec URL: s3://bucket/data, gs://…. Objects are written and read whole, never appended to.

Credentials stay in the store's own environment variables and files: an address that holds any is refused.
"""

import errno
import platform
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

from ident3d.errors import UserError
from ident3d.loaders.format.files import TEMPORARY

# Their fsspec packages make a file "only if its name is free" by the store's own conditional write.
CONDITIONAL = ("s3", "s3a", "gs", "gcs", "memory")
# After these errors another attempt would fail in the same way.
PERMANENT = (PermissionError, FileNotFoundError, ValueError)
# Amazon S3's answer if another process writes the name at the same moment.
CONFLICT = "ConditionalRequestConflict"
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:/")
# `user:password@`, and the query of a signed address.
SECRET = re.compile(r"//[^/@\s]*@|(?<=[?&])\S+")


@dataclass(frozen=True)
class Store:
    """A dataset's address in an object store; holds nothing else, so that it can be sent to other processes."""

    url: str

    def __str__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.url.rpartition("/")[2]

    @property
    def conditional(self) -> bool:
        """Whether the store itself decides `create` between several that try at the same time."""
        return self.url.partition("://")[0] in CONDITIONAL

    def put(self, name: str, data: bytes) -> None:
        """Write the object: whole, or not at all."""
        with self._open() as (files, root):
            path = f"{root}/{name}"
            # In an object store nothing appears before all of it is there. Elsewhere a rename has to do that.
            if self.conditional:
                files.pipe_file(path, data)
                return
            folder, _, last = path.rpartition("/")
            files.makedirs(folder, exist_ok=True)
            partial = f"{folder}/{TEMPORARY}{token_hex(8)}-{last}"
            files.pipe_file(partial, data)
            files.mv(partial, path)

    def create(self, name: str, data: bytes) -> bool:
        """Write the object unless there is one of this name, and return whether it is ours. `data` must be unique."""
        with self._open() as (files, root):
            try:
                files.pipe_file(f"{root}/{name}", data, mode="create")
                return True
            except FileExistsError:
                # It may be our own: if an answer was lost, the store's client has sent the same request again.
                return self._holds(files, f"{root}/{name}", data)
            except OSError as error:
                if CONFLICT in str(error):
                    return False
                # The "precondition failed" of some stores arrives as EINVAL.
                if error.errno != errno.EINVAL or not files.exists(f"{root}/{name}"):
                    raise
                return self._holds(files, f"{root}/{name}", data)

    def get(self, name: str) -> bytes | None:
        """Return all of the object; None if there is none."""
        with self._open() as (files, root), suppress(FileNotFoundError):
            return bytes(files.cat_file(f"{root}/{name}"))
        return None

    def get_all(self, names: Iterable[str]) -> list[bytes]:
        """Return several objects, fetched at the same time, without those that are gone."""
        with self._open() as (files, root):
            wanted = [f"{root}/{name}" for name in names]
            found = files.cat(wanted, on_error="omit") if wanted else {}
            return [found[path] for path in wanted if path in found]

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the names and sizes of the objects directly below a folder."""
        found = self._list(folder)
        return {name: size for name, (kind, size) in found.items() if kind == "file"}

    def folders(self) -> set[str]:
        """Return the names of the folders directly below the dataset's."""
        return {name for name, (kind, _) in self._list("").items() if kind == "directory"}

    def _list(self, folder: str) -> dict[str, tuple[str, int]]:
        with self._open() as (files, root):
            path = f"{root}/{folder}".rstrip("/")
            try:
                found = files.ls(path, detail=True)
            except FileNotFoundError:
                return {}
            # An object "folder/" may stand for the folder itself: a store's web pages create such objects.
            below = {info["name"].rstrip("/"): info for info in found if info["name"].rstrip("/") != path}
            return {name.rpartition("/")[2]: (info["type"], int(info["size"] or 0)) for name, info in below.items()}

    def modified(self, name: str) -> datetime | None:
        """Return when the object was written, by the store's clock; None if there is none."""
        with self._open() as (files, root), suppress(FileNotFoundError):
            when: datetime = files.modified(f"{root}/{name}")
            return when
        return None

    def remove(self, name: str) -> None:
        with self._open() as (files, root), suppress(FileNotFoundError):
            files.rm_file(f"{root}/{name}")

    def remove_all(self, names: Iterable[str]) -> None:
        """Remove objects, many at a time if the store can."""
        with self._open() as (files, root):
            there = [f"{root}/{name}" for name in names]
            try:
                if there:
                    files.rm(there)
                return
            except FileNotFoundError:
                pass
        # One of them was gone already, and the store may have stopped there.
        for path in there:
            self.remove(path.removeprefix(f"{root}/"))

    @staticmethod
    def _holds(files: Any, path: str, data: bytes) -> bool:
        with suppress(FileNotFoundError):
            return bool(files.cat_file(path) == data)
        return False

    @contextmanager
    def _open(self) -> Iterator[tuple[Any, str]]:
        """Open fsspec's file system and give the path in it. Any error of it becomes one sentence without secrets.

        An error that another attempt would meet again is a UserError; any other is an OSError, which callers retry.
        """
        try:
            from fsspec.core import url_to_fs

            files, root = url_to_fs(self.url)
            # fsspec remembers listings, but other processes write there too.
            files.invalidate_cache()
            yield files, root
        except UserError:
            raise
        except ImportError as error:
            raise UserError(
                f"{self.url} needs a package that is missing ({error}); pip install 'ident3d[cluster]' has those of s3."
            ) from None
        except Exception as error:  # each file system has exceptions of its own
            what = f"{type(error).__name__}: {redact(error)}"
            if isinstance(error, PERMANENT) or "Credentials" in type(error).__name__:
                raise UserError(f"{self.url} cannot be used from here, host {platform.node()} ({what}).") from None
            raise OSError(errno.EIO, what, self.url) from None


def store_or_folder(path: Path | str) -> Path | Store:
    """Return a local folder, given by its path or a file:// address, or the store that any other address names."""
    text = str(path)
    scheme, separator, rest = text.partition("://")
    if isinstance(path, Path) or not separator:
        return local_folder(path)
    if "@" in rest.partition("/")[0] or "?" in rest:
        raise UserError(
            "An address with a user name, password or query in it is refused, because addresses are kept and shown. "
            "Give credentials as the store's own tools take them: in the environment or in their files."
        )
    parts = rest.rstrip("/").split("/")
    if "::" in text or set("#*[") & set(rest) or {".", ".."} & set(parts) or "" in parts[1:] or not parts[-1]:
        raise UserError(f"{text} is not the plain address of a folder, as in s3://bucket/folder.")
    if scheme == "file":
        if parts[0] not in ("", "localhost"):
            raise UserError(f"{text} names the host {parts[0]}; the path of a file:// address begins with a third /.")
        return Path("/", *parts[1:])
    return Store(f"{scheme}://{rest.rstrip('/')}")


def local_folder(path: Path | str) -> Path:
    """Return the path; refuse an address, also one that lost a slash because it was made a Path."""
    if ADDRESS.match(str(path)):
        raise UserError(
            f"{path} is an address, but only the path of a folder can be used here; render's --out takes addresses."
        )
    return Path(path)


def redact(error: BaseException) -> str:
    """Return the first line of an exception's message, without what looks like a credential."""
    first, *_ = str(error).splitlines() or [""]
    return SECRET.sub(lambda found: "//…@" if found[0].startswith("//") else "…", first)
