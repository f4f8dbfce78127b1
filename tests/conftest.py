"""What every test shares: tests that render are left out, with one reason, where bpy cannot be imported."""

from importlib.util import find_spec

import pytest

from ident3d.health import look_at_bpy

CAN_RENDER = all(find_spec(package) for package in ("bpy", "distributed"))
collect_ignore = [] if CAN_RENDER else ["render", "blender_scenes"]


def pytest_report_header() -> list[str]:
    return [] if CAN_RENDER else ["bpy or distributed is not installed: the tests that render are left out"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    wanted = [item for item in items if item.get_closest_marker("bpy")]
    if not wanted:
        return
    finding = look_at_bpy()
    if finding.status != "ok":
        for item in wanted:
            item.add_marker(pytest.mark.skip(reason=finding.means))
