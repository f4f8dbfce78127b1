"""Processes of the tests that end with them, in whatever way the tests end."""

# Goes before the code of such a process: its standard input, a pipe from the tests, ends when they do.
FOLLOW = """
import os, sys, threading
def follow():
    os.read(0, 1)
    os._exit(0)
threading.Thread(target=follow, daemon=True).start()
"""
