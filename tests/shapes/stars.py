"""Small meshes of our own: the real ones are large, and other people's."""

import numpy as np


def star(rays: int) -> tuple[np.ndarray, np.ndarray]:
    """A closed surface that bulges `rays` times round its axis and looks along +x: (V, 3) vertices, (F, 3) faces."""
    heights, turns = 12, 24
    v, u = np.meshgrid(np.linspace(0, np.pi, heights + 1)[1:-1], np.arange(turns) * 2 * np.pi / turns, indexing="ij")
    radius = np.sin(v) * (1 + 0.3 * np.cos(rays * u))
    rings = np.stack([1.5 * radius * np.cos(u), radius * np.sin(u), np.cos(v)], axis=-1).reshape(-1, 3)
    vertices = np.concatenate([rings, [[0, 0, 1], [0, 0, -1]]])
    grid = np.arange(len(rings)).reshape(heights - 1, turns)
    right = np.roll(grid, -1, axis=1)
    a, b, c, d = grid[:-1].ravel(), grid[1:].ravel(), right[1:].ravel(), right[:-1].ravel()
    caps = [[len(rings), *pair] for pair in zip(grid[0], right[0], strict=True)]
    caps += [[len(rings) + 1, *pair] for pair in zip(right[-1], grid[-1], strict=True)]
    return vertices, np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1), caps])


def obj_bytes(vertices: np.ndarray, faces: np.ndarray) -> bytes:
    lines = [f"v {x!r} {y!r} {z!r}" for x, y, z in vertices.tolist()] + [f"f {a} {b} {c}" for a, b, c in faces + 1]
    return "\n".join(lines).encode()
