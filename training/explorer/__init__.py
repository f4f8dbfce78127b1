"""One page to look around in: which images it shows, their latents and codes, and the page itself.

Commands, and the front door, may import it. Start reading at `explore`.
"""
