"""The scenes that come with ident3d: every factor shows, nothing leaves the image, and their file is a user's own."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ident3d import Recipe, check_scene, load_scene
from ident3d.blender_scenes.sight import sights
from ident3d.blender_scenes.studio import Studio
from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.farm.scenes import SHIPPED_FILES, scene_of

pytestmark = pytest.mark.bpy
# In Camera, what stands in front of another thing is a matter of where one looks from.
MAY_HIDE = {"Objects": False, "Camera": True}


@pytest.mark.parametrize("name", SHIPPED_FILES)
def test_every_factor_shows_and_nothing_leaves_the_image(name: str, tmp_path: Path) -> None:
    world = load_scene(f"examples:{name}")
    recipe = Recipe(world, size=32, quality="draft")
    found = check_scene(recipe, show_progress=False)
    assert [effect.factor for effect in found.effects] == list(world.names)
    assert not [note for effect in found.effects for note in effect.notes]
    assert min(effect.pixels for effect in found.effects) > 0.02
    # The extremes of all factors together, too.
    rows = np.random.default_rng(0).choice([-1, 1], (60, world.n_raw)).astype(np.float32)
    with Studio(scene_of(recipe.settings({})), size=32, quality="draft") as studio:
        for row in world.to_scene(rows):
            studio.pose(row)
            for sight in sights(studio.scene.focus()):
                assert sight.in_frame == 1, f"{sight.name} at {row}"
                assert MAY_HIDE[name] or not sight.hidden, f"{sight.name} at {row}"
    # What is printed is what is rendered, under another name.
    printed = CliRunner().invoke(main, ["scene", "print", f"examples:{name}"])
    (tmp_path / "mine.py").write_text(printed.stdout)
    assert load_scene(tmp_path / f"mine.py:{name}") == world


def test_an_example_that_is_not_there_is_one_sentence() -> None:
    for words in (["scene", "print", "examples:Object"], ["scene", "check", "--scene", "examples:Object"]):
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 2
        assert "Did you mean 'Objects'" in done.stderr
        assert done.stderr.count("\n") == 1
    with pytest.raises(UserError, match="--factors goes with"):
        load_scene("examples:Objects", factors="desk.toml")
