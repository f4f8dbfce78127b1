"""What is not drawn as usual: latents held fixed in a scene without a graph, or intervened on in one with a graph."""

import math
from collections.abc import Mapping

from ident3d.errors import UserError, check_known
from ident3d.latents.exact.causal import CausalModel
from ident3d.latents.exact.names import GROUPS, NAMES, single_names

Held = dict[str, float | str]


def check_held(
    scene: str,
    graph: CausalModel | None,
    classes: tuple[str, ...],
    fixed: Mapping[str, float | str],
    do: Mapping[str, float | str],
) -> Held:
    """Return what is held (`fixed`, without a graph) or intervened on (`do`, with one), latent by latent, checked."""
    if do and graph is None:
        name, value = next(iter(do.items()))
        raise UserError(
            f"The scene {scene} has no causal graph to intervene on: {name} is held by --fix {name}={value}, `fixed` "
            "in Python, not by --do."
        )
    if fixed and graph is not None:
        name, value = next(iter(fixed.items()))
        raise UserError(
            f"The scene {scene} has a causal graph: {name} is set by an intervention, --do {name}={value}, `do` in "
            "Python, not by --fix."
        )
    held = single_values(scene, graph, classes, fixed or do)
    # The eight coordinates share one length, so that none can be held while the others are drawn.
    angular = [name for name in held if name not in GROUPS["position"]]
    if scene == "3dident-periodic" and angular:
        raise UserError(
            f"The periodic world draws its seven angles jointly on a sphere, so {angular[0]} cannot be held fixed; the "
            "scene 3dident can do that."
        )
    if graph is not None:
        # What is drawn anew must leave a graph that can be drawn from.
        graph.intervened(held)
    return held


def single_values(
    scene: str, graph: CausalModel | None, classes: tuple[str, ...], given: Mapping[str, float | str]
) -> Held:
    """Return the class and each single latent with its value, or with what it is drawn from; groups are resolved."""
    singles: Held = {}
    # Groups come first, so that a single latent's own value replaces that of its group.
    for name, value in sorted(given.items(), key=lambda item: item[0] not in GROUPS):
        if name == "class" and graph is not None:
            check_known("class", value, classes)
            continue
        if name == "class":
            raise UserError(f"The scene {scene} has no classes, so none can be held; causal3dident has.")
        single = single_names(name)
        if graph is not None and isinstance(value, str):
            singles |= dict.fromkeys(single, value)
            continue
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not -1 <= number <= 1:
            raise UserError(f"Raw latents are from -1 to 1, so {name} cannot be {value}.")
        singles |= dict.fromkeys(single, number)
    held: Held = {"class": given["class"]} if "class" in given else {}
    return held | {name: singles[name] for name in NAMES if name in singles}
