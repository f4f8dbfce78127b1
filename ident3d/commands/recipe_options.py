"""The options of what to render, which `render`, `traverse` and `bench farm` share, and the Recipe that they make."""

from typing import TYPE_CHECKING, Any

from ident3d.commands.options import option, options
from ident3d.commands.sequence_options import sequence_of, views_of_options

if TYPE_CHECKING:
    from pathlib import Path

    from ident3d.farm.recipe import Recipe
    from ident3d.farm.scenes import OwnScene

recipe_options = options(
    "--scene", "--factors", "--mesh", "--split", "--seed", option("--size", default=224), "--quality", "--material",
    "--hues", "--position-range", "--angle-range", "--hue-range", "--fix", "--do", "--classes", "--graph",
    "--render-device", section="Images and their latents",
)  # fmt: skip


def recipe_of(given: dict[str, Any]) -> "Recipe":
    """Return the Recipe that the options of `recipe_options` describe."""
    from ident3d.farm.recipe import Recipe
    from ident3d.latents.environments import read_environments
    from ident3d.latents.exact.causal import load_model
    from ident3d.latents.exact.names import assignments
    from ident3d.latents.worlds import AnyWorld, World

    if is_own(given["scene"]):
        refuse_options_of_ours(given)
    world: AnyWorld | None = own_scene_of(
        *(given[name] for name in ("scene", "factors", "meshes", "graph", "interventions", "fixes"))
    )
    if world is None:
        world = World(
            given["scene"],
            **{name: given[name] for name in ("position_range", "angle_range", "hue_range", "hues")},
            fixed=assignments(given["fixes"], "rotation=0"),
            do=assignments(given["interventions"]),
            graph=load_model(given["graph"]) if given["graph"] else None,
            classes=given["classes"] or (),
        )
    look = {name: given[name] for name in ("split", "seed", "size", "quality", "material", "device")}
    if "length" not in given:
        return Recipe(world, **look)
    environments = read_environments(given["environments"], world)
    return Recipe(world, **look, sequence=sequence_of(given), environments=environments, views=views_of_options(given))


def is_own(scene: str) -> bool:
    """Return whether --scene names a user's own scene, or an example."""
    return ":" in scene or scene.endswith(".py") or scene.lower().endswith(".blend")


def own_scene_of(
    scene: str,
    factors: "Path | None",
    meshes: tuple[tuple[str, str], ...],
    graph: "Path | None" = None,
    interventions: tuple[str, ...] = (),
    fixes: tuple[str, ...] = (),
    *,
    hidden: bool = False,
) -> "OwnScene | None":
    """Return the user's own scene that options describe; None if --scene is one of ours.

    `hidden` accepts factors that change no pixel.
    """
    from ident3d.errors import UserError
    from ident3d.farm.scenes import load_scene
    from ident3d.latents.exact.names import assignments
    from ident3d.latents.own_graph import own_interventions

    if is_own(scene):
        fixed, do = assignments(fixes, "height=0", own=True), own_interventions(interventions)
        shapes = once("--mesh", meshes)
        return load_scene(scene, fixed, factors=factors, meshes=shapes, graph=graph, do=do, hidden=hidden)
    if factors:
        raise UserError(f"--factors goes with a .blend; the factors of {scene} are its own.")
    if meshes:
        raise UserError(
            f"{scene} takes no --mesh: it is for scenes of your own; `ident3d meshes --from` takes meshes of your own "
            "for the classes of causal3dident."
        )
    return None


def once(option_name: str, pairs: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """Return pairs of name and value as a dict; raise UserError for a name that is given twice."""
    from ident3d.errors import UserError

    found = dict(pairs)
    if len(found) < len(pairs):
        raise UserError(f"{option_name} has a name twice: {', '.join(name for name, _ in pairs)}.")
    return found


def refuse_options_of_ours(given: dict[str, Any]) -> None:
    """Raise UserError for an option that says what our scenes look like, or how their latents are drawn."""
    from ident3d.errors import UserError

    ours = {
        "--material": given["material"] != "rubber",
        "--hues": given["hues"] != "published",
        **{f"--{name}-range": given[f"{name}_range"] is not None for name in ("position", "angle", "hue")},
        "--classes": given["classes"],
    }
    for option_name, is_given in ours.items():
        if is_given:
            raise UserError(
                f"{option_name} is for scenes of ours: {given['scene']} itself says what it shows; "
                "--fix holds a factor."
            )
