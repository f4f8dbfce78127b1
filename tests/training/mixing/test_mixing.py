"""The mixing: invertible, well-conditioned, seeded; a researcher's own; whitening."""

import numpy as np
import pytest
import torch

from ident3d.errors import UserError
from ident3d.training.mixing.generator import SLOPE, Whitening, best_condition, mixing_named, new_mixing


def latents(count: int = 200, dim: int = 10) -> torch.Tensor:
    return torch.rand(count, dim, generator=torch.Generator().manual_seed(0))


def test_the_papers_construction() -> None:
    g = new_mixing(10, seed=1)
    w = g.weights.double().numpy()
    assert w.shape == (3, 10, 10)
    np.testing.assert_allclose(np.linalg.norm(w, axis=1), 1, rtol=1e-6)
    assert np.linalg.cond(w).max() <= best_condition(10) * (1 + 1e-4)
    assert 2 < best_condition(10) < 5
    z = latents().double().numpy()
    x = z
    for k, weight in enumerate(w):
        x = x @ weight
        if k < 2:
            x = np.where(x < 0, SLOPE * x, x)
    np.testing.assert_allclose(g(latents()).numpy(), x, atol=1e-5)


@pytest.mark.parametrize("layers", [1, 3, 6])
def test_the_inverse(layers: int) -> None:
    g, z = new_mixing(5, layers=layers, seed=2), 4 * latents(dim=5) - 2
    torch.testing.assert_close(g.inverse(g(z)), z, atol=1e-4, rtol=1e-4)


def test_a_seed_gives_a_mixing() -> None:
    assert torch.equal(new_mixing(4, seed=3).weights, new_mixing(4, seed=3).weights)
    assert not torch.equal(new_mixing(4, seed=3).weights, new_mixing(4, seed=4).weights)
    assert not list(new_mixing(4).parameters())


def test_names() -> None:
    assert torch.equal(mixing_named("papers", 4, seed=1)(latents(dim=4)), new_mixing(4, seed=1)(latents(dim=4)))
    assert len(mixing_named("papers:5", 4).weights) == 5
    own = mixing_named("own_mixing:Twice", 4)
    assert own(latents(dim=4)).shape == (200, 8)
    assert not any(parameter.requires_grad for parameter in own.parameters())


@pytest.mark.parametrize(
    ("name", "dim", "sentence"),
    [
        ("paper", 4, r"take papers, papers:5 for five layers, decoder:RUN, or package\.module:name"),
        ("papers:0", 4, "at least 1 layer and at most 32, not 0"),
        ("papers:100000", 4, "at most 32, not 100000"),
        ("papers", 1, "at least 2"),
        ("papers", 129, "128 latents, not 129"),
        ("own_mixing:nothing", 4, "made a NoneType, not an nn.Module"),
        ("own_mixing:missing", 4, "has no 'missing'"),
    ],
)
def test_bad_names(name: str, dim: int, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        mixing_named(name, dim)


def test_whitening() -> None:
    x = new_mixing(6)(latents(5000, 6))
    white = Whitening(x, 6)(x)
    torch.testing.assert_close(white.T.cov(), torch.eye(6), atol=1e-3, rtol=0)
    assert white.mean(0).abs().max() < 1e-3
    assert torch.equal(Whitening(None, 6)(x), x)
