"""``verify``: read every byte of a dataset once and compare it with what the folder records of itself."""

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from ident3d.errors import UserError
from ident3d.loaders.folders.folder import Folder, is_dataset
from ident3d.loaders.folders.judge import MISMATCH, Verdict, judge, reason, shard_names
from ident3d.loaders.folders.packed import PACKED_FILE, PIXELS_FILE, pixels_problem, record_problem
from ident3d.loaders.folders.provenance import CARD_FILES, PROVENANCE_FILE, beside_problems
from ident3d.loaders.folders.repair import (
    Findings,
    Problem,
    candidates,
    description_or_rebuilt,
    repair_folder,
    repair_store,
    sentence_of_moved,
)
from ident3d.loaders.folders.store_transfer import working_copy
from ident3d.loaders.format.description import DATASET_FILE, SHARDS, Description
from ident3d.loaders.format.files import remove_partial_files, sha256
from ident3d.loaders.format.inside import folder_at, plain_sizes
from ident3d.loaders.format.latents_source import LATENTS_FILE, copy_is_sound, world_of
from ident3d.loaders.format.latents_table import TABLE_FILE, Latents, table_problem
from ident3d.loaders.format.manifest import MANIFEST_FILE, ShardEntry, manifest_bytes, without_overlaps
from ident3d.loaders.stores.lease import lease
from ident3d.loaders.stores.store import Store, store_or_folder
from ident3d.loaders.stores.store_lease import lease_on_store
from ident3d.progress import progress_bar

SMALL_FILES = (LATENTS_FILE, TABLE_FILE, PROVENANCE_FILE, *CARD_FILES)


@dataclass(frozen=True)
class Verified:
    """The result of a verification: images that are as recorded, images still missing, and all that is wrong.

    `unjudged` is what could not be read here and now; nothing is known of it. `done` says what a repair did. A dataset
    is `closed` if it says itself that it is complete: a run that is killed after its last shard leaves one that is not.
    """

    path: Path | Store
    good: int
    missing: int
    problems: tuple[Problem, ...]
    unjudged: tuple[Problem, ...] = ()
    repaired: bool = False
    done: tuple[str, ...] = ()
    closed: bool = True
    total: int = 0

    @property
    def sound(self) -> bool:
        """Complete, and nothing wrong or unknown."""
        return self.closed and not (self.problems or self.unjudged or self.missing)


def verify(path: Path | str, *, repair: bool = False, delete: bool = False, show_progress: bool = True) -> Verified:
    """Check every hash, shape, index and latent of a dataset folder once.

    Latents must lie in [-1, 1] and equal what their recorded source gives (seed, copied file or import), and a packed
    file its recorded hash. What cannot be read, because of a lock, too little memory or too many open files, is not
    judged. With `repair`, a damaged manifest is rebuilt from the shards, and what is proven wrong goes from the folder
    into ``removed-<time>`` in it, so that the same `render` makes it again.

    Args:
        path: The dataset folder, or its address in a store.
        repair: Rebuild the manifest if need be, and take out what is broken.
        delete: Delete what a hash proves wrong instead of moving it.
        show_progress: Show a progress bar.

    Returns:
        A `Verified`: the number of good images, and the problems.

    Example:
        >>> import ident3d
        >>> found = ident3d.verify(dataset, show_progress=False)
        >>> found.good, found.problems
        (16, ())
    """
    if delete and not repair:
        raise UserError("--delete says how to repair; give it together with --repair.")
    where = store_or_folder(path)
    if isinstance(where, Path):
        if not where.exists():
            raise UserError(f"There is no folder {where}; check the path.")
        if not (where.is_dir() and (is_dataset(where) or (where / MANIFEST_FILE).exists() or shard_names(where))):
            raise UserError(f"{where} is not a dataset folder.")
        refuse_linked_shards(where, reading=not repair)
    holding = lease_on_store(where) if isinstance(where, Store) else lease(where)
    with holding if repair else nullcontext() as held, working_copy(where, SMALL_FILES) as folder:
        findings, good, missing = inspect(where, folder, show_progress)
        done = list[str]()
        if held:
            # Another process may have taken the lease over during a check of hours; it may be writing by now.
            held.check()
            remove_partial_files(folder)
            remove_partial_files(folder, SHARDS)
        if held and findings.relist and findings.unread:
            # Else the manifest would forget a shard that is there, and perhaps sound.
            done.append(f"Nothing was changed: {MANIFEST_FILE} is rebuilt only when all shards can be read.")
        elif held and findings.problems:
            aside, done = repair_folder(folder, findings, delete=delete)
            moved: Sequence[str] = aside.moved
            if isinstance(where, Store):
                moved = repair_store(where, folder, findings, aside, delete=delete)
            done += sentence_of_moved(where, aside, moved)
    # A store's small files were read from a folder of the cache, whose name means nothing to the user.
    problems, unjudged = (
        tuple(Problem(each.what.replace(str(folder), str(where)), each.shard) for each in found)
        for found in (findings.problems, findings.unjudged)
    )
    changed = repair and bool(problems) and not (findings.relist and findings.unread)
    closed = findings.description.complete and (findings.whole or not changed)
    total = findings.description.n
    return Verified(where, good, missing, problems, unjudged, changed, tuple(done), closed, total)


def refuse_linked_shards(path: Path, *, reading: bool) -> None:
    """Raise UserError if `shards` is a link. Where the user asks to read through links, a repair still is refused."""
    with suppress(FileNotFoundError), folder_at(path, SHARDS, reading=reading):
        pass


def inspect(where: Path | Store, folder: Path, show_progress: bool) -> tuple[Findings, int, int]:
    """Read everything once; return what was found, and how many images are good and how many missing."""
    description, what = description_or_rebuilt(where, folder)
    findings = Findings(description)
    add(findings, what, DATASET_FILE)
    # Of a description that is rebuilt, nothing vouches for the hash of the latents.
    check(findings, lambda: latents_file_problem(folder, description), LATENTS_FILE, proven=not what)
    # While the copy of the latents is broken, or could not be read, shards are compared with all but their source.
    compare_latents = not (LATENTS_FILE in findings.broken or findings.unjudged)
    check_packed(findings, Folder(folder, description, ()))
    listed, vouched, what = candidates(where, folder, description)
    add(findings, what)
    findings.relist = bool(what)
    latents, doubtful = list[Latents](), list[str]()
    good = listed_images = 0
    with progress_bar(description.n, "images", show=show_progress) as bar:
        for name, line in listed:
            found = judge(where, folder, description, name, line, vouched=vouched, compare_latents=compare_latents)
            count = found.entry.count if found.entry else 0
            listed_images += count
            bar.update(count)
            add_verdict(findings, name, line, found)
            if found.latents and not found.wrong:
                good += count
                latents.append(found.latents)
                if line and found.entry != line and not what:
                    add(findings, f"{MANIFEST_FILE}: the line of {name} is not that of its file")
                    findings.relist = True
            if found.doubtful and not found.wrong:
                doubtful.append(name)
    findings.entries = without_overlaps(findings.entries)
    listed_right = description.complete and sha256(manifest_bytes(findings.entries)) == description.shards_sha256
    for name in () if listed_right else doubtful:
        findings.problems.append(Problem(f"{name}: {MISMATCH}", name))
        findings.broken[f"{SHARDS}/{name}"] = False
        findings.entries = [entry for entry in findings.entries if entry.name != name]
    if listed_right and not findings.shards and len(latents) == len(listed):
        recorded, n_raw = description.all_latents, world_of(description.settings).n_raw
        check(findings, lambda: table_problem(folder, recorded, description.n, n_raw, latents), TABLE_FILE)
    findings.whole = listed_right and not {DATASET_FILE, LATENTS_FILE, TABLE_FILE} & findings.broken.keys()
    if description.complete:
        check_beside(findings, folder)
    return findings, good, max(0, description.n - listed_images)


def add_verdict(findings: Findings, name: str, line: ShardEntry | None, found: Verdict) -> None:
    """Note what is known of a shard of which the manifest says `line`, and what the manifest should say of it."""
    for each in found.wrong:
        findings.problems.append(Problem(f"{name}: {each}", name))
        findings.broken[f"{SHARDS}/{name}"] = found.proven
    if found.unknown:
        findings.unjudged.append(Problem(f"{name}: {found.unknown}", name))
        findings.unread |= found.unread and not line
    if found.entry and not found.wrong:
        findings.entries.append(found.entry)


def add(findings: Findings, what: str | None, *files: str, proven: bool = False) -> None:
    """Note a problem, if `what` says one, and the files that a repair takes out for it."""
    if what:
        findings.problems.append(Problem(what))
        findings.broken |= dict.fromkeys(files, proven)


def check(findings: Findings, find_problem: Callable[[], str | None], *files: str, proven: bool = True) -> bool:
    """Note what is wrong with a file that has a recorded hash, or why that is unknown; return whether it is sound."""
    try:
        what = find_problem()
    except (OSError, MemoryError) as error:
        findings.unjudged.append(Problem(f"{files[-1]}: {reason(error)}"))
        return False
    add(findings, what, *files, proven=proven)
    return what is None


def check_packed(findings: Findings, folder: Folder) -> None:
    """Note what is wrong with the packed file. Only its own record can prove it wrong, and only while that is sound."""
    if not folder.description.complete:
        return
    sound = check(findings, lambda: record_problem(folder), PACKED_FILE, proven=False)
    if sound and os.path.lexists(folder.path / PACKED_FILE):
        check(findings, lambda: pixels_problem(folder), PIXELS_FILE)
    elif plain_sizes(folder.path, "", [PIXELS_FILE])[PIXELS_FILE] is not None:
        what = f"{PIXELS_FILE}: its hash stands in {PACKED_FILE} alone; `ident3d pack` makes both anew"
        findings.unjudged.append(Problem(what))
    if PIXELS_FILE in findings.broken:
        findings.broken[PACKED_FILE] = False


def latents_file_problem(folder: Path, description: Description) -> str | None:
    if copy_is_sound(folder, description.settings):
        return None
    return f"{LATENTS_FILE} is not the latents file that this dataset was started with."


def check_beside(findings: Findings, folder: Path) -> None:
    """Note what is wrong with the card and the record of runs. Each is set aside by a repair, and never deleted."""
    try:
        for name, what in beside_problems(folder).items():
            add(findings, what, name)
    except (OSError, MemoryError) as error:
        name = Path(getattr(error, "filename", None) or PROVENANCE_FILE).name
        findings.unjudged.append(Problem(f"{name}: {reason(error)}"))
