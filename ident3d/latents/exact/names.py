"""The latents by name: ten scene values in the published order, and the groups that the papers speak of."""

from collections.abc import Iterable
from typing import Final

from ident3d.errors import UserError, unknown

NAMES: Final = (
    *("x", "y", "z", "rotation_phi", "rotation_theta", "rotation_psi"),
    *("spotlight_position", "object_hue", "spotlight_hue", "ground_hue"),
)
GROUPS: Final = {"position": NAMES[0:3], "rotation": NAMES[3:6], "hue": NAMES[7:10]}
CLASSES: Final = ("Teapot", "Hare", "Dragon", "Cow", "Armadillo", "Horse", "Head")
# what each latent-transformation view of the Causal-3DIdent paper redraws; naming several joins them
VIEWS: Final = {"positions": (*NAMES[0:3], NAMES[6]), "rotations": NAMES[3:6], "hues": NAMES[7:10]}
POSITIONS: Final = slice(0, 3)
ANGLES: Final = slice(3, 7)
HUES: Final = slice(7, 10)


# What stands for a name where there is no room for it, in captions and above narrow columns.
_SHORT: Final = dict(zip(NAMES[3:], ("φ", "θ", "ψ", "spot", "h.obj", "h.spot", "h.gnd"), strict=True))


def short_name(name: str) -> str:
    """Return the name of a latent as pictures shorten it; one that has no short form stays whole."""
    return _SHORT.get(name, name.replace("sphere_", "s"))


def single_names(name: str) -> tuple[str, ...]:
    """Return the latents that a name stands for: a group's members, or the latent itself."""
    if name in GROUPS:
        return GROUPS[name]
    if name in NAMES:
        return (name,)
    raise unknown("latent", name, [*NAMES, *GROUPS])


def assignments(
    texts: Iterable[str], example: str = "rotation=0, class=Hare, x~normal(0.2,0.3)", *, own: bool = False
) -> dict[str, float | str]:
    """Return what NAME=VALUE options say: a raw value for a latent or a group of them, a name for the class.

    NAME~DISTRIBUTION, such as x ~ normal(0.2, 0.3), is kept as its text. `example` is what a mistake is answered with.
    Of a user's `own` scene, whose names are not known here, values stay texts: "1" may be a name.
    """
    values: dict[str, float | str] = {}
    for text in texts:
        drawn = "~" in text and not own
        name, sign, value = (part.strip() for part in text.partition("~" if drawn else "="))
        if not sign or not value:
            raise UserError(f"{text!r} is not of the form NAME=VALUE, such as {example}.")
        if drawn and name == "class":
            raise UserError(
                f"The class is a name and is not drawn anew, as in {text!r}; give it one, as in class=Hare."
            )
        if name != "class" and not own:
            single_names(name)
        if name in values:
            raise UserError(f"{name} is given two values.")
        try:
            values[name] = value if drawn or own or name == "class" else float(value)
        except ValueError:
            raise UserError(f"{name} takes a number, not {value!r}.") from None
    return values
