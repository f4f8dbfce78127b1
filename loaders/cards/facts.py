"""What is known of a dataset, label by label, as its card and `ident3d info` show it."""

from typing import Any

from ident3d.latents.attainable import attainable_r2
from ident3d.latents.factor import Factor
from ident3d.latents.factors import Factors, SceneSource
from ident3d.latents.worlds import World
from ident3d.loaders.format.description import Description
from ident3d.loaders.format.latents_source import (
    GENERATED,
    TOGETHER,
    environments_of,
    sequences_of,
    views_of,
    world_of,
)

# The layout of images that were given as arrays.
ARRAYS = "arrays"
SHOWN_VALUES = 12
NOT_SAID = "not said"


def facts(description: Description) -> list[tuple[str, str]]:
    """Return what the card and `ident3d info` show of a dataset, label by label."""
    settings, world = description.settings, world_of(description.settings)
    rows = scene_facts(settings, world) if isinstance(world, World) else factor_facts(settings, world)
    rows.insert(1, ("images", f"{description.n:,} of {size_in_words(description)}"))
    if sequence := sequences_of(settings):
        rows.append(("sequences", f"{description.n // sequence.length:,} of {sequence.length} frames"))
        rows.append(("each next frame", sequence.words))
    if views := views_of(settings):
        blocks = views.blocks(world)
        rows.append(("instances", f"{description.n // views.number:,} of {views.number} views"))
        rows.append(("shared", ", ".join([*(["class"] if world.drawn_classes else []), *blocks.get("shared", ())])))
        if private := blocks.get("private"):
            rows.append(("private", f"{', '.join(private)}: {views.words}"))
        if views.cameras:
            rows.append(("cameras", ", ".join(views.cameras)))
    for number, environment in enumerate(environments_of(settings)):
        rows.append((f"environment {number}, {environment.name}", environment.words))
    rows += [("versions", ", ".join(f"{k} {v}" for k, v in settings["versions"].items()))]
    if description.complete:
        rows += [
            ("pixel mean", ", ".join(f"{value:.4f}" for value in description.pixel_mean or ())),
            ("pixel std", ", ".join(f"{value:.4f}" for value in description.pixel_std or ())),
            ("disk", f"{(description.bytes or 0) / 1e6:,.1f} MB"),
        ]
    return rows


def statement(name: str, value: float | str) -> str:
    """Return x = 0.5, class = Hare, or x ~ normal(0.2, 0.3)."""
    if isinstance(value, str):
        return f"{name} {'=' if name == 'class' else '~'} {value}"
    return f"{name} = {value:g}"


def scene_facts(settings: dict[str, Any], world: World) -> list[tuple[str, str]]:
    """Return the facts of a scene's images."""
    classes = world.drawn_classes
    held = [statement(name, value) for name, value in (world.do if world.causal else world.fixed).items()]
    ranges = [f"{name} ±{getattr(world, f'{name}_range'):.4g}" for name in ("position", "angle", "hue")]
    # Unless the graph draws classes, image i has class i modulo their number.
    is_drawn = world.graph is not None and world.graph.weights and len(classes) > 1
    return [
        ("scene", world.scene),
        ("source of the latents", source_of_latents(settings["source"])),
        *([(f"classes, {'drawn' if is_drawn else 'image by image in turn'}", ", ".join(classes))] if classes else []),
        ("intervention" if world.causal else "held fixed", ", ".join(held) or "nothing"),
        *([("graph", "its own, in dataset.json")] if world.graph != World(world.scene).graph else []),
        ("ranges", ", ".join(ranges)),
        ("hues", world.hues),
        ("material", settings["material"]),
        ("quality", quality_name(settings)),
    ]


def factor_facts(settings: dict[str, Any], world: Factors) -> list[tuple[str, str]]:
    """Return the facts of images with declared factors."""
    if world.own_scene:
        return own_scene_facts(settings, world, world.own_scene)
    # Nothing read from disk is trusted to be there.
    origin = settings.get("origin", {})
    return [
        ("name", origin.get("name", NOT_SAID)),
        ("source", source_of_images(settings["source"], origin)),
        *([("classes", ", ".join(world.classes))] if world.classes else []),
        ("licence", origin.get("licence", NOT_SAID)),
    ]


def own_scene_facts(settings: dict[str, Any], world: Factors, own: SceneSource) -> list[tuple[str, str]]:
    """Return the facts of images that a user's own scene was rendered for."""
    return [
        ("scene", f"{own.name}, a file with the sha256 {own.sha256}"),
        *[
            (f"its {use}", f"a file with the sha256 {digest}")
            for use, digest in settings.get("scene_files", {}).items()
        ],
        ("source of the latents", source_of_latents(settings["source"])),
        ("held fixed", ", ".join(statement(name, value) for name, value in world.fixed.items()) or "nothing"),
        *([("intervention", ", ".join(statement(*each) for each in world.do.items()))] if world.do else []),
        *([("graph", "its own, in dataset.json")] if world.graph else []),
        ("quality", quality_name(settings)),
    ]


def quality_name(settings: dict[str, Any]) -> str:
    quality = settings["quality"]
    return str(quality.get("name", "unknown")) if quality else "unknown"


def size_in_words(description: Description) -> str:
    """Return the size of the images in words."""
    grey = " in grey" if description.channels == 1 else ""
    return f"{description.size}×{description.size} pixels{grey}"


def source_of_images(source: dict[str, Any], origin: dict[str, Any]) -> str:
    """Return where images with declared factors come from: of arrays, what is said of them, if anything is."""
    said = origin.get("source", NOT_SAID) if source.get("layout") == ARRAYS else NOT_SAID
    return source_of_latents(source if said == NOT_SAID else source | {"from": said})


def source_of_latents(source: dict[str, Any]) -> str:
    if source["kind"] == "import":
        return f"imported from {source['from']}" + (f", {source['split']}" if source["split"] else "")
    if source["kind"] == GENERATED:
        seed = f" with seed {source['seed']}" if "seed" in source else ""
        return f"generated: {source['from']}, {source.get('images', NOT_SAID)}{seed}, {source['split']}"
    return ", ".join(f"{k} {v}" for k, v in source.items() if k not in TOGETHER)


def latent_table(settings: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the table of the latents, its head first: attainable R², or kind and values of declared factors."""
    world = world_of(settings)
    if isinstance(world, World):
        held = "set by an intervention" if world.causal else "held fixed"
        known = attainable_r2(world).items()
        return [("latent", "attainable R²"), *((k, held if r2 is None else f"{r2:.4f}") for k, r2 in known)]
    how = dict.fromkeys(world.do, ", set by an intervention") | dict.fromkeys(world.fixed, ", held fixed")
    shown = {f.name: values_of(f) + how.get(f.name, "") for f in world.factors}
    return [("latent", "kind", "values"), *((f.name, f.kind, shown[f.name]) for f in world.factors)]


def values_of(factor: Factor) -> str:
    """Return the values of a factor in words: all if they are few, or the first, the last and how many."""
    low, high = factor.bounds
    if not factor.values:
        return f"{low:g} to {high:g}"
    shown = [value if isinstance(value, str) else f"{value:.6g}" for value in factor.values]
    return ", ".join(shown) if len(shown) <= SHOWN_VALUES else f"{len(shown)} from {shown[0]} to {shown[-1]}"
