"""The causal model: latents as nodes of a graph, each drawn given its parents, and the class.

`mechanism` says how a latent is drawn. The class of image i is classes[i mod number of classes], or drawn with weights
that parents set. The published graph is causal3dident.toml next to this file.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError, check_known, unknown
from ident3d.latents.exact.formula import Bounds, Formula
from ident3d.latents.exact.interventions import intervention
from ident3d.latents.exact.mechanism import Node, by_class, check_weight, read_node
from ident3d.latents.exact.names import CLASSES, NAMES

LARGEST_FILE: Final = 100_000  # bytes
# Seven formulas of a line may have this many dots. Of a key with n dots the parser keeps n²/2 names.
MOST_DOTS: Final = 500


@dataclass(frozen=True)
class CausalModel:
    """Nodes in the order of the latents, and the classes, which images take in turn or are drawn with `weights`.

    Args:
        classes: The names of the classes.
        nodes: Name of a latent → how it is drawn.
        weights: A formula for each class, to which its probability is proportional; none for classes in turn.

    Example:
        >>> from ident3d import latents
        >>> model = latents.CausalModel.from_dict({"classes": ["Hare"], "y": {"mean": "0.5 * x", "sd": 0.1}})
        >>> model.edges, int(model.adjacency.sum())
        ([('x', 'y')], 1)
    """

    classes: tuple[str, ...]
    nodes: Mapping[str, Node]
    weights: tuple[Formula, ...] = ()

    @property
    def parents(self) -> dict[str, frozenset[str]]:
        """Name of the class or a latent → its parents."""
        of_class = {"class": frozenset(name for weight in self.weights for name in weight.names)}
        return (of_class if self.classes else {}) | {name: node.parents for name, node in self.nodes.items()}

    @property
    def choices(self) -> frozenset[tuple[str, str]]:
        """The categorical factors that formulas ask for a value, each with the value."""
        return frozenset(choice for node in self.nodes.values() for f in node.formulas for choice in f.choices)

    @property
    def order(self) -> tuple[str, ...]:
        """The class and the latents, parents before children."""
        return tuple(TopologicalSorter(self.parents).static_order())

    @property
    def edges(self) -> list[tuple[str, str]]:
        """(parent, child) for every arrow of the graph."""
        return [(p, name) for name, parents in self.parents.items() for p in ("class", *self.nodes) if p in parents]

    @property
    def adjacency(self) -> NDArray[np.int64]:
        """(11, 11), of the class and the latents in order, or of the latents alone: entry (i, j) is 1 if i → j."""
        names = (*(("class",) if self.classes else ()), *self.nodes)
        return np.array([[int(parent in self.parents[child]) for child in names] for parent in names])

    def intervened(self, do: Mapping[str, float | str]) -> "CausalModel":
        """Return the model after interventions that draw latents anew, as texts such as normal(0.2, 0.3) say.

        What is set to a value or a class at the same time is cut off from its parents, which may now depend on it.
        """
        nodes = {name: value for name, value in do.items() if name != "class"}
        known = tuple(self.nodes)
        drawn = {
            name: intervention(name, text, self.nodes[name], known)
            for name, text in nodes.items()
            if isinstance(text, str)
        }
        # As they are stored. Within the range of a latent nothing can go wrong that was not found before.
        held = {name: float(np.float32(value)) for name, value in nodes.items() if not isinstance(value, str)}
        inside = all(self.nodes[name].low <= value <= self.nodes[name].high for name, value in held.items())
        if not drawn and inside:
            return self
        weights = () if "class" in do else self.weights
        cut = {name: self.nodes[name].unset for name in nodes}
        model = CausalModel(self.classes, {**self.nodes, **cut, **drawn}, weights).checked(held)
        return model if drawn else self

    def reach(self, held: Mapping[str, float]) -> dict[str, Bounds]:
        """Return where each latent can be, if some are held at a value."""
        return {name: (held[name],) * 2 if name in held else node.reach for name, node in self.nodes.items()}

    def checked(self, held: Mapping[str, float] = MappingProxyType({})) -> "CausalModel":
        """Return the model itself; raise UserError if it cannot be drawn from while latents are held at values."""
        try:
            # Sorting is the test for cycles, and names the latents of one.
            TopologicalSorter(self.parents).prepare()
        except CycleError as error:
            raise UserError(f"The graph has a cycle: {' → '.join(reversed(error.args[1]))}.") from None
        for formula in (*self.weights, *(f for node in self.nodes.values() for f in node.formulas)):
            self._check_kinds(formula)
        if "pi" in self.nodes and any("pi" in f.words for node in self.nodes.values() for f in node.formulas):
            raise UserError("In a formula pi is the number 3.14159…, and no factor: give the factor another name.")
        ranges = self.reach(held)
        for name, node in self.nodes.items():
            node.check(name, ranges)
        for name, weight in zip(self.classes, self.weights, strict=bool(self.weights)):
            check_weight(weight, f"of the class {name}", ranges)
        return self

    def _check_kinds(self, formula: Formula) -> None:
        """Refuse a categorical factor that is taken for a number, and a number that is asked for its value."""
        for name in sorted(formula.numbers):
            if values := self.nodes[name].values:
                raise UserError(
                    f"In the formula {formula.text!r} {name} is categorical: ask whether it has a value, as in "
                    f"({name} == '{values[0]}')."
                )
        for name, value in sorted(formula.choices):
            if not (values := self.nodes[name].values):
                raise UserError(f"In the formula {formula.text!r} {name} is a number: == is for categorical factors.")
            check_known(f"value of {name}", value, values)

    def as_dict(self) -> dict[str, Any]:
        """Return the model as a graph file would hold it."""
        tables: dict[str, Any] = {"classes": list(self.classes)} if self.classes else {}
        if self.weights:
            tables["class"] = {"weight": {c: w.text for c, w in zip(self.classes, self.weights, strict=True)}}
        return tables | {name: node.as_table(self.classes) for name, node in self.nodes.items()}

    @classmethod
    def from_dict(cls, tables: Mapping[str, Any]) -> "CausalModel":
        """Return the model that as_dict or a user has written; raise UserError for what does not fit."""
        classes = check_classes(tables.get("classes", CLASSES))
        for name in tables:
            if name not in ("classes", "class", *NAMES):
                raise unknown("latent", name, ("class", *NAMES))
        nodes = {name: read_node(name, tables.get(name, {}), classes) for name in NAMES}
        return cls(classes, nodes, _weights(tables["class"], classes) if "class" in tables else ()).checked()


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
    """Return the published graph's file, to start a user's own graph from."""
    return files("ident3d.latents.exact").joinpath("causal3dident.toml").read_text("utf-8")


def load_model(path: Path | str) -> CausalModel:
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
    path = Path(path)
    # Its own errors name the file.
    text = toml_text(path, "graph")
    try:
        return _parsed(text)
    except UserError as error:
        raise UserError(f"{path.name}: {error}") from None


# What the parser raises. Deep nesting that meets the end of the memory is a SystemError, which names no reason.
UNPARSED: Final = (ValueError, RecursionError, MemoryError, SystemError)


def toml_text(path: Path, what: str) -> str:
    """Return the text of a TOML file that a user wrote, which is neither too large nor slow to parse."""
    try:
        # The size is checked before reading, so that a wrong path cannot fill the memory.
        if not path.is_file() and path.exists():
            raise UserError(f"{path} is no {what} file: it is a folder, a FIFO or a device; write it to a file.")
        if path.stat().st_size > LARGEST_FILE:
            raise UserError(f"{path} is too large for a {what} file ({LARGEST_FILE // 1000} kB at most).")
        text = path.read_text("utf-8")
    except OSError as error:
        raise UserError(f"The {what} file {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UserError(f"The {what} file {path} cannot be read: it is not text in UTF-8.") from None
    if any(line.count(".") > MOST_DOTS for line in text.split("\n")):
        raise UserError(f"{path.name} has a line with more than {MOST_DOTS} dots.")
    return text


@cache
def _parsed(text: str) -> CausalModel:
    try:
        return CausalModel.from_dict(tomllib.loads(text))
    except UserError:
        raise
    except UNPARSED as error:
        raise UserError(f"This is not TOML: {error}.") from None


def check_classes(classes: Any) -> tuple[str, ...]:
    """Return the classes as a tuple; raise UserError unless they are known, each once, at least one."""
    if not isinstance(classes, list | tuple) or not classes:
        raise UserError(f"classes is a list of at least one of {', '.join(CLASSES)}.")
    for name in classes:
        check_known("class", name, CLASSES)
        if classes.count(name) > 1:
            raise UserError(f"The class {name} is listed twice.")
    return tuple(classes)


def _weights(table: Any, classes: tuple[str, ...]) -> tuple[Formula, ...]:
    if not isinstance(table, Mapping) or set(table) != {"weight"}:
        raise UserError(
            "class is a table with `weight` alone, a number or formula for each class; `classes` lists them."
        )
    formulas = by_class("weight of class", table["weight"], classes)
    return formulas * len(classes) if len(formulas) == 1 else formulas
