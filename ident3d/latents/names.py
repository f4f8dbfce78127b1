"""The latents by name: ten scene values in the published order, and the groups that the papers speak of."""

from typing import Final

from ident3d.errors import unknown

NAMES: Final = (
    *("x", "y", "z", "rotation_phi", "rotation_theta", "rotation_psi"),
    *("spotlight_position", "object_hue", "spotlight_hue", "ground_hue"),
)
GROUPS: Final = {"position": NAMES[0:3], "rotation": NAMES[3:6], "hue": NAMES[7:10]}
POSITIONS: Final = slice(0, 3)
ANGLES: Final = slice(3, 7)
HUES: Final = slice(7, 10)


def single_names(name: str) -> tuple[str, ...]:
    """The latents that a name stands for: a group's members, or the latent itself."""
    if name in GROUPS:
        return GROUPS[name]
    if name in NAMES:
        return (name,)
    raise unknown("latent", name, [*NAMES, *GROUPS])
