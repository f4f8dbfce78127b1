"""What a run writes to, once another run has taken over."""

from pathlib import Path
from secrets import token_hex

import pytest
from synthetic import make_dataset

from ident3d.errors import UserError
from ident3d.loaders import manifest
from ident3d.loaders.cached import manifest_of
from ident3d.loaders.files import write_json
from ident3d.loaders.folder import FILE, open_folder
from ident3d.loaders.lease import lease
from ident3d.loaders.outputs import writing
from ident3d.loaders.store_lease import lease_on_store
from ident3d.loaders.stores import Store


def test_a_run_that_lost_its_folder_enters_no_more_shards(tmp_path: Path) -> None:
    folder = make_dataset(tmp_path / "data", 24, finished=False)
    opened = open_folder(folder)
    before = (folder / manifest.FILE).read_bytes()
    with writing(folder) as output, lease(folder, lapse_seconds=0):  # the other came after a long pause of the first
        with pytest.raises(UserError, match=r"took over the writing of .*; it stops here"):
            output.enter(opened.entries[0])
        with pytest.raises(UserError, match="took over"):
            output.finish(opened.description, lambda path, description: None)
    assert (folder / manifest.FILE).read_bytes() == before
    assert open_folder(folder).description == opened.description


def test_a_run_that_lost_its_store_enters_no_more_shards(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    folder = make_dataset(tmp_path / "data", 24, finished=False)
    opened = open_folder(folder)
    store = Store(f"memory://{token_hex(8)}/data")
    for file in folder.rglob("*"):
        if file.is_file():
            store.put(str(file.relative_to(folder)), file.read_bytes())
    described = store.get(FILE)
    with writing(store) as output:
        output.begin()
        output.enter(opened.entries[0])
        before = manifest_of(store, complete=False)
        with lease_on_store(store, lapse_seconds=0):
            write_json(output.path / "provenance.json", {})
            output.record()
            for step in (output.begin, lambda: output.enter(opened.entries[1])):
                with pytest.raises(UserError, match=r"took over the writing of .*; it stops here"):
                    step()
            with pytest.raises(UserError, match="took over"):
                output.finish(opened.description, lambda path, description: None)
    assert manifest_of(store, complete=False) == before
    assert store.get(FILE) == described
    assert store.get("provenance.json") is None


def test_what_cannot_be_written_is_said_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"file cannot be written: File exists"), writing(tmp_path / "file"):
        pass
