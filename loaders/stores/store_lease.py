"""The lease on an object store: a claim is an object that the store creates only if its name is free."""

from contextlib import AbstractContextManager
from secrets import token_hex

from ident3d.loaders.stores.lease import BEAT_SECONDS, LAPSE_SECONDS, Claims, Lease, NoConditionalWrite, lease_on
from ident3d.loaders.stores.store import Store

LEASE_FOLDER = "lease"
BEAT = "beat"


class StoreClaims(Claims):
    """Claims on a store's dataset: objects `lease/1`, …, each with `lease/1.beat`, written at every heartbeat.

    A claim itself is written once, by a conditional write (If-None-Match), and never again. So a heartbeat that comes
    too late cannot overwrite the claim of a new owner.
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    def numbers(self) -> list[int]:
        return sorted(int(name) for name in self.store.sizes(LEASE_FOLDER) if name.isdecimal())

    def get(self, number: int) -> bytes | None:
        return self.store.get(f"{LEASE_FOLDER}/{number}")

    def ages(self) -> dict[int, float]:
        # The time of a new object is now, by the store's clock.
        mark = f"{LEASE_FOLDER}/now-{token_hex(8)}"
        try:
            self.store.put(mark, b"")
            now = self.store.modified(mark)
        finally:
            self.store.remove(mark)
        found = {}
        for number in self.numbers():
            times = [self.store.modified(f"{LEASE_FOLDER}/{number}{beat}") for beat in ("", f".{BEAT}")]
            signs = [time for time in times if time]
            if now and signs:
                found[number] = (now - max(signs)).total_seconds()
        return found

    def create(self, number: int, content: bytes) -> bool:
        name = f"{LEASE_FOLDER}/{number}"
        if not self.store.conditional:
            raise NoConditionalWrite("ident3d does not know whether it has conditional writes")
        if not self.store.create(name, content):
            return False
        # Some servers accept the condition and ignore it. A second write to the same name must fail.
        if self.store.create(name, content + b" "):
            self.remove(number)
            raise NoConditionalWrite("it overwrites an object although asked only to create a new one")
        return True

    def touch(self, number: int) -> None:
        self.store.put(f"{LEASE_FOLDER}/{number}.{BEAT}", b"")
        # If another owner has removed the claim meanwhile, no one else would remove this heartbeat.
        if self.get(number) is None:
            self.store.remove(f"{LEASE_FOLDER}/{number}.{BEAT}")

    def remove(self, number: int) -> None:
        self.store.remove(f"{LEASE_FOLDER}/{number}.{BEAT}")
        self.store.remove(f"{LEASE_FOLDER}/{number}")


def lease_on_store(
    store: Store, *, beat_seconds: float = BEAT_SECONDS, lapse_seconds: float = LAPSE_SECONDS
) -> AbstractContextManager[Lease]:
    """Hold the store's dataset for writing, as `lease` holds a folder. Warn if the store has no conditional writes."""
    return lease_on(store.url, StoreClaims(store), beat_seconds, lapse_seconds)
