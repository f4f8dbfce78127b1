"""Object stores by their fsspec URL: s3://bucket/data, gs://…. Objects are put and fetched whole, never appended to.

Credentials are the store's own business (its environment variables and files): an address that holds any is refused.
"""

import errno
import platform
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

from ident3d.errors import UserError
from ident3d.loaders.format.files import TEMPORARY

# Their fsspec packages make a file "only if its name is free" by the store's own conditional write.
CONDITIONAL = ("s3", "s3a", "gs", "gcs", "memory")
PERMANENT = (PermissionError, FileNotFoundError, ValueError)  # another attempt would meet the same
CONFLICT = "ConditionalRequestConflict"  # what Amazon's S3 answers where another writes the name at the same moment
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:/")
SECRET = re.compile(r"//[^/@\s]*@|(?<=[?&])\S+")  # user:password@, and the query of a signed address


@dataclass(frozen=True)
class Store:
    """A dataset's place in an object store. Knows its address alone, so that it travels to other processes."""

    url: str

    def __str__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.url.rpartition("/")[2]

    @property
    def conditional(self) -> bool:
        """Whether `create` is decided by the store, whoever else creates at the same time."""
        return self.url.partition("://")[0] in CONDITIONAL

    def put(self, name: str, data: bytes) -> None:
        """Write the object: whole, or not at all."""
        with self._opened() as (files, root):
            path = f"{root}/{name}"
            if self.conditional:  # an object store, where nothing is there before all of it is
                files.pipe_file(path, data)
                return
            folder, _, last = path.rpartition("/")
            files.makedirs(folder, exist_ok=True)
            partial = f"{folder}/{TEMPORARY}{token_hex(8)}-{last}"
            files.pipe_file(partial, data)
            files.mv(partial, path)

    def create(self, name: str, data: bytes) -> bool:
        """Write the object unless there is one of this name; whether it is ours (`data` is like no other's)."""
        with self._opened() as (files, root):
            try:
                files.pipe_file(f"{root}/{name}", data, mode="create")
                return True
            except FileExistsError:
                return self._holds(files, f"{root}/{name}", data)  # so it may be, where a lost answer was retried
            except OSError as error:
                if CONFLICT in str(error):
                    return False
                if error.errno != errno.EINVAL or not files.exists(f"{root}/{name}"):
                    raise  # some stores' "precondition failed" reaches us as EINVAL
                return self._holds(files, f"{root}/{name}", data)

    def get(self, name: str) -> bytes | None:
        """All of the object; None if there is none."""
        with self._opened() as (files, root):
            try:
                data: bytes = files.cat_file(f"{root}/{name}")
            except FileNotFoundError:
                return None
            return data

    def get_all(self, names: Iterable[str]) -> list[bytes]:
        """All of several objects, fetched at the same time; those that are gone are left out."""
        with self._opened() as (files, root):
            wanted = [f"{root}/{name}" for name in names]
            found = files.cat(wanted, on_error="omit") if wanted else {}
            return [found[path] for path in wanted if path in found]

    def sizes(self, folder: str) -> dict[str, int]:
        """The names and sizes of the objects directly below a folder."""
        found = self._listed(folder)
        return {name: size for name, (kind, size) in found.items() if kind == "file"}

    def folders(self) -> set[str]:
        """The names of the folders directly below the dataset's."""
        return {name for name, (kind, _) in self._listed("").items() if kind == "directory"}

    def _listed(self, folder: str) -> dict[str, tuple[str, int]]:
        with self._opened() as (files, root):
            path = f"{root}/{folder}".rstrip("/")
            try:
                found = files.ls(path, detail=True)
            except FileNotFoundError:
                return {}
            # An object "folder/" may stand for the folder itself: a store's web pages make such a one.
            below = {info["name"].rstrip("/"): info for info in found if info["name"].rstrip("/") != path}
            return {name.rpartition("/")[2]: (info["type"], int(info["size"] or 0)) for name, info in below.items()}

    def modified(self, name: str) -> datetime | None:
        """When the object was written, by the store's clock; None if there is none."""
        with self._opened() as (files, root):
            try:
                when: datetime = files.modified(f"{root}/{name}")
            except FileNotFoundError:
                return None
            return when

    def remove(self, name: str) -> None:
        with self._opened() as (files, root):
            try:
                files.rm_file(f"{root}/{name}")
            except FileNotFoundError:
                return

    def remove_all(self, names: Iterable[str]) -> None:
        """Remove objects, many at a time where the store can."""
        with self._opened() as (files, root):
            there = [f"{root}/{name}" for name in names]
            try:
                if there:
                    files.rm(there)
                return
            except FileNotFoundError:
                pass
        for path in there:  # one of them was gone already
            self.remove(path.removeprefix(f"{root}/"))

    @staticmethod
    def _holds(files: Any, path: str, data: bytes) -> bool:
        try:
            return bool(files.cat_file(path) == data)
        except FileNotFoundError:
            return False

    @contextmanager
    def _opened(self) -> Iterator[tuple[Any, str]]:
        """fsspec's file system and the path in it; whatever goes wrong there is one sentence, without secrets."""
        try:
            from fsspec.core import url_to_fs

            files, root = url_to_fs(self.url)
            files.invalidate_cache()  # others write there too
            yield files, root
        except UserError:
            raise
        except ImportError as error:
            raise UserError(
                f"{self.url} needs a package that is missing ({error}); pip install 'ident3d[cluster]' has those of s3."
            ) from None
        except Exception as error:  # each file system has exceptions of its own
            what = f"{type(error).__name__}: {redacted(error)}"
            if isinstance(error, PERMANENT) or "Credentials" in type(error).__name__:
                raise UserError(f"{self.url} cannot be used from here, host {platform.node()} ({what}).") from None
            raise OSError(errno.EIO, what, self.url) from None


def store_or_folder(path: Path | str) -> Path | Store:
    """A local folder, by its path or a file:// address, or the store that any other address names."""
    text = str(path)
    scheme, separator, rest = text.partition("://")
    if isinstance(path, Path) or not separator:
        return local_folder(path)
    if "@" in rest.partition("/")[0] or "?" in rest:
        raise UserError(
            "An address with a user name, password or query in it is refused, for addresses are kept and shown; "
            "give credentials as the store's own tools take them, in the environment or in their files."
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
    """The path, unless it is what is left of an address that was taken for one: a Path loses one of its slashes."""
    if ADDRESS.match(str(path)):
        raise UserError(
            f"{path} is an address, and here goes only the path of a folder; render's --out takes addresses."
        )
    return Path(path)


def redacted(error: BaseException) -> str:
    """The first line of what an exception says, without what looks like a credential."""
    first, *_ = str(error).splitlines() or [""]
    return SECRET.sub(lambda found: "//…@" if found[0].startswith("//") else "…", first)
