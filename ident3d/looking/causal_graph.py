"""The causal graph as a picture."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ident3d.latents.crowding import crowded_latents
from ident3d.latents.exact.causal import CausalModel
from ident3d.latents.factors import Factors
from ident3d.latents.own_graph import independent
from ident3d.latents.worlds import AnyWorld, World
from ident3d.loaders.format.files import write_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Of a node, in points.
DIAMETER: Final = 62
# So many latents without arrows stand in the first column.
MOST_ALONE: Final = 4
COLOURS: Final = {"root": "white", "child": "#dbe7f3", "held": "#f3d9b1"}


def graph(
    file: Path | str | None = None,
    *,
    out: Path | str = "graph.png",
    do: Mapping[str, float | str] | None = None,
    scene: Factors | None = None,
) -> None:
    """Draw the published graph, or the one in a TOML file, under interventions, to a .png, .pdf or .svg picture.

    Args:
        file: A TOML file with a graph; the published one by default, or that of the scene.
        out: The picture: a .png, .pdf or .svg file.
        do: Interventions: name of a latent → its value or what it is drawn from, class → its name.
        scene: A scene of your own, as `load_scene` returns it, whose factors the graph links.

    Returns:
        Nothing.

    Example:
        >>> import ident3d
        >>> from pathlib import Path
        >>> ident3d.graph(out="graph.svg", do={"class": "Hare", "x": "normal(0.2, 0.3)"})
        >>> Path("graph.svg").exists()
        True
    """
    world: AnyWorld
    if scene is None:
        world = World("causal3dident", graph=file, do=do or {})
    else:
        world = replace(scene, graph=file or scene.graph, do={**scene.do, **(do or {})})
    for sentence in crowded_latents(world):
        warnings.warn(sentence, stacklevel=2)
    factors = world.factors if isinstance(world, Factors) else ()
    model = world.graph if isinstance(world.graph, CausalModel) else independent(factors)
    # The name of a value says more than its raw latent.
    names = {
        factor.name: str(factor.values[int(factor.index([world.do[factor.name]])[0])])
        for factor in factors
        if factor.has_names and factor.name in world.do
    }
    write_figure(Path(out), draw_graph(model, world.do, names))


def draw_graph(
    model: CausalModel, do: Mapping[str, float | str] | None = None, values: Mapping[str, str] | None = None
) -> "Figure":
    """Draw columns of causal depth, with an arrow from each parent. What an intervention sets is a square.

    An arrow is dashed if the parent acts on a latent's spread or weights alone. Below a node stands what it is drawn
    from, unless that is a normal or uniform distribution. `values` are the names of what categorical factors are set
    to.
    """
    # A Figure of its own, and not pyplot's, leaves the settings of a caller's notebook alone.
    from matplotlib.figure import Figure

    do = do or {}
    redrawn = {name: text for name, text in do.items() if name != "class" and isinstance(text, str)}
    model = model.intervened(do)
    # An intervention cuts the arrows that lead to a latent; one that draws it anew may set others.
    edges = [(parent, child) for parent, child in model.edges if child not in do or child in redrawn]
    children = {child for _, child in edges}
    places = _places((*(("class",) if model.classes else ()), *model.nodes), edges)
    width, height = (max(place[i] for place in places.values()) + 1 for i in (0, 1))
    figure = Figure(figsize=(2.8 * width, 1.0 * height), layout="constrained")
    axes = figure.add_subplot()
    arrow = {"arrowstyle": "-|>", "color": "0.35", "shrinkA": DIAMETER / 2, "shrinkB": DIAMETER / 2 + 1}
    for parent, child in edges:
        is_chosen = child == "class" or model.nodes[child].values
        style = "-" if is_chosen or _sets_mean(model, parent, child) else (0, (4, 3))
        line = arrow | {"mutation_scale": 14, "linestyle": style}
        axes.annotate("", xy=places[child], xytext=places[parent], arrowprops=line)
    for name, (x, y) in places.items():
        kind = "held" if name in do else "child" if name in children else "root"
        marker = "s" if kind == "held" else "o"
        axes.scatter(x, y, s=DIAMETER**2, c=COLOURS[kind], marker=marker, edgecolors="0.2", zorder=4)
        label = name.replace("_", "\n")
        if name in do and name not in redrawn:
            value = (values or {}).get(name, do[name])
            label += f"\n= {value}" if isinstance(value, str) else f"\n= {value:g}"
        axes.text(x, y, label, ha="center", va="center", fontsize=9, zorder=5)
        note = f"~ {redrawn[name]}" if name in redrawn else "" if name in do else _distribution(model, name)
        if note:
            under = (0, -DIAMETER / 2 - 3)
            axes.annotate(note, (x, y), under, textcoords="offset points", ha="center", va="top", fontsize=7, zorder=5)
    axes.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5))
    axes.set_axis_off()
    return figure


def _sets_mean(model: CausalModel, parent: str, child: str) -> bool:
    means = [part.mean for part in model.nodes[child].components]
    return any(len(mean) > 1 if parent == "class" else any(parent in f.names for f in mean) for mean in means)


def _distribution(model: CausalModel, name: str) -> str:
    """Return what is worth a note: a class that is drawn, Laplace noise, a mixture."""
    if name == "class":
        return "drawn" if model.weights else ""
    parts = model.nodes[name].components
    if len(parts) > 1:
        return f"mixture of {len(parts)}"
    return "".join(part.noise for part in parts if part.noise != "normal")


def _places(names: Sequence[str], edges: list[tuple[str, str]]) -> dict[str, tuple[float, float]]:
    """Return the place of each name. Its column is the longest path from a root, its row near those of its parents."""
    depth = dict.fromkeys(names, 0)
    # The longest path has no more steps than there are names, so after as many rounds nothing changes.
    for _ in names:
        for parent, child in edges:
            depth[child] = max(depth[child], depth[parent] + 1)
    # Of a few that stand alone each has a place among the others; of many, rows are filled below them.
    alone = [name for name in names if not any(name in edge for edge in edges)]
    alone = alone if len(alone) > MOST_ALONE else []
    columns = [[n for n in depth if depth[n] == d and n not in alone] for d in range(max(depth.values()) + 1)]
    rows = max(len(column) for column in columns)
    places: dict[str, tuple[float, float]] = {}
    for d, column in enumerate(columns):
        middles = {}
        for name in column:
            parents = [places[parent][1] for parent, child in edges if child == name]
            middles[name] = sum(parents) / len(parents) if parents else 0.0
        for i, name in enumerate(sorted(column, key=middles.__getitem__)):
            places[name] = (float(d), (i + 0.5) * rows / len(column) - 0.5)
    width = max(len(columns), MOST_ALONE)
    return places | {name: (float(i % width), float(rows + i // width)) for i, name in enumerate(alone)}
