"""ResNets, encoders by name and import path, output spaces, and what an optimiser is given."""

import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from ident3d.errors import UserError
from ident3d.training.encoders.autoencoders import decoder
from ident3d.training.encoders.image_encoder import Encoder, encoder, parameter_groups
from ident3d.training.encoders.output_spaces import (
    Box,
    OutputSpace,
    Posterior,
    Product,
    Sphere,
    Unbounded,
    output_space,
)
from ident3d.training.encoders.resnet import ResNet, resnet

# trained parameters with 1,000 classes, as everybody's checkpoints have them
SIZES = {18: 11_689_512, 34: 21_797_672, 50: 25_557_032}
BLOCK = {"conv1.weight", "bn1.weight", "bn1.bias", "bn1.running_mean", "bn1.running_var", "bn1.num_batches_tracked"}


@pytest.mark.parametrize("layers", SIZES)
def test_sizes_and_names_are_those_of_the_usual_checkpoints(layers: int) -> None:
    with torch.device("meta"):
        model = resnet(layers, 1000)
    assert sum(parameter.numel() for parameter in model.parameters()) == SIZES[layers]
    names = set(model.state_dict())
    assert names >= BLOCK | {"fc.weight", "fc.bias"} | {f"layer4.0.{name}" for name in BLOCK}
    assert {name.split(".")[0] for name in names} == {"conv1", "bn1", "layer1", "layer2", "layer3", "layer4", "fc"}
    assert {"layer2.0.downsample.0.weight", "layer2.0.downsample.1.running_var"} <= names
    assert ("layer1.0.downsample.0.weight" in names) == (layers == 50)
    assert not any(name.startswith("layer2.1.downsample") for name in names)


def test_a_resnet_of_other_layers_is_refused() -> None:
    with pytest.raises(UserError, match=r"18, 34, 50.*101"):
        resnet(101, 10)


def test_stages_have_the_published_shapes() -> None:
    model = resnet(18, 7)
    shapes: list[tuple[int, ...]] = []
    for part in (model.maxpool, model.layer1, model.layer2, model.layer3, model.layer4):
        part.register_forward_hook(lambda module, inputs, output: shapes.append(tuple(output.shape[1:])))
    assert model(torch.zeros(2, 3, 64, 64)).shape == (2, 7)
    assert shapes == [(64, 16, 16), (64, 16, 16), (128, 8, 8), (256, 4, 4), (512, 2, 2)]


def test_convolutions_start_with_the_variance_that_keeps_gradients() -> None:
    torch.manual_seed(0)
    weight = resnet(18, 10).layer4[0].conv1.weight  # 256 → 512 channels
    assert weight.var().item() == pytest.approx(2 / (512 * 9), rel=0.01)


@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_encoder_gives_codes_of_its_space(name: str) -> None:
    model = encoder(name, output_space("sphere", 4))
    codes = model(torch.randn(3, 3, 32, 32))
    assert codes.shape == (3, 4)
    torch.testing.assert_close(codes.norm(dim=1), torch.ones(3))
    assert isinstance(model.backbone, ResNet)
    assert model.backbone.fc.out_features == 40


def test_a_researchers_own_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_encoders.py").write_text("""
from torch import nn

def tiny(outputs):
    return nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, outputs))

ready = tiny(30)
wrong = tiny(7)
class Breaks(nn.Module):
    def __init__(self, outputs): super().__init__()
    def forward(self, x): return x.view(-1, 7, 11)
class Two(Breaks):
    def forward(self, x): return x, x
number = 3
def nothing(outputs): return None
def needs_more(outputs, depth): return tiny(outputs)
""")
    monkeypatch.chdir(tmp_path)
    before = [str(tmp_path), *sys.path]
    monkeypatch.setattr(sys, "path", list(before))
    images = torch.zeros(2, 3, 8, 8)
    for name in ("tiny", "ready"):
        assert encoder(f"own_encoders:{name}", Unbounded(3))(images).shape == (2, 3)
    for name, sentence in {
        "wrong": r"shape \(2, 7\) where \(2, 30\) are needed",
        "Two": r"shape tuple where \(2, 30\) are needed",
        "Breaks": r"'own_encoders:Breaks' raised RuntimeError: shape .* \(own_encoders.py, line 11\)",
    }.items():
        with pytest.raises(UserError, match=sentence):
            encoder(f"own_encoders:{name}", Unbounded(3))(images)
    mistakes = {
        "own_encoders:number": "neither an nn.Module nor",
        "own_encoders:nothing": "made a NoneType, not an nn.Module",
        "own_encoders:needs_more": "called with the number of outputs, 30",
        "own_encoders:tinny": "has no 'tinny' to take as encoder. Did you mean 'tiny'",
        "no_such_module:name": "cannot be imported",
        "own_encoders:": "named package.module:name",
        "resnet19": "Did you mean 'resnet1?8'",
    }
    for name, sentence in mistakes.items():
        with pytest.raises(UserError, match=sentence):
            encoder(name, Unbounded(3))
    assert sys.path == before


def test_box_holds_its_codes_and_learns_its_bound() -> None:
    box = Box(3, [1, 2, 14])
    far = 100 * torch.tensor([[1.0, 1, 1], [-1, -1, -1], [0, 0, 0]])
    codes = box(far)
    torch.testing.assert_close(codes, torch.tensor([[1.0, 2, 14], [0, 0, 0], [0.5, 1, 7]]))
    codes.sum().backward()
    assert box.bound.grad is not None
    torch.testing.assert_close(box.bound.grad, torch.full((3,), 1.5))
    torch.testing.assert_close(box.widths(), torch.tensor([1.0, 2, 14]))
    assert not Box(3, learnable=False).bound.requires_grad


def test_sphere_and_unbounded() -> None:
    x = torch.tensor([[3.0, 4.0], [0.0, -2.0]], requires_grad=True)
    torch.testing.assert_close(Sphere(2, 2.0)(x), torch.tensor([[1.2, 1.6], [0, -2]]))
    assert Sphere(2, learnable=True).radius.requires_grad
    assert not Sphere(2).radius.requires_grad
    assert torch.equal(Unbounded(2)(x), x)


@pytest.mark.parametrize("space", [Unbounded(4), Box(4), Sphere(4), Product(Box(2), Sphere(2))])
def test_codes_are_float32_under_autocast(space: OutputSpace) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert space(nn.Linear(5, 4)(torch.ones(2, 5))).dtype == torch.float32


def test_the_head_computes_in_float32_under_autocast() -> None:
    torch.manual_seed(0)
    model = Encoder(nn.Linear(5, 30), Unbounded(3))
    x = torch.randn(64, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features, codes = model.backbone(x), model(x)
    assert features.dtype == torch.bfloat16
    assert torch.equal(codes, model.head(features.float()))
    assert not torch.equal(codes, codes.bfloat16().float())


def test_products_keep_their_coordinates_in_order() -> None:
    space = output_space("box*sphere*unbounded*box", [2, 3, 1, 1], bound=[5, 6, 7], radius=2, learnable=False)
    x = torch.randn(4, 7)
    codes = space(x)
    torch.testing.assert_close(codes[:, :2], torch.tensor([5.0, 6]) * x[:, :2].sigmoid())
    torch.testing.assert_close(codes[:, 2:5].norm(dim=1), torch.full((4,), 2.0))
    torch.testing.assert_close(codes[:, 5], x[:, 5])
    torch.testing.assert_close(codes[:, 6], 7 * x[:, 6].sigmoid())
    assert not [parameter for parameter in space.parameters() if parameter.requires_grad]


def test_spaces_by_name_have_the_papers_defaults() -> None:
    box, sphere = output_space("box", 3), output_space("sphere", 3)
    assert [parameter.requires_grad for parameter in (*box.parameters(), *sphere.parameters())] == [True, False]
    assert torch.equal(next(box.parameters()), torch.ones(3))


def test_parameter_groups_give_bounds_their_own_rate() -> None:
    space = output_space("box*sphere", [2, 2], learnable=True)
    model = Encoder(nn.Linear(3, 40), space)
    main, own = parameter_groups(model, 1e-4, {OutputSpace: 2e-3})
    assert (main["lr"], own["lr"]) == (1e-4, 2e-3)
    assert [id(p) for p in own["params"]] == [id(p) for p in space.parameters()]
    assert [id(p) for p in main["params"]] == [id(p) for p in (*model.backbone.parameters(), *model.head.parameters())]
    optimiser = torch.optim.SGD(parameter_groups(model, 0.0, {Box: 1.0}))
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    output: Tensor = model(torch.ones(5, 3))
    output.sum().backward()
    optimiser.step()
    moved = {name for name, parameter in model.named_parameters() if not torch.equal(parameter, before[name])}
    assert moved == {"space.factors.0.bound"}


@pytest.mark.parametrize(
    ("name", "dim", "settings", "sentence"),
    [
        ("bx", 3, {}, "no output space 'bx'.*Did you mean 'box'"),
        ("box*sphere", 3, {}, "2 factors"),
        ("box", 3, {"bound": [1, 2]}, "3 bounded dimensions and takes as many bounds, not 2"),
        ("box", 3, {"bound": 0}, "above 0, not 0"),
        ("box", 0, {}, "at least 1 dimensions, not 0"),
        ("sphere", 1, {}, "at least 2 dimensions, not 1"),
        ("sphere", 3, {"radius": float("nan")}, "above 0, not nan"),
    ],
)
def test_bad_spaces(name: str, dim: int, settings: dict[str, float], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        output_space(name, dim, **settings)


@pytest.mark.parametrize(
    ("size", "convolutions", "features"), [(64, 4, 4096), (32, 3, 2048), (48, 3, 4608), (8, 1, 512)]
)
def test_conv_halves_an_image_until_it_is_small(size: int, convolutions: int, features: int) -> None:
    model = encoder("conv", output_space("box", 4), size=size)
    assert model(torch.randn(3, 3, size, size)).shape == (3, 4)
    layers = list(model.backbone.modules())
    assert sum(isinstance(layer, nn.Conv2d) for layer in layers) == convolutions
    assert [layer.in_features for layer in layers if isinstance(layer, nn.Linear)] == [features, 256]


@pytest.mark.parametrize(
    ("options", "features"), [("+flat", 4 * 512), ("+small-stem", 512), ("+small-stem+flat", 36 * 512)]
)
def test_a_resnet_with_options(options: str, features: int) -> None:
    # 42 pixels: every stage has to round up, to 2 and with the small stem to 6.
    model = encoder(f"resnet18{options}", output_space("unbounded", 2), size=42)
    assert model(torch.randn(2, 3, 42, 42)).shape == (2, 2)
    assert isinstance(model.backbone, ResNet)
    assert model.backbone.fc.in_features == features
    assert model.backbone.conv1.kernel_size == ((3, 3) if "stem" in options else (7, 7))


@pytest.mark.parametrize(
    ("name", "size", "fact"),
    [
        ("conv", 7, "at least 8"),
        ("conv+flat", 64, "no options"),
        ("conv", None, "size"),
        ("resnet18+flat", None, "size"),
        ("resnet18+big", 64, "'big'"),
        ("resnet18+flat+flat", 64, "'flat'"),
        ("resnet19", 64, "resnet18"),
    ],
)
def test_encoders_that_cannot_be(name: str, size: int | None, fact: str) -> None:
    with pytest.raises(UserError, match=fact.replace("+", r"\+")):
        encoder(name, output_space("unbounded", 2), size=size)


def test_the_papers_autoencoder_has_their_parameters_and_start() -> None:
    torch.manual_seed(0)
    contrastive = encoder("higgins", Unbounded(10), size=64, channels=1)
    variational, back = encoder("higgins", Posterior(10), size=64, channels=1), decoder("higgins", 10)
    sizes = [sum(weights.numel() for weights in part.parameters()) for part in (contrastive, variational, back)]
    assert (sizes[0], sizes[1] + sizes[2]) == (380_362, 763_285)
    shapes: list[tuple[int, ...]] = []
    for layer in (*contrastive.backbone, *back):  # type: ignore[misc]
        if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
            layer.register_forward_hook(lambda module, inputs, output: shapes.append(tuple(output.shape[1:])))
    back(contrastive(torch.rand(2, 1, 64, 64)))
    down = [(32, 32, 32), (32, 16, 16), (64, 8, 8), (64, 4, 4), (256, 1, 1), (10,)]
    assert shapes == [*down, (256,), (64, 4, 4), (64, 8, 8), (32, 16, 16), (32, 32, 32), (1, 64, 64)]
    # Kaiming normal over the inputs for what is linear or a convolution; PyTorch's own for what is transposed.
    fourth, linear, transposed = variational.backbone[6], back[0], back[5]  # type: ignore[index]
    assert fourth.weight.var().item() == pytest.approx(2 / (64 * 16), rel=0.05)
    assert linear.weight.var().item() == pytest.approx(2 / 10, rel=0.1)  # type: ignore[operator]
    assert not fourth.bias.any()
    assert not linear.bias.any()  # type: ignore[operator]
    assert transposed.weight.abs().max().item() <= (64 * 16) ** -0.5  # type: ignore[operator]
    assert transposed.bias.any()  # type: ignore[operator]


def test_ada_gvaes_pair_of_networks_fits_images_of_64_pixels() -> None:
    model, back = encoder("locatello", Posterior(7), size=64, channels=3), decoder("locatello", 7, channels=3)
    x = torch.rand(2, 3, 64, 64)
    assert model(x).shape == (2, 14)
    assert torch.equal(model.eval()(x), model.train()(x)[:, :7]), "in evaluation the codes are the means"
    assert back(model.eval()(x)).shape == x.shape
    kernels = [layer.kernel_size for layer in model.backbone.modules() if isinstance(layer, nn.Conv2d)]
    assert kernels == [(4, 4), (4, 4), (2, 2), (2, 2)]


@pytest.mark.parametrize(("name", "wrong"), [("higgins", "16"), ("locatello", "128"), ("higgins+flat", "no options")])
def test_the_papers_encoders_take_no_other_size(name: str, wrong: str) -> None:
    with pytest.raises(UserError, match=wrong):
        encoder(name, Unbounded(4), size=int(wrong) if wrong.isdigit() else 64)
    with pytest.raises(UserError, match="'higgins'"):
        decoder("higgin", 4)


@pytest.mark.parametrize(
    ("name", "features", "layers"),
    [
        ("resnet18+small-stem+projector32", 512, 3),
        ("conv+projector32,16", 256, 5),
        ("conv+bn-projector32x2", 256, 7),
    ],
)
def test_a_projector_stands_between_features_and_codes(name: str, features: int, layers: int) -> None:
    model = encoder(name, output_space("unbounded", 4), size=16).eval()
    x = torch.rand(2, 3, 16, 16)
    assert model.backbone(x).shape == (2, features)
    assert isinstance(model.head, nn.Sequential)
    assert len(model.head) == layers
    assert (model.head[-1].bias is None) == ("bn-" in name)
    assert torch.equal(model(x), model.head(model.backbone(x)))


@pytest.mark.parametrize("name", ["conv+projector", "conv+projectorx2", "conv+projector8+projector8", "conv+flat"])
def test_a_projector_that_cannot_be_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=r"projector"):
        encoder(name, output_space("unbounded", 4), size=16)
