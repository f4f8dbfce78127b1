"""Options that several commands share, so that a name means the same thing everywhere."""

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ident3d.errors import UserError

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

root_option = click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder below which datasets and runs live; else IDENT3D_DATA, else ./data.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON instead of a table.")


class Place(click.Path):
    """A path, or the address of a store as it was typed: a Path would lose one of its slashes."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if "://" in str(value) else super().convert(value, param, ctx)


dataset_argument = click.argument("directory", metavar="DIR", type=Place())


@contextmanager
def telling_warnings() -> Iterator[None]:
    """Say our own warnings as plain sentences on standard error."""

    def tell(message: Warning | str, *_place: Any, **_more: Any) -> None:
        click.echo(f"Note: {message}", err=True)

    with warnings.catch_warnings():  # puts showwarning back as well
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = tell
        yield


def beside(directory: Path | str, ending: str) -> Path:
    """A file beside a dataset, named after it; of one in a store, in the current folder."""
    if isinstance(directory, str):
        return Path(directory.rstrip("/").rpartition("/")[2] + ending)
    return directory.resolve().with_name(f"{directory.resolve().name}{ending}")


def recipe_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what an image looks like; `recipe_of` turns them into a Recipe."""
    options: list[Decorator] = [
        click.option("--scene", default="3dident", show_default=True, help="The scene to render."),
        click.option("--split", default="train", show_default=True, help="Stream of latents: train or test, disjoint."),
        click.option("--seed", default=0, show_default=True, help="Seed of the latents and of the pixels' noise."),
        click.option("--size", default=224, show_default=True, help="Side of the square images in pixels."),
        click.option(
            "--quality",
            default="standard",
            show_default=True,
            help="Preset: reference (slow), standard, draft; or truth.",
        ),
        click.option("--material", default="rubber", show_default=True, help="Of object and ground: rubber or metal."),
        click.option(
            "--hues", default="published", show_default=True, help="Hue rule: published, or wrapped (identifiable)."
        ),
        click.option(
            "--position-range",
            type=float,
            help="Half width of x, y, z in scene units; the scene's own: 3 or 2.",
        ),
        click.option("--angle-range", type=float, help="Half width of the angles in radians; the scene's own: π/2."),
        click.option("--hue-range", type=float, help="Half width of the hues in radians; the scene's own: π/2."),
        click.option(
            "--fix",
            "fixes",
            multiple=True,
            metavar="LATENT=VALUE",
            help="Hold a latent, or a group (position, rotation, hue), at a raw value; may be given several times.",
        ),
        click.option(
            "--do",
            "interventions",
            multiple=True,
            metavar="NAME=VALUE",
            help="Intervene on the causal graph: a latent at a raw value, or class=Hare; may be given several times.",
        ),
        click.option("--classes", help="Of the causal scene: only these, separated by commas, in turn."),
        click.option(
            "--graph",
            type=click.Path(path_type=Path, dir_okay=False),
            help="Of the causal scene: draw the latents from this graph (TOML; `ident3d graph --toml` shows one).",
        ),
        click.option(
            "--device", default="cpu", show_default=True, help="cpu, or a GPU: cuda, optix, hip, metal, or auto."
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def recipe_of(options: dict[str, Any]) -> Any:
    """The Recipe that the options describe."""
    from ident3d.farm.recipe import Recipe
    from ident3d.latents.exact.causal import load_model
    from ident3d.latents.exact.names import assignments
    from ident3d.latents.worlds import World

    world = World(
        options["scene"],
        position_range=options["position_range"],
        angle_range=options["angle_range"],
        hue_range=options["hue_range"],
        fixed=held(options["fixes"], assignments(options["interventions"])),
        hues=options["hues"],
        graph=load_model(options["graph"]) if options["graph"] else None,
        classes=tuple(name.strip() for name in options["classes"].split(",")) if options["classes"] is not None else (),
    )
    own = {name: options[name] for name in ("split", "seed", "size", "quality", "material", "device")}
    return Recipe(world, **own)


def held(fixes: tuple[str, ...], interventions: dict[str, Any]) -> dict[str, Any]:
    """What --fix and --do hold, each name once."""
    fixed: dict[str, Any] = {}
    for name, value in [*map(parse_fix, fixes), *interventions.items()]:
        if name in fixed:
            raise UserError(f"{name} is held twice; give it once, by --fix or by --do.")
        fixed[name] = value
    return fixed


def parse_fix(text: str) -> tuple[str, float]:
    """``rotation=0`` → ("rotation", 0.0)."""
    name, equals, value = text.partition("=")
    try:
        return name, float(value if equals else "missing")
    except ValueError:
        raise UserError(
            f"--fix takes LATENT=VALUE with a raw value from -1 to 1, as in rotation=0, not {text!r}."
        ) from None


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say where rendering runs; `cluster_of` turns them into a Cluster."""
    file = click.Path(path_type=Path, dir_okay=False)
    options: list[Decorator] = [
        click.option("--scheduler", help="Render on this Dask scheduler's workers: an address, or a scheduler file."),
        click.option("--tls-ca", type=file, help="Certificate authority of a tls:// scheduler."),
        click.option("--tls-cert", type=file, help="Our certificate for a tls:// scheduler."),
        click.option("--tls-key", type=file, help="The key of our certificate."),
        click.option("--cluster", "system", help="Begin workers by slurm, pbs, sge, lsf or k8s."),
        click.option("--jobs", type=int, help="With --cluster: how many jobs, of one render process each."),
        click.option(
            "--cluster-option",
            "cluster_settings",
            multiple=True,
            metavar="NAME=VALUE",
            help="With --cluster: an option of its Dask class, as in walltime=08:00:00; may be given several times.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def cluster_of(options: dict[str, Any]) -> Any:
    """The Cluster that the options describe."""
    from ident3d.farm.cluster import Cluster

    own = {name: options[name] for name in ("scheduler", "tls_ca", "tls_cert", "tls_key", "system", "jobs")}
    return Cluster(**own, options=dict(map(parse_cluster_option, options["cluster_settings"])))


def parse_cluster_option(text: str) -> tuple[str, Any]:
    """``cores=4`` → ("cores", 4); a value that is JSON is read as such, any other is a string."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise UserError(f"--cluster-option takes NAME=VALUE, as in walltime=08:00:00, not {text!r}.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
