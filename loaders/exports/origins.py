"""Where data come from and how to cite them, for the cards of imports and exports."""

from typing import Final

from ident3d.loaders.cards.facts import NOT_SAID
from ident3d.loaders.format.description import Description

# The published data, by the scene that they show.
ORIGINS: Final = {
    "3dident": {
        "name": "3DIdent",
        "source": "https://zenodo.org/record/4502485",
        "citation": "Zimmermann, Sharma, Schneider, Bethge, Brendel: Contrastive Learning Inverts the Data Generating "
        "Process, ICML 2021",
    },
    "causal3dident": {
        "name": "Causal3DIdent",
        "source": "https://zenodo.org/record/4784282",
        "citation": "von Kügelgen, Sharma, Gresele, Brendel, Schölkopf, Besserve, Locatello: Self-Supervised Learning "
        "with Data Augmentations Provably Isolates Content from Style, NeurIPS 2021",
    },
}


def origin_of(name: str, description: Description, licence: str | None, citation: str | None) -> dict[str, str]:
    """Return name, source, licence and citation of a folder's images, as far as they are known.

    What was given comes first. Images of our scenes are rendered, so that only the paper of the scene is cited.
    """
    known = {field: str(text) for field, text in dict(description.settings.get("origin", {})).items()}
    scene = ORIGINS.get(str(description.scene).removesuffix("-periodic"), {})
    found = {"name": name, "source": "rendered with ident3d" if description.scene else NOT_SAID}
    found |= {"licence": NOT_SAID, "citation": scene.get("citation", NOT_SAID)}
    found |= {field: known[field] for field in found if field in known}
    given = {"licence": licence, "citation": citation}
    return found | {field: text for field, text in given.items() if text is not None}
