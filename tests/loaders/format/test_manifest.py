"""shards.jsonl: what is appended is read again, what is cut short is dropped, what is damaged is named."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ident3d.errors import UserError
from ident3d.loaders.folders.folder import missing_ranges
from ident3d.loaders.folders.lifecycle import plan
from ident3d.loaders.format import manifest
from ident3d.loaders.format.description import Description
from ident3d.loaders.format.manifest import (
    ShardEntry,
    append_entry,
    parse_line,
    read_entries,
    shard_name,
    write_entries,
)


def entry(first: int, count: int = 8, name: str | None = None) -> ShardEntry:
    return ShardEntry(name or shard_name(first // 8, 4), first, count, "0" * 64, 100, (1, 2, 3), (4, 5, 6))


def test_appended_entries_are_read_in_order_of_images(tmp_path: Path) -> None:
    for first in (16, 0, 8):
        append_entry(tmp_path, entry(first))
    assert [e.first for e in read_entries(tmp_path)] == [0, 8, 16]


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_line_cut_short_is_no_entry_and_the_next_append_drops_it(tmp_path: Path, cut: int) -> None:
    append_entry(tmp_path, entry(0))
    with (tmp_path / manifest.MANIFEST_FILE).open("a") as file:
        file.write(entry(8).line()[:cut])
    assert read_entries(tmp_path) == [entry(0)]
    append_entry(tmp_path, entry(16))
    assert read_entries(tmp_path) == [entry(0), entry(16)]


def test_lines_after_one_that_is_too_long_are_not_forgotten(tmp_path: Path) -> None:
    lines = [entry(0).line(), "x" * manifest.LONGEST_LINE, "\n", entry(8).line()]
    (tmp_path / manifest.MANIFEST_FILE).write_text("".join(lines))
    with pytest.raises(UserError, match="line 2"):
        read_entries(tmp_path)
    assert manifest.readable_entries(tmp_path) == [entry(0), entry(8)]


def test_a_later_entry_replaces_an_earlier_one_of_the_same_images(tmp_path: Path) -> None:
    append_entry(tmp_path, entry(0, 3))
    append_entry(tmp_path, entry(0, 8))
    assert read_entries(tmp_path) == [entry(0, 8)]


def test_writing_sorts_and_gives_the_same_bytes_in_any_order(tmp_path: Path) -> None:
    entries = [entry(first) for first in (0, 8, 16)]
    assert write_entries(tmp_path, entries) == write_entries(tmp_path, entries[::-1])


@pytest.mark.parametrize(
    "change",
    [
        ('"00000.h5"', '"../../etc/passwd"'),
        ('"00000.h5"', '"/00000.h5"'),
        ('"00000.h5"', "3"),
        ('"count": 8', '"count": 0'),
        ('"count": 8', '"count": -8'),
        ('"count": 8', '"count": 8.5'),
        ('"count": 8', '"count": true'),
        ('"first": 0', '"first": "0"'),
        ('"sha256": "0', '"sha256": "g'),
        ("[1, 2, 3]", "[1, 2]"),
        ("[1, 2, 3]", "7"),
        ('"bytes"', '"bites"'),
        ("{", "["),
    ],
)
def test_a_damaged_line_is_refused_by_file_and_number(tmp_path: Path, change: tuple[str, str]) -> None:
    line = entry(0).line()
    assert change[0] in line
    (tmp_path / manifest.MANIFEST_FILE).write_text(entry(8).line() + line.replace(*change, 1))
    with pytest.raises(UserError, match=r"shards\.jsonl is damaged in line 2"):
        read_entries(tmp_path)
    assert manifest.readable_entries(tmp_path) == [entry(8)]


def test_a_line_holds_everything() -> None:
    assert parse_line(entry(8).line()) == entry(8)


@given(n=st.integers(1, 300), size=st.integers(1, 40), have=st.sets(st.integers(0, 40)), partial=st.integers(0, 39))
def test_plan_and_entries_cover_every_image_once(n: int, size: int, have: set[int], partial: int) -> None:
    """Whatever shards are there, one of them shorter than it should be, the plan completes them without overlap."""
    full = [(k * size, min(size, n - k * size)) for k in range(-(-n // size))]
    there = [entry(first, count, shard_name(k, len(full))) for k, (first, count) in enumerate(full) if k in have]
    if there and 0 < partial < there[-1].count:
        there[-1] = entry(there[-1].first, partial, there[-1].name)
    jobs = plan(Description({}, n, size), there)
    kept = [(e.first, e.count) for e in there if e.first not in {job.first for job in jobs}]
    assert sorted(kept + [(job.first, job.count) for job in jobs]) == full
    missing = sum(stop - first for first, stop in missing_ranges(n, there))
    assert missing == sum(job.count - (job.reuse.count if job.reuse else 0) for job in jobs)


def test_overlapping_entries_are_refused() -> None:
    with pytest.raises(UserError, match="lists image 4 twice"):
        list(missing_ranges(16, [entry(0), entry(4)]))
