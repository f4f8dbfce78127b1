"""Pinned archives from the package index of pip's configuration. Nothing of them is built or run."""

import ast
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ident3d.downloads.archive import Archive, check_archive, without_credentials
from ident3d.errors import UserError

if TYPE_CHECKING:
    from unearth import PackageFinder


def pip_configuration(instead: str) -> dict[str, str]:
    """Return pip's settings for downloads by option name, from its files and its environment variables.

    `instead` says in errors, here and below, what a user does who has no package index.
    """
    command = [sys.executable, "-m", "pip", "config", "list"]
    listing = subprocess.run(command, capture_output=True, text=True, check=False)
    if listing.returncode:
        reason = (listing.stderr.strip() or listing.stdout.strip() or "no message").splitlines()[-1]
        reason = without_credentials(reason).rstrip(".")
        raise UserError(f"The package index comes from pip's configuration, but pip fails ({reason}); {instead}.")
    return effective(listing.stdout)


def effective(listing: str) -> dict[str, str]:
    """Parse lines ``section.option='value'`` of ``pip config list`` as ``pip download`` does: the environment wins."""
    found: dict[str, str] = {}
    lines = [line.partition("=") for line in listing.splitlines()]
    for section in ("global", "download", ":env:"):
        for key, _, value in lines:
            if key.startswith(f"{section}."):
                found[key.removeprefix(f"{section}.")] = str(ast.literal_eval(value))
    return found


@contextmanager
def package_finder(settings: Mapping[str, str], instead: str, *, wheels: bool = False) -> Iterator["PackageFinder"]:
    """Yield a finder of source distributions, or of `wheels`, that searches where pip would, with pip's settings."""
    try:
        from unearth import PackageFinder
        from unearth.auth import MultiDomainBasicAuth
        from unearth.fetchers import PyPIClient
    except ImportError:
        raise UserError("Fetching needs the package unearth: pip install 'ident3d[render]'.") from None
    index, extra, links, trusted = (
        settings.get(name, "").split() for name in ("index-url", "extra-index-url", "find-links", "trusted-host")
    )
    if settings.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        index, extra = [], []
        if not links:
            raise UserError(f"pip's configuration allows no package index (no-index); {instead}.")
    elif not index:
        # unearth's own default is pip's.
        index = [source["url"] for source in PackageFinder().sources]
    options: dict[str, Any] = {
        ours: settings[pips] for pips, ours in {"proxy": "proxy", "client-cert": "cert"}.items() if pips in settings
    }
    try:
        options["timeout"] = float(settings.get("timeout", settings.get("default-timeout", 15)))
        if "cert" in settings:
            options["verify"] = ssl.create_default_context(cafile=settings["cert"])
        client: Any = PyPIClient(trusted_hosts=trusted, follow_redirects=True, **options)
    except (OSError, ValueError) as error:
        reason = without_credentials(str(error))
        raise UserError(
            f"pip's configuration of timeout, cert, client-cert or proxy cannot be used: {reason}."
        ) from None
    with client:
        client.auth = MultiDomainBasicAuth(prompting=False, index_urls=[*index, *extra])
        # A place of pip's find-links is a URL or a folder.
        places = [link if "://" in link else Path(link).expanduser().resolve().as_uri() for link in links]
        every = [":all:"]
        yield PackageFinder(
            client, index_urls=[*index, *extra], find_links=places, no_binary=[] if wheels else every,
            only_binary=every if wheels else [],
        )  # fmt: skip


def download(
    finder: "PackageFinder", archive: Archive, folder: Path, on_bytes: Callable[[int], object], instead: str
) -> Path:
    """Fetch the archive into the folder and check its hash. `on_bytes` gets the change in the number of bytes."""
    from unearth.errors import UnpackError
    from unearth.preparer import HTTPErrors

    # What may go wrong elsewhere. A TypeError or KeyError would be a fault of ours, and must be seen.
    failures: tuple[type[Exception], ...] = (*HTTPErrors, UnpackError, ValueError, OSError, UserError)
    done = 0
    # The last status of each URL counts: a keyring may answer what the first request was refused for.
    answers: dict[str, int] = {}

    def report(link: object, completed: int, total: int | None) -> None:
        nonlocal done
        # The hash would refuse it as well, but only after a hostile index has filled the disk.
        if completed > archive.size:
            raise UserError(f"it is larger than the {archive.size} bytes it should have")
        on_bytes(completed - done)
        done = completed

    def note(answer: Any) -> None:
        answers[str(answer.url)] = answer.status_code

    session: Any = finder.session
    # To the finder, an index that answers 401 looks like an empty one.
    session.event_hooks = {"response": [note]}
    reason, found = "", []
    try:
        found = list(finder.find_matches(f"{archive.name}=={archive.version}", allow_yanked=True))
    except Exception as error:
        # An index may answer anything, and no code of ours runs in the finder.
        reason = str(error) or type(error).__name__
    for package in found:
        if package.link.filename != archive.filename:
            continue
        try:
            return check_archive(finder.download(package.link, folder, {"sha256": [archive.sha256]}, report), archive)
        except failures as error:
            # Another index may have the right archive, so the loop goes on. The first reason is the one to report.
            reason = reason or str(error) or type(error).__name__
            on_bytes(-done)
            done = 0
    if not reason and HTTPStatus.UNAUTHORIZED in answers.values():
        raise UserError(
            f"{archive.filename} could not be fetched: pip's package index asks for a user name and password (401), "
            f"and pip's configuration has none; {instead}."
        )
    if not reason:
        raise UserError(f"The package index that pip uses here has no {archive.filename}; {instead}.")
    reason = without_credentials(reason).rstrip(".")
    raise UserError(f"{archive.filename} could not be fetched: {reason}. The same command tries again; {instead}.")
