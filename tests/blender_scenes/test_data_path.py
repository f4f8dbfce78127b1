"""Data paths are read by a grammar of our own; whatever else a text is, it is refused and never evaluated."""

import pytest

from ident3d.blender_scenes.data_path import read_path
from ident3d.blender_scenes.factors_file import read_factors
from ident3d.errors import UserError


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ('objects["Cube"].location[0]', ["location", 0]),
        ("lights['Key'].energy", ["energy"]),
        ('objects["Cube"]["size"]', ["size"]),
        ('materials["P"].node_tree.nodes["A [1]"].inputs[2].default_value', ["node_tree", "nodes", "A [1]", "inputs", 2,
                                                                           "default_value"]),
        (r'objects["Cube"]["say \"a\\b\""]', [r'say "a\b"']),
        ("objects['C\"']['é']", ["é"]),
    ],
)  # fmt: skip
def test_paths_are_read(text: str, steps: list[str | int]) -> None:
    assert [step.name or step.item for step in read_path(text).steps] == steps


@pytest.mark.parametrize(
    "text",
    [
        "",
        "objects",
        'objects["Cube"',
        "objects[0].location",
        'objects["Cube"].location[-1]',
        'objects["Cube"].location[0] ',
        'objects["Cube"].location[0]; import os',
        'objects["Cube"].__class__',
        'objects["Cube"].location.__init__',
        'objects["Cube"].copy()',
        '__import__("os").system("true")',
        "objects[open('x')]",
        'objects[f"{open(1)}"].location[0]',
        'bpy.data.objects["Cube"].location[0]',
        'objects["Cube"].location[0b1]',
        'objects["Cube"].location[٣]',
        'objects["Cu\\x62e"].location[0]',
        'texts["evil.py"].use_module',
        'scenes["Scene"].frame_current',
        'objects["' + "a" * 600 + '"].location[0]',
        'objects["a"]' + '["a"]' * 200,
    ],
)
def test_what_is_no_path_is_one_sentence(text: str) -> None:
    with pytest.raises(UserError) as caught:
        read_path(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


FACTOR = """[factors.x]
range = [-1, 1]
path = 'objects["Cube"].location[0]'
"""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no factor"),
        ("factors = 3", "has no factor"),
        ("[factors.x]\nrange = [", "no TOML"),
        ("x = " + "[" * 50_000, "no TOML"),
        (FACTOR.replace("range", "rnage"), "Did you mean 'range'"),
        ("camra = 'A'\n" + FACTOR, "Did you mean 'camera'"),
        ("camera = 3\n" + FACTOR, "camera is a text"),
        ("focus = 3\n" + FACTOR, "[focus] is a table"),
        ("[focus]\nobjects = 'Cube'\n" + FACTOR, "focus.objects is a list"),
        ("[focus]\nground = true\n" + FACTOR, "focus.ground takes numbers"),
        ("meshes = ['a']\n" + FACTOR, "[meshes] is a table"),
        ("[factors]\nx = 3", "[factors.x] is a table"),
        (FACTOR.replace("[-1, 1]", "'wide'"), "factors.x.range"),
        (FACTOR.replace("[-1, 1]", "[-1]"), "factors.x.range"),
        (FACTOR.replace("[-1, 1]", "[-1, true]"), "factors.x.range"),
        (FACTOR.replace("[-1, 1]", "[1, -1]"), "goes from a lower to a higher"),
        (FACTOR.replace("[-1, 1]", "[0, inf]"), "finite numbers, not inf"),
        (FACTOR.replace("[-1, 1]", "[0, 1" + "0" * 400 + "]"), "too large"),
        (FACTOR + "kind = 'ring'\n", "ring"),
        (FACTOR + "values = ['a', 'b']\n", "values that are names"),
        (FACTOR + "objects = ['a', 'b']\n", "no range"),
        ("[factors.x]\nobjects = ['a']", "two names or more"),
        ("[factors.x]\nobjects = ['a', 'b']\nvalues = ['c']", "as many values"),
        ("[factors.x]\nobjects = ['a', 'a']", "a text twice"),
        ("[factors.x]\nobjects = ['a', 'b']\nmeshes = ['c', 'd']", "objects and meshes"),
        ("[factors.x]\nmeshes = ['a', 'b']", "has no path"),
        ("[factors.x]\nrange = [0, 1]", "has no path"),
        (FACTOR.replace("location[0]", "__class__"), "no data path"),
        (FACTOR.replace("location[0]", "hue").replace("range", "kind = 'periodic'\nrange"), "only the hue is periodic"),
    ],
)  # fmt: skip
def test_mistakes_in_the_factors_file_are_one_sentence(text: str, says: str) -> None:
    with pytest.raises(UserError) as caught:
        read_factors(text)
    assert says in str(caught.value).splitlines()[0]


def test_numbers_of_a_factors_file_are_finite() -> None:
    table = "[factors.x]\nrange = [-1, 1]\npath = 'objects[\"C\"].location[0]'\n[focus]\nground = "
    assert read_factors(table + "-0.5").ground == -0.5
    for number in ("nan", "inf"):
        with pytest.raises(UserError, match=r"focus\.ground takes finite"):
            read_factors(table + number)
