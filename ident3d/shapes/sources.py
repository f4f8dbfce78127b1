"""Where the meshes come from, how they lie, and under which terms. All facts, no code.

The published renderer's own meshes are not known. These are the same figures, found in source distributions on the
package index; no wheel holds them. The identity of the Head is the least certain: the bust is the nearest match.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Archive:
    """A source distribution, pinned."""

    name: str
    version: str
    sha256: str
    size: int  # bytes

    @property
    def folder(self) -> str:
        return f"{self.name}-{self.version}"

    @property
    def filename(self) -> str:
        return f"{self.folder}.tar.gz"


@dataclass(frozen=True)
class Source:
    """One class's mesh: a member of an archive, the axes along which it looks and stands there, and its terms.

    `member` is below the archive's one folder, and `sha256` is the member's hash.
    """

    archive: Archive
    member: str
    sha256: str
    axes: tuple[str, str]
    origin: str
    terms: str

    @property
    def filename(self) -> str:
        return self.member.rpartition("/")[2]


_COMPAS_LIBIGL = Archive(
    "compas_libigl", "0.7.6", "3051c8da6b1b58ce032a4c60ef94188a29fb1581c3122a6d28520081583051ad", 26_839_553
)
_PYMESH2 = Archive("pymesh2", "0.1.14", "d1bd2876ce09ff8e59c80094f91cd283ce9b635086c26f35f08899c40ae626fc", 25_350_066)
_POTPOURRI3D = Archive(
    "potpourri3d", "1.2.1", "8d2629cc01e32c4803ba01899e8d50af023e91e4e346d58fbac0c88e902d495f", 17_456_338
)
_PETSC = Archive("petsc", "3.8.1", "fdc94525422c41ed617b38d09723bb27c6dbf4831c4c6cc1e27850e60788ccfa", 11_087_848)

_STANFORD = "free to redistribute with credit to the Stanford 3D Scanning Repository; not for commercial use"

SOURCES: Final[dict[str, Source]] = {
    "Hare": Source(
        archive=_PYMESH2,
        member="third_party/quartet/meshes/bunny_watertight.obj",
        sha256="6cf490920568a92737c837c5ccc2da57166b90c51376408e29bc0f78842b1e2f",
        axes=("-x", "+z"),
        origin="Bunny, scanned at Stanford University",
        terms=_STANFORD,
    ),
    "Dragon": Source(
        archive=_PYMESH2,
        member="third_party/quartet/meshes/dragon.obj",
        sha256="8b083db39d910640ff73a4c015d1f07c6fb828506c3a56b2274d97673c15756d",
        axes=("+z", "+y"),
        origin="Dragon, scanned at Stanford University",
        terms=_STANFORD,
    ),
    "Cow": Source(
        archive=_POTPOURRI3D,
        member="deps/geometry-central/test/assets/spot.ply",
        sha256="2d24cc184dec9a03c32281312f7d2e44f70b51180d982dc0a81899e77efc275a",
        axes=("-z", "+y"),
        origin="Spot, modelled by Keenan Crane",
        terms="public domain",
    ),
    "Armadillo": Source(
        archive=_COMPAS_LIBIGL,
        member="data/libigl-tutorial-data/armadillo.obj",
        sha256="c007ebd11e541a2b1ab86a4c376653579281265f2c6c786a4a7bf47ba84d6879",
        axes=("+z", "+y"),
        origin="Armadillo, scanned at Stanford University",
        terms=_STANFORD,
    ),
    "Horse": Source(
        archive=_PETSC,
        member="share/petsc/datafiles/meshes/horse.ply.bz2",
        sha256="4b15ff6ab8b7d27a137c250bd63cb4fa89ba2156481bcbcf5ec7252c339b571c",
        axes=("+y", "+z"),
        origin="Horse, from Georgia Tech's archive of large models",
        terms="not stated",
    ),
    "Head": Source(
        archive=_COMPAS_LIBIGL,
        member="data/libigl-tutorial-data/decimated-max.obj",
        sha256="e7489f9987a384f582c632ba19d8e6185e749909ef197215eb0c768597678532",
        axes=("-z", "+y"),
        origin="Bust of Max Planck, from MPI Saarbrücken",
        terms="not stated",
    ),
}
