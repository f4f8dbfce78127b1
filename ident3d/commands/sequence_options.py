"""The options of rendered sequences and views, and the Sequences and Views that they make."""

from typing import TYPE_CHECKING, Any

from ident3d.commands.options import option, options
from ident3d.commands.parameters import numbers, numbers_or

if TYPE_CHECKING:
    from ident3d.latents.sequences import Sequences
    from ident3d.latents.views import Views

sequence_options = options(
    "--sequence",
    option("--views", "number"),
    "--private",
    "--cameras",
    option("--cond", default=None, metavar="[normal|laplace|gennorm|uniform|vmf|rejected_normal]",
           show_default="normal; with --views the marginal"),
    option("--sigma", type=numbers_or("none"), show_default="0.1"),
    option("--cond-p", "p"),
    "--kappa",
    option("--lambda", "precision", type=numbers()),
    option("--only", default=None),
    "--switch",
    "--transition",
    "--environment",
    section="Sequences, views and environments",
)  # fmt: skip
# Those that views take too.
OF_VIEWS = ("cond", "sigma", "p", "kappa", "precision")
# option → the setting of Sequences that it gives
SETTINGS = {
    "--cond": "cond", "--sigma": "sigma", "--cond-p": "p", "--kappa": "kappa", "--lambda": "precision",
    "--only": "only", "--switch": "switch",
    "--transition": "transition",
}  # fmt: skip


def sequence_of(given: dict[str, Any]) -> "Sequences | None":
    """Return the Sequences that the options of `sequence_options` describe; None without --sequence."""
    from ident3d.errors import UserError
    from ident3d.latents.sequences import Sequences

    asked = asked_settings(given)
    if given["length"] is None:
        for name, setting in SETTINGS.items():
            if setting in asked and (not (given["number"] or given["cameras"]) or setting not in OF_VIEWS):
                raise UserError(f"{name} says how the frames of a sequence follow one another: add --sequence 2.")
        return None
    return Sequences(given["length"], **asked)


def views_of_options(given: dict[str, Any]) -> "Views | None":
    """Return the Views that the options describe; None without --views."""
    from ident3d.errors import UserError
    from ident3d.latents.views import Views

    own = {name: given[name] for name in ("private", "cameras") if given[name]}
    number = len(given["cameras"]) or None if given["number"] is None else given["number"]
    if number is None:
        for name in own:
            raise UserError(f"--{name} says how views of one z differ: add --views 2.")
        return None
    if given["length"] is not None:
        raise UserError("--sequence draws frames and --views draws views of one z; take one of the two.")
    asked = {name: value for name, value in asked_settings(given).items() if name in OF_VIEWS}
    if asked and "cond" not in asked:
        name = next(name for name, setting in SETTINGS.items() if setting in asked)
        raise UserError(f"{name} is for a conditional: name one by --cond, or leave {name} away for the marginal.")
    return Views(number, **own, **asked)


def asked_settings(given: dict[str, Any]) -> dict[str, Any]:
    """Return setting → value for all that were given."""
    asked = {setting: given[setting] for setting in SETTINGS.values() if given[setting] is not None}
    # One number is the width, or the precision, of every latent; "none" is no width.
    for setting in ("sigma", "precision"):
        if len(values := asked.get(setting, ())) == 1:
            (asked[setting],) = values
    if asked.get("sigma") == ():
        asked["sigma"] = None
    return asked
