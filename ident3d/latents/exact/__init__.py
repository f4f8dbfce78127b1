"""What must agree to the last bit on every machine: random words, arithmetic, hues, the causal graph and its draws.

Imported by everything that draws latents. It imports the ground alone and uses no maths library.
Start at `streams` (seeds) and `causal` (the graph).
"""
