"""Options that commands share: each is defined once here, so that a name and its help mean the same everywhere."""

import json
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import click

from ident3d.commands.parameters import FILE, FOLDER, StoreOrPath, names, numbers
from ident3d.machine import untried

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


# first name of an option -> all its names, and its settings. A command may change the default and how that is shown.
SHARED: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {}


def share(*names: str, **settings: Any) -> None:
    SHARED[names[0]] = names, settings


def option(*names: str, **settings: Any) -> Decorator:
    """A click option that shows its default; what SHARED says of its name need not be said again."""
    shared_names, shared = SHARED.get(names[0], (names, {}))
    # A command may give the option another parameter name, by naming it after the option.
    return click.option(*(names if names[1:] else shared_names), **{"show_default": True} | shared | settings)


def options(*given: str | Decorator, section: str = "Options") -> Decorator:
    """Add options in this order, under the title of a section in the help; a shared one is named by its string."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        # Click prepends each option, so the last one is added first.
        for each in reversed(given):
            command = (option(each) if isinstance(each, str) else each)(command)
            command.__click_params__[-1].section = section  # type: ignore[attr-defined]
        return command

    return add


class Sectioned(click.Command):
    """A command whose help lists its options by section, in the order of the decorators."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        title = "Options"
        for param in self.get_params(ctx):
            # --help has no section of its own and comes last
            title = getattr(param, "section", title)
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)):
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


# a line or two for each option, so that they can be read as one table
# fmt: off
# what every command has
share("--root", type=FOLDER, show_default="$IDENT3D_DATA, else ./data", help="Folder that holds datasets and runs.")
share("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
share("--out", type=click.Path(path_type=Path), help="Where to write the result.")
share("--seed", default=0, help="Seed of every random draw.")
share("--seeds", type=numbers(int), help="Seeds, separated by commas.")
share("--n", type=int, help="Number of images.")
share("--workers", type=int, show_default="one per core", help="Number of worker processes.")
share("--shard-size", type=int, show_default="64, fewer for large images", help="Images in a shard file.")

# what an image looks like, and how its latents are drawn
share("--scene", default="3dident", help="Scene to render: 3dident, 3dident-periodic or causal3dident.")
share("--split", default="train", help="Split: train or test; they share no image.")
share("--size", type=int, help="Side of the square images in pixels.")
share("--quality", default="standard", help="Preset: reference (slow), standard, draft or truth.")
share("--material", default="rubber", help="Material of object and ground: rubber or metal.")
share("--hues", default="published", help="Hue rule: published, or wrapped (identifiable).")
share("--position-range", type=float, show_default="the scene's own: 3 or 2", help="Half width of x, y, z.")
share("--angle-range", type=float, show_default="the scene's own: π/2", help="Half width of the angles in radians.")
share("--hue-range", type=float, show_default="the scene's own: π/2", help="Half width of the hues in radians.")
share("--fix", "fixes", multiple=True, metavar="LATENT=VALUE",
      help="Hold a latent or group (position, rotation, hue) at a raw value from -1 to 1, in scenes without a causal "
           "graph; repeatable.")
share("--do", "interventions", multiple=True, metavar="NAME=VALUE",
      help="Intervene on the causal graph: a latent at a raw value, class=Hare, or a latent drawn anew, as in "
           "'x ~ normal(0.2, 0.3)'; repeatable.")
share("--classes", type=names(), show_default="all",
      help="Only these classes of the causal scene, separated by commas.")
share("--graph", type=FILE, show_default="the published graph",
      help="Causal graph to use instead, a TOML file; `ident3d graph --toml` prints one to start from.")
share("--render-device", "device", default="cpu",
      help=f"Blender renders on: cpu, cuda, optix, hip, metal or auto{untried('GPU rendering')}.")
share("--latents", type=FILE,
      help="Latents, a .npy file with one row per sample; for render: raw ones, with the class as a last column.")

share("--names", type=names(), help="Names of the latents, separated by commas.")
share("--class-file", type=FILE, help="Class of each sample, a .npy file of one number or name each.")

# which image goes with which
share("--cond", default="normal",
      help="Conditional p(z̃ | z): normal, laplace, gennorm; vmf and (not train) rejected_normal on spheres; "
           "pairs also takes uniform, train augment.")
share("--cond-p", type=float, show_default="3", help="Power p of the conditional gennorm.")
share("--sigma", help="Width of the conditional; in train κ of vmf is 1/σ, in pairs `none` is no width.")
share("--kappa", type=float, help="Concentration κ of the conditional vmf.")
share("--lambda", metavar="Λ",
      help="Precision Λ of the conditional, in train 1/σ²; train and mixing also take one per latent or half (5,25) "
           "and, repeated, two conditionals (mixing: several).")
share("--hard-lambda", metavar="Λ", type=numbers(), default=(),
      help="Precision Λ with which each anchor's hard negatives are drawn around it.")
share("--only", multiple=True, metavar="LATENT", show_default="all",
      help="Latent or group that changes within a pair; repeatable.")
share("--same-class", is_flag=True, help="Keep each pair within one class.")
share("--search", default="exact",
      help=f"Pair search: exact (k-d tree), flat (FAISS) or ivf (the papers' index){untried('FAISS on GPUs')}.")

# the encoder and its output space
share("--encoder",
      help="Encoder: conv (small images), resnet18, 34, 50, with +flat or +small-stem (images); papers or widths such "
           "as 256x4 (mixing); or your own, package.module:name.")
share("--space", show_default="fits latents and loss",
      help="Output space: box, sphere, unbounded (supervised), or box*sphere (periodic latents).")
share("--dim", type=int, help="Number of codes; in mixing also of latents.")
share("--bound",
      help="Bound of the box at the start, in each dimension; train also takes `auto` (estimated from the pairs), "
           "mixing `match` (the best scale).")
share("--radius", default=1.0, help="Radius of the sphere at the start.")
share("--learnable/--fixed", default=None, show_default="learnable for boxes, fixed for spheres",
      help="Whether to train bound and radius.")
share("--dtype",
      help=f"Number format of the encoder: fp32, bf16; train also takes auto (measured) and fp16{untried('fp16')}.")

# the loss
share("--loss", show_default="fits the output space",
      help="Loss: delta, infonce (sphere), simclr, au, aninfonce, or your own as package.module:name.")
share("--model-p", type=float, show_default="2", help="Power p of the loss delta: 1 fits Laplace, 2 normal pairs.")
share("--tau", default=1.0, help="Temperature of the loss.")
share("--alpha", default=0.5, help="Share of uniformity in the loss au.")
share("--negatives", show_default="others for delta and infonce",
      help="Negatives of each anchor: others (the papers') or batch (all anchors with itself, as public code does).")
share("--supervised", is_flag=True, help="Learn the latents themselves, by mean squared error.")
LOSS = ("--loss", "--model-p", "--tau", "--alpha", "--negatives", "--supervised")

# the optimiser
share("--batch", type=int, help="Pairs in a step, over all processes.")
share("--steps", type=int, help="Number of training steps.")
share("--lr", default=1e-4, help="Learning rate of Adam.")
share("--space-lr", type=float, show_default="--lr", help="Learning rate of bound and radius.")
share("--schedule", default="constant", help="Learning rate over time: constant, onecycle or cosine.")

# a run
share("--device", default="auto",
      help=f"Device that torch uses: cpu, cuda, cuda:1, mps or auto{untried('cuda', 'mps')}.")
share("--save-every", type=int, help="Steps between checkpoints.")
share("--log-every", type=int, help="Steps between lines of the log.")
share("--resume", is_flag=True, help="Continue where the same command stopped.")
share("--allow-same", is_flag=True,
      help="Allow a test set to be trained on, or training images to be scored on; the result is labelled.")
share("--metrics", type=names("default", "all"), default="default",
      help="Scores: default, all, or names separated by commas.")

share("--plot", type=FILE, help="Write a picture of the scores here: a .png, .pdf or .svg file.")

# benchmarks
share("--threads", default=1, help="Threads that torch may use.")
share("--repeats", default=3, help="Repeats of each measurement; the fastest counts.")
# fmt: on

recipe_options = options(
    "--scene", "--split", "--seed", option("--size", default=224), "--quality", "--material", "--hues",
    "--position-range", "--angle-range", "--hue-range", "--fix", "--do", "--classes", "--graph", "--render-device",
    section="Images and their latents",
)  # fmt: skip
dataset_argument = click.argument("directory", metavar="DIR", type=StoreOrPath())
run_argument = click.argument("run", metavar="RUN", type=click.Path(path_type=Path))


def show(result: Any, as_json: bool, text: str | None = None, **more: Any) -> None:
    """Print a result as JSON, with `more` figures, or as its text; by default that is its table."""
    if not as_json:
        click.echo(result.table() if text is None else text)
        return
    # Records are dataclasses; those with more to print than their fields have as_dict.
    if not isinstance(result, dict | list):
        result = result.as_dict() if hasattr(result, "as_dict") else asdict(result)
    # Names keep their accents, and paths are printed as text.
    click.echo(json.dumps(result | more if more else result, indent=2, ensure_ascii=False, default=os.fspath))


def confirmed(question: str) -> bool:
    """Ask on standard error; no answer, as from a script, means no."""
    try:
        return click.confirm(question, err=True)
    except click.Abort:
        return False


@contextmanager
def interruptible(sentence: str = "the same command with --resume goes on from the last checkpoint.") -> Iterator[None]:
    """End an interrupted run with what the user can do, and the exit code that shells give for Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"\nInterrupted; {sentence}", err=True)
        raise click.exceptions.Exit(130) from None


@contextmanager
def print_warnings() -> Iterator[None]:
    """Print our own warnings as plain sentences on standard error."""

    def echo(message: Warning | str, *_: Any, **__: Any) -> None:
        click.echo(f"Note: {message}", err=True)

    # Catch_warnings puts showwarning back as well.
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = echo
        yield


def next_to(directory: Path | str, ending: str) -> Path:
    """The path of a file next to a dataset, named after it; for a dataset in a store, in the current folder."""
    # A dataset in a store has no folder next to it.
    if isinstance(directory, str):
        return Path(directory.rstrip("/").rpartition("/")[2] + ending)
    return directory.resolve().with_name(f"{directory.resolve().name}{ending}")


def settings_of(kind: Any, given: dict[str, Any]) -> Any:
    """Return the settings that the options describe; what is left in `given` are the arguments of the run."""
    # They are taken out of `given`, so that the rest can be passed on as it is.
    return kind(**{field.name: given.pop(field.name) for field in fields(kind) if field.name in given})


def recipe_of(given: dict[str, Any]) -> Any:
    """The Recipe that the options of `recipe_options` describe."""
    from ident3d.farm.recipe import Recipe
    from ident3d.latents.exact.causal import load_model
    from ident3d.latents.exact.names import assignments
    from ident3d.latents.worlds import World

    world = World(
        given["scene"],
        **{name: given[name] for name in ("position_range", "angle_range", "hue_range", "hues")},
        fixed=assignments(given["fixes"]),
        do=assignments(given["interventions"]),
        graph=load_model(given["graph"]) if given["graph"] else None,
        classes=given["classes"] or (),
    )
    return Recipe(world, **{name: given[name] for name in ("split", "seed", "size", "quality", "material", "device")})
