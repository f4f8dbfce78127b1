"""The causal model: latents as nodes of a graph, each drawn given its parents.

z_k ~ Normal(μ_k(class, parents), sd_k) truncated to its range, or uniform on its range where it has no mean. The class
of image i is classes[i mod number of classes]. The published graph is causal3dident.toml beside this file.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from ident3d.errors import UserError, unknown
from ident3d.latents.exact.formula import Formula
from ident3d.latents.exact.names import CLASSES, NAMES

# In standard deviations outside the range: as far out as this Φ still has all its digits.
FARTHEST_MEAN: Final = 30.0
LARGEST_FILE: Final = 100_000  # bytes


@dataclass(frozen=True)
class Node:
    """One latent. `means` holds one formula for all classes, or one for each; without any the latent is uniform."""

    means: tuple[Formula, ...] = ()
    sd: float = 0.0
    low: float = -1.0
    high: float = 1.0

    @property
    def parents(self) -> frozenset[str]:
        latents = frozenset(name for mean in self.means for name in mean.names)
        return latents | {"class"} if len(set(self.means)) > 1 else latents


@dataclass(frozen=True)
class CausalModel:
    """Nodes in the order of NAMES, and the classes that images take in turn.

    Args:
        classes: The names of the classes.
        nodes: Name of a latent → how it is drawn.
    """

    classes: tuple[str, ...]
    nodes: Mapping[str, Node]

    @property
    def order(self) -> tuple[str, ...]:
        """The latents, parents before children."""
        return tuple(self._sorter().static_order())

    def _sorter(self) -> TopologicalSorter[str]:
        return TopologicalSorter({name: node.parents - {"class"} for name, node in self.nodes.items()})

    @property
    def edges(self) -> list[tuple[str, str]]:
        """(parent, child) for every arrow of the graph."""
        return [(p, name) for name, node in self.nodes.items() for p in ("class", *NAMES) if p in node.parents]

    def as_dict(self) -> dict[str, Any]:
        """The model as a graph file would hold it."""
        tables: dict[str, Any] = {"classes": list(self.classes)}
        for name, node in self.nodes.items():
            table: dict[str, Any] = {}
            if node.means:
                texts = [mean.text for mean in node.means]
                table = {
                    "mean": texts[0] if len(texts) == 1 else dict(zip(self.classes, texts, strict=True)),
                    "sd": node.sd,
                }
            if (node.low, node.high) != (-1, 1):
                table["range"] = [node.low, node.high]
            tables[name] = table
        return tables

    @classmethod
    def from_dict(cls, tables: Mapping[str, Any]) -> "CausalModel":
        """The inverse of as_dict, for anything that a user may have written; refuses with a sentence."""
        classes = check_classes(tables.get("classes", CLASSES))
        for name in tables:
            if name != "classes" and name not in NAMES:
                raise unknown("latent", name, NAMES)
        model = cls(classes, {name: _node(name, tables.get(name, {}), classes) for name in NAMES})
        try:
            # Sorting is the test for cycles, and names the latents of one.
            model._sorter().prepare()
        except CycleError as error:
            raise UserError(f"The graph has a cycle: {' → '.join(reversed(error.args[1]))}.") from None
        # A mean far outside the range leaves no probability within it, and every draw would lie on the bound.
        ranges = {name: (node.low, node.high) for name, node in model.nodes.items()}
        for name, node in model.nodes.items():
            for mean in node.means:
                low, high = mean.bounds(ranges)
                margin = FARTHEST_MEAN * node.sd
                if not (low >= node.low - margin and high <= node.high + margin):
                    raise UserError(
                        f"The mean {mean.text!r} of {name} may lie more than {FARTHEST_MEAN:g} sd outside its range, "
                        "where nothing can be drawn."
                    )
        return model


def published_model() -> CausalModel:
    """Return the graph of Causal3DIdent.

    Returns:
        The model.

    Example:
        >>> from ident3d import latents
        >>> len(latents.published_model().classes)
        7
    """
    return _parsed(published_text())


def published_text() -> str:
    """Its file, to start a graph of one's own from."""
    return files("ident3d.latents.exact").joinpath("causal3dident.toml").read_text("utf-8")


def load_model(path: Path) -> CausalModel:
    """Return the causal model that a TOML file holds; causal3dident.toml shows the form.

    Args:
        path: The file.

    Returns:
        The model.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from ident3d import latents
        >>> path = Path(tempfile.mkdtemp(), "own.toml")
        >>> _ = path.write_text('classes = ["Teapot"]\\n[y]\\nmean = "0.5 * x"\\nsd = 0.1')
        >>> latents.load_model(path).edges
        [('x', 'y')]
    """
    try:
        # The size is checked before reading, so that a wrong path cannot fill the memory.
        if path.stat().st_size > LARGEST_FILE:
            raise UserError(f"{path} is too large for a graph file ({LARGEST_FILE // 1000} kB at most).")
        text = path.read_text("utf-8")
    except OSError as error:
        raise UserError(f"The graph file {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UserError(f"The graph file {path} cannot be read: it is not text in UTF-8.") from None
    try:
        return _parsed(text)
    except UserError as error:
        raise UserError(f"{path.name}: {error}") from None


@cache
def _parsed(text: str) -> CausalModel:
    try:
        return CausalModel.from_dict(tomllib.loads(text))
    except UserError:
        raise
    except (ValueError, RecursionError) as error:
        raise UserError(f"This is not TOML: {error}.") from None


def check_classes(classes: Any) -> tuple[str, ...]:
    """Known classes, each once, at least one."""
    if not isinstance(classes, list | tuple) or not classes:
        raise UserError(f"classes is a list of at least one of {', '.join(CLASSES)}.")
    for name in classes:
        if name not in CLASSES:
            raise unknown("class", str(name), CLASSES)
        if classes.count(name) > 1:
            raise UserError(f"The class {name} is listed twice.")
    return tuple(classes)


def _node(name: str, table: Any, classes: tuple[str, ...]) -> Node:
    if not isinstance(table, Mapping):
        raise UserError(f"{name} is a table with mean, sd and range, not {table!r}.")
    for key in table:
        if key not in ("mean", "sd", "range"):
            raise unknown(f"setting of {name}:", key, ("mean", "sd", "range"))
    low, high = _range(name, table.get("range", (-1, 1)))
    if ("mean" in table) != ("sd" in table):
        raise UserError(f"{name} needs both a mean and an sd to be normal, or neither to be uniform.")
    if "mean" not in table:
        return Node((), 0.0, low, high)
    sd = table["sd"]
    if not _is_number(sd) or not 1e-6 <= sd <= 1e6:
        raise UserError(f"The sd of {name} must be a positive number between 1e-6 and 1e6, not {sd!r}.")
    return Node(_means(name, table["mean"], classes), float(sd), low, high)


def _range(name: str, given: Any) -> tuple[float, float]:
    ends = list(given) if isinstance(given, list | tuple) else []
    if len(ends) != 2 or not all(_is_number(end) for end in ends) or not -1 <= ends[0] < ends[1] <= 1:
        raise UserError(f"The range of {name} is a pair [low, high] within [-1, 1], not {given!r}.")
    return float(ends[0]), float(ends[1])


def _means(name: str, given: Any, classes: tuple[str, ...]) -> tuple[Formula, ...]:
    if not isinstance(given, Mapping):
        return (_formula(name, given),)
    for key in given:
        if key not in CLASSES:
            raise unknown(f"class (in the mean of {name})", key, CLASSES)
    if missing := [c for c in classes if c not in given]:
        raise UserError(f"The mean of {name} says nothing of the class {missing[0]}.")
    means = tuple(_formula(name, given[c]) for c in classes)
    # Equal means for all classes are kept as one, so that they are computed and written once.
    return means[:1] if len(set(means)) == 1 else means


def _formula(name: str, given: Any) -> Formula:
    if not isinstance(given, str) and not _is_number(given):
        raise UserError(f"A mean of {name} is a number or a formula, not {given!r}.")
    formula = Formula(given if isinstance(given, str) else repr(given))
    for parent in formula.names:
        if parent not in NAMES:
            raise unknown(f"latent (in the mean of {name})", parent, NAMES)
    return formula


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300
