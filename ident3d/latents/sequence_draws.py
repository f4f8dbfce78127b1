"""Drawing the latents of sequences, views and environments, for any range of images."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError
from ident3d.latents.distributions.conditionals import Conditional
from ident3d.latents.draws import draw, words_each
from ident3d.latents.environments import Environment, Setting, draw_setting, settings_in
from ident3d.latents.exact.streams import words
from ident3d.latents.next_frame import next_frame
from ident3d.latents.sequences import Sequences
from ident3d.latents.steps import Again, Words
from ident3d.latents.view_draws import later_view
from ident3d.latents.views import Views
from ident3d.latents.worlds import AnyWorld

# Words that are held in memory at a time.
MOST_WORDS: Final = 2**22


class Frames(NamedTuple):
    """Raw latents (n, n_raw) float32, classes (n,) int8 or None, and further columns, such as sequence and frame."""

    raw: NDArray[np.float32]
    classes: NDArray[np.int8] | None
    columns: dict[str, NDArray[np.int64]]


def draw_images(
    world: AnyWorld,
    sequences: Sequences | None = None,
    environments: Sequence[Environment] = (),
    views: Views | None = None,
    *,
    seed: int,
    split: str,
    start: int,
    count: int,
) -> Frames:
    """Return the latents of images start … start+count-1: single ones, frames or views, in environments or none."""
    if sequences is None and views is None and not environments:
        return Frames(*draw(world, seed=seed, split=split, start=start, count=count), {})
    # Refuses seeds, splits and ranges that do not exist.
    words(seed, split, start, 0)
    if sequences and views:
        raise UserError("Images are frames of sequences, or views of one z: take one of the two.")
    length, each = images_together(sequences, views), words_each(world)
    settings = settings_in(world, environments)
    if sequences:
        sequences.check(world)
    if views:
        views.blocks(world)
        for setting in settings:
            views.check(setting.world)
    # What an environment sets has no transition in it.
    in_each = [
        sequences.without(set(setting.world.held) - set(world.held)) if sequences else None for setting in settings
    ]
    conditionals = [
        own.conditional(setting.world) if own else None for own, setting in zip(in_each, settings, strict=True)
    ]
    first, last = start // length, -(-(start + count) // length)
    together = max(1, MOST_WORDS // (length * each))
    raw, hit = [np.empty((0, world.n_raw), np.float32)], [np.empty(0, np.int64)]
    classes = [np.empty(0, np.int8)]
    for begin in range(first, last, together):
        number = np.arange(begin, min(begin + together, last))
        # Frame f of sequence s is image s · length + f, and has its words.
        word = words(seed, split, begin * length, len(number) * length, each).reshape(len(number), length, each)
        frames = np.empty((len(number), length, world.n_raw), np.float32)
        targets, kinds = np.zeros((len(number), length), np.int64), np.zeros(len(number), np.int8)
        for e, (setting, own_sequences, conditional) in enumerate(zip(settings, in_each, conditionals, strict=True)):
            rows = np.flatnonzero(number % len(settings) == e)
            # Classes go in turn within each environment, and stay in a sequence.
            frames[rows, 0], drawn = draw_setting(setting, word[rows, 0], number[rows] // len(settings))
            kinds[rows] = 0 if drawn is None else drawn
            if own_sequences and conditional:
                image = number[rows] * length
                frames[rows], targets[rows] = later_frames(
                    setting, own_sequences, conditional, frames[rows], word[rows], seed, split, image
                )
            if views:
                own = number[rows] // len(settings)
                for v in range(1, length):
                    again = further_words(seed, split, number[rows] * length + v, each)
                    frames[rows, v] = later_view(
                        setting, views, frames[rows, 0], kinds[rows], word[rows, v], own, again
                    )
        raw.append(frames.reshape(-1, world.n_raw))
        hit.append(targets.ravel())
        classes.append(np.repeat(kinds, length))
    wanted = slice(start - first * length, start - first * length + count)
    image = np.arange(start, start + count, dtype=np.int64)
    columns = columns_of(image, sequences, len(environments), views)
    if sequences and sequences.rules and sequences.rules.has_targets:
        columns["targets"] = np.concatenate(hit)[wanted]
    has_classes = bool(world.drawn_classes)
    return Frames(np.concatenate(raw)[wanted], np.concatenate(classes)[wanted] if has_classes else None, columns)


def images_together(sequences: Sequences | None, views: Views | None) -> int:
    """Return how many images are drawn together: the frames of a sequence, or the views of an instance."""
    return sequences.length if sequences else views.number if views else 1


def columns_of(
    image: NDArray[np.int64], sequences: Sequences | None, environments: int, views: Views | None = None
) -> dict[str, NDArray[np.int64]]:
    """Return sequence, frame, instance, view and environment of images by number, as far as they have them."""
    length = images_together(sequences, views)
    columns = {"sequence": image // length, "frame": image % length} if sequences else {}
    columns |= {"instance": image // length, "view": image % length} if views else {}
    return columns | ({"environment": image // length % environments} if environments else {})


def later_frames(
    setting: Setting,
    sequences: Sequences,
    conditional: Conditional,
    frames: NDArray[np.float32],
    word: Words,
    seed: int,
    split: str,
    image: NDArray[np.int64],
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return sequences (n, length, d) whose first frames are given, and what was intervened on (n, length).

    `image` is the number of each sequence's first image.
    """
    targets = np.zeros(frames.shape[:2], np.int64)
    for f in range(1, sequences.length):
        again = further_words(seed, split, image + f, word.shape[2])
        frames[:, f], targets[:, f] = next_frame(
            setting.world, sequences, conditional, frames[:, f - 1], word[:, f], again
        )
    return frames, targets


def further_words(seed: int, split: str, images: NDArray[np.int64], each: int) -> Again:
    """Return a function that gives the words of a further attempt for some of these images."""

    def again(rows: NDArray[np.int64], attempt: int) -> Words:
        return np.concatenate([words(seed, split, int(i), 1, each, attempt) for i in images[rows]])

    return again
