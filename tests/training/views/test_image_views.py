"""Views of pairs and of augmented images: shapes, ranges, normalisation, draws, and what is refused."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from ident3d.errors import UserError
from ident3d.training.views.augmentations import augment, augment_pair, turn
from ident3d.training.views.choice import SINGLE, Augmentation, augmentation, check_colour, single_augmentations
from ident3d.training.views.colours import ColourJitter, jitter
from ident3d.training.views.pixels import Pixels
from ident3d.training.views.views import augmented_views, pair_views

CPU = torch.device("cpu")
PIXELS = Pixels((0.2, 0.4, 0.6), (0.1, 0.2, 0.4))
NOTHING = Augmentation(crop=None, flip=0, jitter=None, grey=0, blur=0)


def pictures(n: int = 6, size: int = 16, seed: int = 0) -> Tensor:
    return torch.randint(256, (n, 3, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("channels", "size"), [(3, None), (3, 8), (1, None), (1, 1)])
def test_normalising_a_line_at_a_time_changes_no_bit(channels: int, size: int | None) -> None:
    """Runs of earlier versions go on: each value is (x - mean) / std in float32, however it is computed."""
    pixels = Pixels(PIXELS.mean[:channels], PIXELS.std[:channels], size)
    stored = pictures()[:, :channels]
    unit = pixels.unit(stored, CPU)
    mean, std = (torch.tensor(values)[:, None, None] for values in (pixels.mean, pixels.std))
    expected = (unit - mean) / std
    assert torch.equal(pixels.normalise(unit), expected)
    assert torch.equal(unit, pixels.unit(stored, CPU))
    assert torch.equal(pixels.prepare(stored, CPU), expected)


def test_pairs_are_normalised_with_the_training_sets_mean_and_std() -> None:
    x, x_tilde, z = pictures(), pictures(seed=1), torch.rand(6, 10)
    images, latents = pair_views(PIXELS, ((z, z + 1), (x, x_tilde)), CPU)
    for view, stored in zip(images, (x, x_tilde), strict=True):
        expected = stored.double() / 255 - torch.tensor(PIXELS.mean).double()[:, None, None]
        expected /= torch.tensor(PIXELS.std).double()[:, None, None]
        torch.testing.assert_close(view.double(), expected, rtol=1e-5, atol=1e-5)
        assert view.dtype == torch.float32
        assert view.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(latents[0], z)
    assert torch.equal(latents[1], z + 1)


def test_hard_negatives_are_third_views() -> None:
    z = torch.rand(6, 10)
    views = pair_views(PIXELS, ((z, z, z), tuple(pictures(seed=seed) for seed in range(3))), CPU)
    assert [len(part) for part in views] == [3, 3]


def test_smaller_sizes_average_over_areas_and_larger_ones_are_refused() -> None:
    x = pictures(size=16)
    small = replace(PIXELS, size=8).unit(x, CPU)
    torch.testing.assert_close(small, x.float().div(255).reshape(6, 3, 8, 2, 8, 2).mean((3, 5)))
    with pytest.raises(UserError, match=r"16.*17"):
        replace(PIXELS, size=17).unit(x, CPU)


@pytest.mark.parametrize("how", [Augmentation(), Augmentation(rotate=True), Augmentation(crop=(0.8, 1.0), jitter=None)])
def test_augmentations_keep_shape_and_range_and_draw_from_their_generator_alone(how: Augmentation) -> None:
    x = PIXELS.unit(pictures(), CPU)
    before, untouched = x.clone(), torch.get_rng_state()
    first, second = augment_pair(x, how, generator())
    assert torch.equal(x, before)
    assert torch.equal(torch.get_rng_state(), untouched)
    for view in (first, second):
        assert view.shape == x.shape
        assert view.min() >= 0
        assert view.max() <= 1
        assert not torch.allclose(view, x)
    assert not torch.allclose(first, second)
    torch.manual_seed(123)
    again = augment_pair(x, how, generator())
    assert torch.equal(first, again[0])
    assert torch.equal(second, again[1])
    assert not torch.allclose(first, augment_pair(x, how, generator(1))[0])


def test_each_step_does_what_its_name_says() -> None:
    x = PIXELS.unit(pictures(), CPU)
    first, second = augment_pair(x, NOTHING, generator())
    assert torch.equal(first, x)
    assert torch.equal(second, x)
    assert torch.equal(augment_pair(x, replace(NOTHING, flip=1), generator())[0], x.flip(3))
    grey, _ = augment_pair(x, replace(NOTHING, grey=1), generator())
    torch.testing.assert_close(grey[:, 0], grey[:, 2])
    blurred, _ = augment_pair(x, replace(NOTHING, blur=1), generator())
    assert (blurred.std((2, 3)) < x.std((2, 3))).all()
    jittered, _ = augment_pair(x, replace(NOTHING, jitter=(0.4, 0, 0, 0), jitter_probability=1), generator())
    shares = jittered / x
    inside = (jittered > 0) & (jittered < 1)
    for image, where in zip(shares, inside, strict=True):  # one factor of brightness for each image
        assert image[where].std() < 1e-4
    assert shares[inside].std() > 0.01
    flat = torch.arange(16.0).expand(4, 3, 16, 16) / 16
    cropped, _ = augment_pair(flat, replace(NOTHING, crop=(0.25, 0.25)), generator())
    spread = cropped[:, 0, 0].amax(1) - cropped[:, 0, 0].amin(1)
    assert (spread < 0.75 * 15 / 16).all()  # a quarter of the area sees a part of the ramp


def test_colours_are_jittered_as_kornia_does() -> None:
    import kornia.augmentation as K

    x = PIXELS.unit(pictures(96), CPU)
    x[0] = 0.5
    x[1, :, 2] = 0
    orders = set()
    for seed in range(8):
        torch.manual_seed(seed)
        theirs = K.ColorJitter(0.8, 0.8, 0.8, 0.2, p=1.0)
        expected, drawn = theirs(x), theirs._params
        factors = torch.stack([drawn[f"{name}_factor"] for name in ("brightness", "contrast", "saturation", "hue")])
        order = drawn["order"].tolist()
        orders.add(tuple(order))
        torch.testing.assert_close(jitter(x, factors, order), expected, rtol=0, atol=1e-4)
    assert len(orders) > 4


def test_factors_are_drawn_as_kornia_does() -> None:
    import kornia.augmentation as K

    strengths = (0.8, 0.3, 1.5, 0.2)
    torch.manual_seed(0)
    theirs = K.ColorJitter(*strengths, p=1.0)
    theirs(torch.rand(4000, 3, 2, 2))
    names = ("brightness", "contrast", "saturation", "hue")
    expected = torch.stack([theirs._params[f"{name}_factor"] for name in names])
    changed, factors, _ = ColourJitter(Augmentation(jitter=strengths, jitter_probability=1.0)).draw(4000)
    assert torch.equal(changed, torch.arange(4000))
    for of in (torch.amin, torch.amax, torch.mean, torch.std):
        torch.testing.assert_close(of(factors, 1), of(expected, 1), rtol=0, atol=0.04)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_some_images_are_jittered_and_the_others_stay_as_they_are(dtype: torch.dtype) -> None:
    x = PIXELS.unit(pictures(150), CPU).to(dtype)
    torch.manual_seed(0)
    result = ColourJitter(Augmentation(jitter_probability=0.5))(x)
    same = (result == x).flatten(1).all(1)
    assert 0.35 < same.float().mean() < 0.65
    assert (result.dtype, result.shape) == (x.dtype, x.shape)
    # An image's change is its own, whatever stands beside it.
    torch.manual_seed(0)
    beside_others = ColourJitter(Augmentation(jitter_probability=0.5))(torch.cat([x[:60], x.flip(1)[60:]]))
    assert torch.equal(beside_others[:60], result[:60])


def test_the_two_views_are_turned_differently() -> None:
    x = PIXELS.unit(pictures(64), CPU)
    first, second = augment_pair(x, replace(NOTHING, rotate=True), generator())
    turns = torch.stack(
        [torch.stack([(v == x.rot90(k, (2, 3))).flatten(1).all(1) for k in range(4)]) for v in (first, second)]
    )
    assert (turns.sum(1) == 1).all()
    quarter, quarter_tilde = turns.int().argmax(1)
    assert (quarter != quarter_tilde).all()
    assert sorted(set(quarter.tolist())) == [0, 1, 2, 3]
    assert sorted(set(((quarter_tilde - quarter) % 4).tolist())) == [1, 2, 3]


def test_turned_moves_pixels() -> None:
    x = torch.arange(8.0).reshape(2, 1, 2, 2)
    result = turn(x, torch.tensor([1, 6]))
    assert torch.equal(result[0, 0], torch.tensor([[1.0, 3], [0, 2]]))
    assert torch.equal(result[1, 0], torch.tensor([[7.0, 6], [5, 4]]))


def test_both_kinds_of_views_have_one_interface() -> None:
    x, z = pictures(), torch.rand(6, 10)
    images, latents = augmented_views(PIXELS, NOTHING, generator(), (z, x), CPU)
    expected = pair_views(PIXELS, ((z, z), (x, x)), CPU)
    for ours, theirs in zip((*images, *latents), (*expected.images, *expected.latents), strict=True):
        assert torch.equal(ours, theirs)


def test_bad_input_gets_one_sentence() -> None:
    x, z = pictures(), torch.rand(6, 10)
    with pytest.raises(UserError, match="PairDataset"):
        pair_views(PIXELS, (z, x), CPU)
    with pytest.raises(UserError, match="ImageDataset"):
        augmented_views(PIXELS, NOTHING, generator(), ((z, z), (x, x)), CPU)
    with pytest.raises(UserError, match=r"uint8.*float32"):
        PIXELS.unit(x.float(), CPU)
    with pytest.raises(UserError, match="cannot be normalised"):
        Pixels((0, 0, 0), (1, 1, 0))
    for wrong in ((0.8, 0.8, 0.8, 0.7), (-1, 0, 0, 0), (0, float("nan"), 0, 0), (0.8, 0.8, 0.8)):
        with pytest.raises(UserError, match="four strengths"):
            replace(NOTHING, jitter=wrong)
    with pytest.raises(UserError, match="flip is a probability, not 2"):
        Augmentation(flip=2)
    with pytest.raises(UserError, match="not 0 to 1"):
        Augmentation(crop=(0.0, 1.0))


def test_one_view_is_drawn_from_its_generator_alone() -> None:
    x, untouched = PIXELS.unit(pictures(), CPU), torch.get_rng_state()
    view = augment(x, Augmentation(rotate=True), generator())
    assert torch.equal(torch.get_rng_state(), untouched)
    assert torch.equal(view, augment(x, Augmentation(rotate=True), generator()))
    assert not torch.allclose(view, augment(x, Augmentation(rotate=True), generator(1)))
    assert view.shape == augment(x[:, :1], Augmentation(), generator()).expand(-1, 3, -1, -1).shape


@pytest.mark.parametrize("name", SINGLE)
def test_a_single_augmentation_changes_images_and_nothing_that_others_change(name: str) -> None:
    x = PIXELS.unit(pictures(), CPU)
    how = single_augmentations([name], 3)[name]
    assert sum(getattr(how, part) not in (None, 0) for part in ("crop", "jitter", "grey", "blur")) == 1
    assert not torch.allclose(augment(x, how, generator()), x)


def test_colours_of_grey_images_and_unknown_names_are_refused() -> None:
    assert list(single_augmentations(["crop", "blur"], 1)) == ["crop", "blur"]
    with pytest.raises(UserError, match=r"grey.*hue"):
        single_augmentations(["crop", "hue"], 1)
    with pytest.raises(UserError, match=r"'bright'.*brightness"):
        single_augmentations(["bright"], 3)
    check_colour("crop-medium+colour", 3)
    with pytest.raises(UserError, match=r"grey.*colour"):
        check_colour("crop-medium+colour", 1)


def test_a_later_name_overrides_an_earlier_one() -> None:
    assert augmentation("simclr+crop-medium") == replace(Augmentation(), crop=(0.2, 1.0))
