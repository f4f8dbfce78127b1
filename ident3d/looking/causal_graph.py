"""The causal graph as a picture."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ident3d.errors import UserError, unknown
from ident3d.latents.exact.causal import CausalModel, load_model, published_model
from ident3d.latents.exact.names import NAMES
from ident3d.latents.worlds import World

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Of a node, in points.
DIAMETER: Final = 62
COLOURS: Final = {"root": "white", "child": "#dbe7f3", "held": "#f3d9b1"}


def graph(out: Path, *, file: Path | None = None, do: Mapping[str, float | str] | None = None) -> None:
    """Draw the published graph, or the one in a TOML file, under interventions, to a .png, .pdf or .svg picture.

    Args:
        out: The picture: a .png, .pdf or .svg file.
        file: A TOML file with a graph; the published one by default.
        do: Interventions: name of a latent or class → its value.

    Returns:
        Nothing.

    Example:
        >>> import ident3d
        >>> from pathlib import Path
        >>> ident3d.graph(Path("graph.svg"), do={"class": "Hare"})
        >>> Path("graph.svg").exists()
        True
    """
    if out.suffix not in (".png", ".pdf", ".svg"):
        raise unknown("picture format", out.suffix or out.name, (".png", ".pdf", ".svg"))
    world = World("causal3dident", graph=load_model(file) if file else published_model(), fixed=do or {})
    assert world.graph is not None
    figure = draw_graph(world.graph, world.fixed)
    try:
        figure.savefig(out, dpi=150)
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error.strerror}.") from None


def draw_graph(model: CausalModel, do: Mapping[str, float | str] | None = None) -> "Figure":
    """Draw columns of causal depth, with an arrow from each parent. What is held fixed is a square without parents."""
    # A Figure of its own, and not pyplot's, leaves the settings of a caller's notebook alone.
    from matplotlib.figure import Figure

    do = do or {}
    # An intervention cuts the arrows that lead to a latent.
    edges = [(parent, child) for parent, child in model.edges if child not in do]
    children = {child for _, child in edges}
    places = _places(edges)
    width, height = (max(place[i] for place in places.values()) + 1 for i in (0, 1))
    figure = Figure(figsize=(2.8 * width, 1.0 * height), layout="constrained")
    axes = figure.add_subplot()
    arrow = {"arrowstyle": "-|>", "color": "0.35", "shrinkA": DIAMETER / 2, "shrinkB": DIAMETER / 2 + 1}
    for parent, child in edges:
        axes.annotate("", xy=places[child], xytext=places[parent], arrowprops=arrow | {"mutation_scale": 14})
    for name, (x, y) in places.items():
        kind = "held" if name in do else "child" if name in children else "root"
        marker = "s" if kind == "held" else "o"
        axes.scatter(x, y, s=DIAMETER**2, c=COLOURS[kind], marker=marker, edgecolors="0.2", zorder=4)
        label = name.replace("_", "\n")
        if name in do:
            value = do[name]
            label += f"\n= {value}" if isinstance(value, str) else f"\n= {value:g}"
        axes.text(x, y, label, ha="center", va="center", fontsize=9, zorder=5)
    axes.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5))
    axes.set_axis_off()
    return figure


def _places(edges: list[tuple[str, str]]) -> dict[str, tuple[float, float]]:
    """Return the place of each name. Its column is the longest path from a root, its row near those of its parents."""
    depth = dict.fromkeys(("class", *NAMES), 0)
    # The longest path has no more steps than there are names, so after as many rounds nothing changes.
    for _ in NAMES:
        for parent, child in edges:
            depth[child] = max(depth[child], depth[parent] + 1)
    columns = [[name for name in depth if depth[name] == d] for d in range(max(depth.values()) + 1)]
    rows = max(len(column) for column in columns)
    places: dict[str, tuple[float, float]] = {}
    for d, column in enumerate(columns):
        middles = {}
        for name in column:
            parents = [places[parent][1] for parent, child in edges if child == name]
            middles[name] = sum(parents) / len(parents) if parents else 0.0
        for i, name in enumerate(sorted(column, key=middles.__getitem__)):
            places[name] = (float(d), (i + 0.5) * rows / len(column) - 0.5)
    return places
