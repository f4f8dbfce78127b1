"""What every test shares: tests that render are left out, with one reason, where bpy cannot be imported."""

import pytest

from ident3d.health import look_at_bpy


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    wanted = [item for item in items if item.get_closest_marker("bpy")]
    if not wanted:
        return
    finding = look_at_bpy()
    if finding.status != "ok":
        for item in wanted:
            item.add_marker(pytest.mark.skip(reason=finding.means))
