"""How far a marginal is from uniform: the probability mass ½ ∫ |p - uniform| that would have to be moved (Figure 2)."""

import numpy as np
from scipy import special

from ident3d.errors import UserError
from ident3d.latents.distributions.by_name import Marginal, marginal, uniforms
from ident3d.latents.distributions.conditionals import Coordinatewise, Uniform, VonMisesFisher
from ident3d.latents.distributions.spaces import Box
from ident3d.latents.exact.arithmetic import Float64


def mass_to_move(p: Marginal, draws: int = 200_000) -> float:
    """Return ½ ∫ |p(z) - u(z)| dz = E_u[max(0, 1 - p(z)/u(z))] over uniform draws, with an error below 0.5/√draws."""
    z = marginal("uniform", p.conditional.space).sample(draws, uniforms(np.random.default_rng(0)))
    return float(np.maximum(0, 1 - relative_density(p, z)).mean())


def relative_density(p: Marginal, z: Float64) -> Float64:
    """Return p(z) over the uniform density at every row of z, on the box, and of vmf on the sphere."""
    made = p.conditional
    if isinstance(made, Uniform):
        return np.ones(len(z))
    if isinstance(made, VonMisesFisher):
        cosine: Float64 = z @ np.array(made.space.centre)
        return np.asarray(np.exp(made.kappa * cosine - _log_mean_exp(made.space.dim, made.kappa)))
    if isinstance(made, Coordinatewise) and isinstance(made.space, Box):
        box, scale = made.space, np.array(made.scale)
        # All coordinates are independent around the centre, so the ratio is a product.
        centre = np.array(box.centre)
        within = made.family.mass((box.high - centre) / scale)
        ratio = made.family.density((z - centre) / scale) / (scale * within) * (box.high - box.low)
        return np.asarray(ratio.prod(axis=1))
    raise UserError("The distance to uniform is known for marginals on the box, and for vmf and uniform on the sphere.")


def _log_mean_exp(dim: int, kappa: float) -> float:
    """Return log E exp(κ z₁) for z uniform on the sphere: Γ(ν + 1) (2/κ)^ν I_ν(κ) with ν = dim/2 - 1."""
    if kappa == 0:
        return 0.0
    nu = dim / 2 - 1
    bessel = special.ive(nu, kappa)
    # For a small κ in many dimensions I_ν underflows, and its logarithm would be infinite.
    if bessel == 0:
        raise UserError(f"The concentration {kappa:g} is too small for {dim} dimensions to be told from 0.")
    return float(special.gammaln(nu + 1) + nu * np.log(2 / kappa) + np.log(bessel) + kappa)
