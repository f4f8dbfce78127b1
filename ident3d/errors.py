"""The one exception for a user's mistake, and the "did you mean" that goes with it."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

# of so many names, the nearest one alone is more help than all of them
MANY = 25
LONGEST = 4000  # characters of a sentence


class UserError(ValueError):
    """A mistake that the user can mend, in one clear sentence. The command line exits with code 2 and no traceback."""

    def __init__(self, sentence: str) -> None:
        # What a file holds is quoted, and that may be a megabyte.
        super().__init__(sentence if len(sentence) <= LONGEST else f"{sentence[:LONGEST]}…")


@contextmanager
def os_errors(what: str) -> Iterator[None]:
    """Turn an OSError in the block into a UserError: what cannot be done, and the system's reason."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{what}: {error.strerror or error}.") from error


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """Return the error for a name that is not one of `known`, with the nearest known ones as a suggestion."""
    names = list(known)
    # The nearest name comes first; a part of a name, such as mcc, also stands for all names that begin with it.
    alike, same = [known.lower() for known in names], name.lower()
    near = [names[alike.index(found)] for found in get_close_matches(same, alike, n=1, cutoff=0.6)]
    near += [known for known in names if name and known.lower().startswith(f"{same}_") and known not in near]
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    choice = "." if near and len(names) > MANY else f"; choose one of {', '.join(names)}."
    return UserError(f"There is no {kind} {name!r}{choice}{hint}")


def check_known(kind: str, name: object, known: Iterable[str]) -> None:
    """Raise UserError, as `unknown` words it, if the name is not among the known ones."""
    if name not in (names := list(known)):
        raise unknown(kind, str(name), names)
