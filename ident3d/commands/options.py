"""Options that commands share: each is defined once here, so that a name and its help mean the same everywhere."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from ident3d.commands.parameters import (
    FILE,
    FOLDER,
    Listed,
    StoreOrPath,
    as_list,
    assignment,
    names,
    number_or,
    numbers,
)
from ident3d.machine import untried

if TYPE_CHECKING:
    from ident3d.training.images.settings import TrainSettings
    from ident3d.training.mixing.settings import MixingSettings

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
Settings = TypeVar("Settings", bound="TrainSettings | MixingSettings")


# first name of an option -> all its names, and its settings. A command may change the default and how that is shown.
SHARED: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {}


def share(*names: str, **settings: Any) -> None:
    SHARED[names[0]] = names, settings


def option(*names: str, **settings: Any) -> Decorator:
    """Return a click option that shows its default; what SHARED says of its name need not be said again."""
    shared_names, shared = SHARED.get(names[0], (names, {}))
    settings = {"show_default": True} | shared | settings
    # An option that says itself what its repetition means, as --lambda does, is left as it is.
    if isinstance(settings.get("type"), Listed) and "multiple" not in settings:
        settings |= as_list(**settings)
    # A command may give the option another parameter name, by naming it after the option.
    return click.option(*(names if names[1:] else shared_names), **settings)


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
share("--from",
      help="Take published files from here; for import repeatable. For sprites it is the table of transitions, or a "
           "folder of KITTI Masks; for meshes it is a folder of archives, of files out "
           "of them, or of your own, such as Hare.obj (up +z, facing +x).")
share("--accept-terms", is_flag=True, help="Accept the terms of what is fetched without being asked.")
share("--seed", default=0, help="Seed of every random draw.")
share("--seeds", type=numbers(int), help="Seeds.")
share("--n", type=int,
      help="Number of images; to diagnose, those that the classifier learns from.")
share("--workers", type=int, show_default="one per core", help="Number of worker processes.")
share("--where", multiple=True, metavar="FACTOR=VALUES",
      type=assignment("shape=square", lambda text: tuple(map(str.strip, text.split(",")))),
      help="Keep these values of a factor, separated by commas; repeatable.")
share("--shard-size", type=int, show_default="64, fewer for large images; of sprites 1,024",
      help="Images in a shard file.")

# what an image looks like, and how its latents are drawn
share("--scene", default="3dident",
      help="Scene to render: 3dident, 3dident-periodic, causal3dident, an example (examples:Objects, examples:Camera), "
           "or your own, a Python file and a class in it, as in mine.py:Lamp, or a .blend with --factors.")
share("--factors", type=FILE,
      help="With a .blend as --scene: the TOML file that maps its factors to data paths, such as desk.toml.")
share("--mesh", "meshes", multiple=True, metavar="NAME=FILE", type=assignment("Cup=cup.stl", str),
      help="A mesh for a scene of your own, an .obj, .ply or .stl file: `self.mesh(NAME)` in Python, or a mesh that "
           "--factors names; repeatable.")
share("--split", default="train", help="Split: train or test; rendered ones share no image.")
share("--size", type=int, help="Side of the square images in pixels.")
share("--quality", default="standard", help="Preset: reference (slow), standard, draft or truth.")
share("--material", default="rubber", help="Material of object and ground: rubber or metal.")
share("--hues", default="published", help="Hue rule: published, or wrapped (identifiable).")
share("--position-range", type=float, show_default="the scene's own: 3 or 2", help="Half width of x, y, z.")
share("--angle-range", type=float, show_default="the scene's own: π/2", help="Half width of the angles in radians.")
share("--hue-range", type=float, show_default="the scene's own: π/2", help="Half width of the hues in radians.")
share("--fix", "fixes", multiple=True, metavar="LATENT=VALUE",
      help="Hold a latent or group (position, rotation, hue) at a raw value from -1 to 1, in scenes without a causal "
           "graph; in a scene of your own, a factor at a raw value or at one of its names; repeatable.")
share("--do", "interventions", multiple=True, metavar="NAME=VALUE",
      help="Intervene on the causal graph: a latent at a raw value, class=Hare, or a latent drawn anew, as in "
           "'x ~ normal(0.2, 0.3)'; in a scene of your own, a factor at a raw value, a name, or drawn; repeatable.")
share("--classes", type=names(), show_default="all", help="Only these classes of the causal scene.")
share("--graph", type=FILE, show_default="the published graph; of your own scene none",
      help="Causal graph to use instead, a TOML file, also over the factors of your own scene; `ident3d graph --toml` "
           "prints one to start from.")
share("--sequence", "length", type=int, metavar="FRAMES",
      help="Render sequences of so many frames: the first is drawn as images are, each next from --cond around the one "
           "before. 2 gives exact pairs.")
share("--views", type=int,
      help="Number of views. To render: images of each z, of which --private latents are redrawn. To diagnose: views "
           "of each of 50 images, whose codes show the conditional.")
share("--private", type=names(), default=(), show_default="none",
      help="With --views, the latents or groups that each view draws anew, from the marginal or from --cond; the "
           "others are shared.")
share("--cameras", type=names(), default=(), show_default="the scene's own",
      help="The camera of each view, by name: front, right, back or left of 3dident and causal3dident; those that a "
           "scene of your own lists, or that are in the .blend.")
share("--environment", "environments", multiple=True, metavar="NAME:DO",
      help="An environment: its name and what is set or drawn anew in it, as in 'right:y=0.5; z~normal(0.2, 0.3)', or "
           "'plain:' for nothing; or a .toml file of several. Images take them in turn; repeatable.")
share("--switch", type=float, show_default="0",
      help="Probability that a categorical factor takes another value in the next frame.")
share("--transition", type=FILE,
      help="Rules of single factors, a TOML file: a linear mean of the last frame's factors, a width, interventions.")
share("--render-device", "device", default="cpu",
      help=f"Blender renders on: cpu, cuda, optix, hip, metal or auto{untried('GPU rendering')}.")
share("--licence", help="Licence of the data, for the card, such as cc-by-4.0.")
share("--citation", help="What to cite, for the card.")
share("--latents", type=FILE, help="Latents, a .npy file with one row per sample.")

share("--names", type=names(), help="Names of the latents.")
share("--class-file", type=FILE, help="Class of each sample, a .npy file of one number or name each.")

# which image goes with which
share("--cond", default="normal", help="Conditional p(z̃ | z), the distribution of a positive around its anchor.")
share("--cond-p", type=float, show_default="3", help="Power p of the conditional gennorm.")
share("--sigma", help="Width σ of the conditional.")
share("--kappa", type=float, help="Concentration κ of the conditional vmf.")
share("--lambda", metavar="Λ",
      help="Precision Λ of the conditional, instead of its width: one number, or several separated by commas; "
           "repeatable.")
share("--hard-lambda", metavar="Λ", type=numbers(), default=(),
      help="Precision Λ of hard negatives, which are drawn around each anchor: one number for all latents, or several.")
share("--only", type=names(), default=(), show_default="all",
      help="Only these latents or groups change within a pair.")
share("--same-class", is_flag=True, help="Keep each pair within one class.")
share("--environments", metavar="[within|across][:NAMES]",
      help="Take both images of a pair within one environment, or across two; within:a,b takes them from "
           "a and b alone.")
share("--rule", default=None, show_default="view or time for views or sequences, else nearest",
      help="Pair rule: nearest (to a draw from --cond), grid (looked up on a full grid of factors), time (a later "
           "frame of the same sequence) or view (another view of the same z).")
share("--grid", default="lap",
      help="What changes with --rule grid: lap (all ordered factors, mostly a little), lap-rejecting, uni (1 to all "
           "but one factor, to any other value), or redraw (1 or several, to any value, also the old one).")
share("--rate", type=number_or("drawn"), default="1",
      help="Rate of the grid lap: the weight of i steps among n values is exp(-i rate / ln n); `drawn` draws it from 1 "
           "to 10 for each pair.")
share("--max-lag", default=1, help="With --rule time, how many frames later the positive is at most.")
share("--search", default="exact",
      help="Pair search: exact (k-d tree), ivf (the papers' index) or flat, FAISS' exact index"
           f"{untried('FAISS on GPUs')}.")

share("--augment", default="simclr",
      help="Augmentations: simclr, crop-small, crop-medium, crop-large, colour, blur, rotation, joined by +; for "
           "training also none, with --loss betavae.")

# the encoder and its output space
share("--encoder", help="Encoder, by name.")
share("--space", show_default="fits latents and loss", help="Output space, where codes live.")
share("--dim", type=int, help="Number of codes.")
share("--bound", help="Bound of the box at the start, in each dimension.")
share("--radius", default=1.0, help="Radius of the sphere at the start.")
share("--learnable/--fixed", default=None, show_default="learnable for boxes, fixed for spheres",
      help="Whether to train bound and radius.")
share("--dtype", help="Number format of the encoder.")

# the loss
share("--loss", show_default="fits the output space", help="Loss, by name.")
share("--model-p", type=float, show_default="2", help="Power p of the loss delta: 1 fits Laplace, 2 normal pairs.")
share("--tau", default=1.0, help="Temperature of the loss.")
share("--alpha", default=0.5, help="Share of uniformity in the loss au.")
share("--negatives", show_default="others for delta and infonce",
      help="Negatives of each anchor: others (the papers') or batch (all anchors with itself, as public code does).")
share("--supervised", is_flag=True, help="Learn the latents themselves, by mean squared error.")
LOSS = ("--loss", "--model-p", "--tau", "--alpha", "--negatives", "--supervised")

# the optimiser
share("--batch", type=int, help="Pairs in a batch.")
share("--steps", type=int, help="Number of training steps.")
share("--lr", default=1e-4, help="Learning rate of Adam.")
share("--space-lr", type=float, show_default="--lr", help="Learning rate of bound and radius.")
share("--lambda-lr", type=float, show_default="0.001", help="Learning rate of the loss's Λ.")
share("--schedule", default="constant", help="Learning rate over time: constant, onecycle or cosine.")

# a run
share("--device", default="auto",
      help=f"Device that torch uses: cpu, cuda, cuda:1, mps or auto{untried('cuda', 'mps')}.")
share("--save-every", type=int, help="Steps between checkpoints.")
share("--log-every", type=int, help="Steps between lines of the log.")
share("--resume", is_flag=True, help="Continue where the same command stopped.")
share("--allow-same", is_flag=True,
      help="Allow a test set to be trained on, or training images to be scored on; the result is labelled.")
share("--data", type=StoreOrPath(), show_default="the matching test set",
      help="With a run: dataset folder whose images are scored or shown.")
share("--metrics", type=names("default", "all"), default="default", help="Scores.")
share("--plot", type=FILE, help="Write a picture of the scores here: a .png, .pdf or .svg file.")

# benchmarks
share("--threads", default=1, help="Threads that torch may use.")
share("--repeats", default=3, help="Repeats of each measurement; the fastest counts.")
# fmt: on

dataset_argument = click.argument("directory", metavar="DIR", type=StoreOrPath())
run_argument = click.argument("run", metavar="RUN", type=click.Path(path_type=Path))


def is_given(*parameters: str) -> bool:
    """Return whether one of these parameters of the command stands on its command line, even at its default."""
    context = click.get_current_context()
    return any(context.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in parameters)


def settings_of(kind: type[Settings], given: dict[str, Any]) -> Settings:
    """Return the settings that the options describe; what is left in `given` are the arguments of the run."""
    # They are taken out of `given`, so that the rest can be passed on as it is.
    return kind(**{field.name: given.pop(field.name) for field in fields(kind) if field.name in given})
