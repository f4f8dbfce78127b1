"""What a dataset is: latent spaces, marginals, conditionals, the causal graph, raw to scene mapping."""
