"""What an autoencoder minimises: posteriors are sampled, decoded and compared with their images."""

import torch
from torch import Tensor, nn

from ident3d.training.losses.variational import (
    ada_gvae,
    beta_vae,
    divergence,
    reconstruction_error,
    share_latents,
    slow_vae,
)


class Autoencoder(nn.Module):
    """Raw posteriors of all anchors and then all positives (2B, 2d), and their images → the mean loss.

    It learns the decoder. `terms` holds what the last loss was made of, for the log.
    """

    def __init__(
        self, loss: str, decoder: nn.Module, *, beta: float, gamma: float | None = None, rate: float | None = None
    ) -> None:
        super().__init__()
        self.name, self.decoder, self.beta = loss, decoder, beta
        # SlowVAE alone has these two.
        self.gamma, self.rate = gamma or 0.0, rate or 1.0
        self.terms: dict[str, Tensor] = {}

    def forward(self, raw: Tensor, images: Tensor) -> Tensor:
        means, log_variances = raw.chunk(2, dim=1)
        first, second = zip(means.chunk(2), log_variances.chunk(2), strict=True)
        if self.name == "adagvae":
            first, second = share_latents(first, second)
            means, log_variances = (torch.cat(both) for both in zip(first, second, strict=True))
        noise = torch.randn_like(means)
        errors = reconstruction_error(self.decoder(means + (0.5 * log_variances).exp() * noise), images)
        self.terms = {"reconstruction": errors.detach(), "kl": divergence(means, log_variances).detach()}
        if self.name == "betavae":
            return beta_vae((means, log_variances), errors, beta=self.beta).mean()
        before, after = errors.chunk(2)
        if self.name == "adagvae":
            self.terms["shared"] = (first[0] == second[0]).sum(1).detach()
            return ada_gvae(first, second, (before, after), beta=self.beta).mean()
        return slow_vae(first, second, (before, after), beta=self.beta, gamma=self.gamma, rate=self.rate).mean()

    def figures(self) -> dict[str, float]:
        """Return the means of the last loss's reconstruction errors, of KL(q ‖ N(0, I)), and of shared latents."""
        return {name: round(float(value.double().mean()), 5) for name, value in self.terms.items()}

    def diagonals(self) -> list[Tensor]:
        """Return no Λ̂: these losses have none."""
        return []
