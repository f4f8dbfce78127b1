"""What a run records of a user's own code, when two records stand for equal code, and what is said on a resume."""

import hashlib
import inspect
import secrets
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Final

from ident3d.training.own.own_contents import Contents, hash_of

LENGTH, MOST_REASONS = 16, 3
TOKENS: Final[dict[int, tuple[Callable[[], object], str]]] = {}


def own_record(thing: Any) -> dict[str, Any]:
    """Return what a run keeps of a user's own object: `digest`, and if it is not all, `unknown` with the `object`.

    `object` is a random word for this very object in this process: seeds of one command share it.
    """
    contents = Contents()
    try:
        digest = contents.digest(thing)
    except RecursionError:
        digest = contents.cannot_see("something nested too deeply", "")
    if not contents.unknown:
        return {"digest": digest[:LENGTH]}
    unknown = list(dict.fromkeys(contents.unknown))[:MOST_REASONS]
    return {"digest": digest[:LENGTH], "unknown": unknown, "object": token_of(thing)}


def check_record(record: object) -> Mapping[str, Any] | str | None:
    """Return what a run's folder says of an own object; raise TypeError for anything that no version has written."""
    if record is None or isinstance(record, str):
        # The digest of the lines of a function or class alone, or nothing at all: until version 0.1.
        return record
    wanted = {"digest": str, "unknown": list, "object": str}
    if (
        isinstance(record, dict)
        and "digest" in record
        and ("unknown" in record) == ("object" in record)
        and all(isinstance(value, wanted.get(key, object)) for key, value in record.items())
    ):
        checked: Mapping[str, Any] = record
        return checked
    raise TypeError("the record of a user's own code is of a wrong kind")


def identity_of(record: Mapping[str, Any] | str | None) -> str | None:
    """Return a word that runs of the same own object have in common; what is not known to be equal has another."""
    if not isinstance(record, Mapping):
        return record
    return f"{record['digest']} of {record['object']}" if "object" in record else str(record["digest"])


def reason_for_doubt(record: Mapping[str, Any] | str | None) -> str | None:
    """Return why an equal record need not stand for equal code, as half a sentence; None if it does."""
    if not isinstance(record, Mapping):
        return "an older ident3d recorded no more than its own lines"
    return f"it holds {', '.join(map(str, record['unknown']))}" if record.get("unknown") else None


def record_of_both(before: object, now: Mapping[str, Any], thing: object) -> object:
    """Return the record of an own object after a run has gone on with another than it began with."""
    if not isinstance(before, dict) or identity_of(before) == identity_of(now):
        return before
    digest = hash_of(str(before["digest"]), str(now["digest"]))[:LENGTH]
    return {"digest": digest, "unknown": ["what the run began with, before --resume"], "object": token_of(thing)}


def doubt_on_resume(kind: str, name: str, before: Any, now: Mapping[str, Any], thing: object) -> str | None:
    """Return a sentence if an own object is not the recorded one, or if that cannot be told."""
    if isinstance(before, dict):
        if identity_of(before) == identity_of(now):
            return None
        changed, unsure = before["digest"] != now["digest"], "unknown" in now
    else:
        lines = source_digest(thing)
        # A function inside another may hold anything that its lines do not say.
        changed, unsure = bool(before and lines and before != lines), not before or not lines or "<" in name
    if changed:
        return f"The {kind} {name} has other code or values than when this run began; it goes on with today's."
    if not unsure:
        return None
    held = f" {reason_for_doubt(now)}." if "unknown" in now else " only its name is recorded."
    return f"It cannot be checked whether the {kind} {name} is the very one that this run began with:{held}"


def source_digest(thing: Any) -> str | None:
    """Return what older runs recorded: a digest of the lines of a function or class, None for anything else."""
    if not hasattr(thing, "__qualname__"):
        return None
    try:
        return hashlib.sha256(inspect.getsource(thing).encode()).hexdigest()[:LENGTH]
    except (OSError, TypeError):
        return None


def token_of(thing: object) -> str:
    """Return the random word of an object, the same as long as it lives in this process."""
    refers, token = TOKENS.get(id(thing), (lambda: None, ""))
    if refers() is not thing:
        token = secrets.token_hex(8)
        try:
            TOKENS[id(thing)] = weakref.ref(thing), token
        except TypeError:
            TOKENS[id(thing)] = lambda: thing, token
    return token
