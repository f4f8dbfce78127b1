"""Losses of autoencoders with normal posteriors q(z|x) = N(μ, diag σ²): β-VAE, SlowVAE, Ada-GVAE.

A posterior is a pair (means, log variances), each (N, d). The losses take reconstruction errors, not images, so that
any decoder serves. As everywhere, they return one value per image or pair, to be averaged.
"""

from math import log, pi, sqrt

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from ident3d.errors import UserError
from ident3d.training.loop.dtype import wide
from ident3d.training.losses.inputs import Pair, check_shape


def reconstruction_error(logits: Tensor, images: Tensor) -> Tensor:
    """Return Σ_pixels -x log s - (1-x) log(1-s), s = sigmoid(logit): the binary cross-entropy of an image.

    Args:
        logits: What a decoder gives (N, C, H, W).
        images: The images x (N, C, H, W) in [0, 1].

    Returns:
        One value per image (N,).

    Example:
        >>> import torch
        >>> from ident3d.losses import reconstruction_error
        >>> reconstruction_error(torch.zeros(2, 1, 4, 4), torch.ones(2, 1, 4, 4))
        tensor([11.0904, 11.0904])
    """
    check_shape("logits", logits, "N", "C", "H", "W")
    check_shape("images", images, *logits.shape)
    return binary_cross_entropy_with_logits(wide(logits), wide(images), reduction="none").flatten(1).sum(1)


def normal_entropy(log_variances: Tensor) -> Tensor:
    """Return H = Σ_j ½ (log σ_j² + log 2πe), the entropy of N(μ, diag σ²).

    Args:
        log_variances: log σ² (N, d).

    Returns:
        One value per image (N,).

    Example:
        >>> import torch
        >>> from ident3d.losses import normal_entropy
        >>> normal_entropy(torch.zeros(1, 2))
        tensor([2.8379])
    """
    check_shape("log variances", log_variances, "N", "d")
    return (0.5 * (wide(log_variances) + log(2 * pi) + 1)).sum(1)


def cross_entropy_to_normal(means: Tensor, log_variances: Tensor) -> Tensor:
    """Return Σ_j ½ (μ_j² + σ_j² + log 2π), the cross-entropy of N(μ, diag σ²) to N(0, I).

    Less the `normal_entropy` it is the Kullback-Leibler divergence.

    Args:
        means: μ (N, d).
        log_variances: log σ² (N, d).

    Returns:
        One value per image (N,).

    Example:
        >>> import torch
        >>> from ident3d.losses import cross_entropy_to_normal, normal_entropy
        >>> means, log_variances = torch.tensor([[0.0, 3.0]]), torch.zeros(1, 2)
        >>> cross_entropy_to_normal(means, log_variances) - normal_entropy(log_variances)
        tensor([4.5000])
    """
    means, log_variances = posterior_of((means, log_variances))
    return (0.5 * (means.square() + log_variances.exp() + log(2 * pi))).sum(1)


def cross_entropy_to_laplace(means: Tensor, log_variances: Tensor, rate: float = 6.0) -> Tensor:
    """Return Σ_j -log(λ/2) + λ (σ_j √(2/π) exp(-m_j²/2σ_j²) - m_j (1 - 2Φ(m_j/σ_j))), Φ the normal's cdf.

    It is the cross-entropy of N(m, diag σ²) to the product of Laplace distributions of rate λ around 0.

    Args:
        means: m (N, d), in SlowVAE the difference of both means of a pair.
        log_variances: log σ² (N, d).
        rate: λ above 0.

    Returns:
        One value per row (N,).

    Example:
        >>> import torch
        >>> from ident3d.losses import cross_entropy_to_laplace
        >>> cross_entropy_to_laplace(torch.tensor([[0.0], [3.0]]), torch.zeros(2, 1), rate=2.0)
        tensor([1.5958, 6.0015])
    """
    means, log_variances = posterior_of((means, log_variances))
    if not rate > 0:
        raise UserError(f"The rate of a Laplace distribution is above 0, not {rate:g}.")
    sigma = (0.5 * log_variances).exp()
    scaled = means / sigma
    # 1 - 2Φ(x) = -erf(x/√2)
    distance = sigma * sqrt(2 / pi) * (-0.5 * scaled.square()).exp() + means * torch.erf(scaled / sqrt(2))
    return (rate * distance - log(rate / 2)).sum(1)


def beta_vae(posterior: Pair, errors: Tensor, *, beta: float = 8.0) -> Tensor:
    """Return 2 rec + β KL(q ‖ N(0, I)), as the baseline of SlowVAE's paper has it.

    The factor 2 makes its β = 8 the 4 of others, who write rec + β KL.

    Args:
        posterior: (μ, log σ²), each (N, d).
        errors: Reconstruction errors rec (N,), such as `reconstruction_error` gives.
        beta: The weight β.

    Returns:
        One value per image (N,).

    Reference: Higgins et al., "β-VAE", ICLR 2017; Klindt et al., "Towards Nonlinear Disentanglement in Natural Data
    with Temporal Sparse Coding", ICLR 2021.

    Example:
        >>> import torch
        >>> from ident3d.losses import beta_vae
        >>> beta_vae((torch.ones(1, 2), torch.zeros(1, 2)), errors=torch.tensor([5.0]))
        tensor([18.])
    """
    means, log_variances = posterior_of(posterior)
    check_shape("errors", errors, len(means))
    return 2 * errors + beta * divergence(means, log_variances)


def slow_vae(
    first: Pair, second: Pair, errors: Pair, *, beta: float = 1.0, gamma: float = 10.0, rate: float = 6.0
) -> Tensor:
    """Return 2 rec + β (CE_N - H) + γ (CE_L - H) of a pair, with rec, CE_N and H the means over its two images.

    CE_N is `cross_entropy_to_normal`, H is `normal_entropy`, and CE_L is `cross_entropy_to_laplace` of both directions,
    N(μ₀ - μ₁, σ₀²) and N(μ₁ - μ₀, σ₁²). As published: CE_L sums the directions while H is subtracted once, as the mean;
    rec is weighted twice; gradients go through the means of both images.

    Args:
        first: (μ₀, log σ₀²), each (B, d).
        second: (μ₁, log σ₁²), each (B, d).
        errors: Reconstruction errors of the first and of the second images, each (B,).
        beta: The weight β of the prior N(0, I).
        gamma: The weight γ of the transition.
        rate: The rate λ of the transition's Laplace distribution.

    Returns:
        One value per pair (B,).

    Reference: Klindt et al., "Towards Nonlinear Disentanglement in Natural Data with Temporal Sparse Coding", ICLR
    2021.

    Example:
        >>> import torch
        >>> from ident3d.losses import slow_vae
        >>> posterior, errors = (torch.zeros(1, 2), torch.zeros(1, 2)), torch.tensor([5.0])
        >>> slow_vae(posterior, posterior, (errors, errors))
        tensor([129.1690])
    """
    (means, log_variances), (others, other_variances) = pair_of(first, second, errors)
    entropy = (normal_entropy(log_variances) + normal_entropy(other_variances)) / 2
    prior = (cross_entropy_to_normal(means, log_variances) + cross_entropy_to_normal(others, other_variances)) / 2
    there = cross_entropy_to_laplace(means - others, log_variances, rate)
    back = cross_entropy_to_laplace(others - means, other_variances, rate)
    return errors[0] + errors[1] + beta * (prior - entropy) + gamma * (there + back - entropy)


def share_latents(first: Pair, second: Pair) -> tuple[Pair, Pair]:
    """Return both posteriors of a pair, averaged in the latents that its images seem to share, as in Ada-GVAE.

    k_j = σ₁²/σ₂² + (μ₂ - μ₁)²/σ₂² - 1 + log σ₂² - log σ₁² is twice the divergence of latent j. Latents with k_j below
    the midpoint of min k and max k get the mean ½(μ₁ + μ₂) and the variance ½(σ₁² + σ₂²) in both; the others stay.

    Args:
        first: (μ₁, log σ₁²), each (B, d).
        second: (μ₂, log σ₂²), each (B, d).

    Returns:
        Both posteriors.

    Reference: Locatello et al., "Weakly-Supervised Disentanglement Without Compromises", ICML 2020.

    Example:
        >>> import torch
        >>> from ident3d.losses import share_latents
        >>> first = (torch.tensor([[0.0, 0.0]]), torch.zeros(1, 2))
        >>> second = (torch.tensor([[1.0, 9.0]]), torch.zeros(1, 2))
        >>> (means, _), _ = share_latents(first, second)
        >>> means
        tensor([[0.5000, 0.0000]])
    """
    (means, log_variances), (others, other_variances) = posterior_of(first), posterior_of(second)
    check_shape("the second means", others, *means.shape)
    apart = (means - others).square() / other_variances.exp()
    k = (log_variances - other_variances).exp() + apart - 1 + other_variances - log_variances
    shared = k < (k.amin(1, keepdim=True) + k.amax(1, keepdim=True)) / 2
    mean = (means + others) / 2
    variance = torch.logaddexp(log_variances, other_variances) - log(2)
    return (
        (torch.where(shared, mean, means), torch.where(shared, variance, log_variances)),
        (torch.where(shared, mean, others), torch.where(shared, variance, other_variances)),
    )


def ada_gvae(first: Pair, second: Pair, errors: Pair, *, beta: float = 1.0) -> Tensor:
    """Return ½ (rec₁ + rec₂) + β ½ (KL₁ + KL₂) of a pair, KL_t = KL(q_t ‖ N(0, I)).

    The posteriors are those that `share_latents` returns, and the errors those of images decoded from them.

    Args:
        first: (μ₁, log σ₁²), each (B, d).
        second: (μ₂, log σ₂²), each (B, d).
        errors: Reconstruction errors of the first and of the second images, each (B,).
        beta: The weight β.

    Returns:
        One value per pair (B,).

    Reference: Locatello et al., "Weakly-Supervised Disentanglement Without Compromises", ICML 2020.

    Example:
        >>> import torch
        >>> from ident3d.losses import ada_gvae
        >>> posterior, errors = (torch.ones(1, 2), torch.zeros(1, 2)), torch.tensor([5.0])
        >>> ada_gvae(posterior, posterior, (errors, errors), beta=4.0)
        tensor([9.])
    """
    both = pair_of(first, second, errors)
    return (errors[0] + errors[1]) / 2 + beta * (divergence(*both[0]) + divergence(*both[1])) / 2


def divergence(means: Tensor, log_variances: Tensor) -> Tensor:
    """Return KL(N(μ, diag σ²) ‖ N(0, I)) = CE_N - H (N,)."""
    return cross_entropy_to_normal(means, log_variances) - normal_entropy(log_variances)


def posterior_of(given: Pair) -> Pair:
    """Return means and log variances, wide. Raise UserError unless both are (N, d)."""
    means, log_variances = given
    check_shape("means", means, "N", "d")
    check_shape("log variances", log_variances, *means.shape)
    return wide(means), wide(log_variances)


def pair_of(first: Pair, second: Pair, errors: Pair) -> tuple[Pair, Pair]:
    """Return both posteriors of pairs. Raise UserError unless they are of one shape and have an error each."""
    both = posterior_of(first), posterior_of(second)
    check_shape("the second means", both[1][0], *both[0][0].shape)
    for error in errors:
        check_shape("errors", error, len(both[0][0]))
    return both
