"""Encoders from images or vectors to codes, and the output spaces that codes live in, as torch modules."""

from ident3d.training.encoders.image_encoder import Encoder, encoder, parameter_groups
from ident3d.training.encoders.output_spaces import Box, OutputSpace, Product, Sphere, Unbounded, output_space
from ident3d.training.encoders.perceptron import Perceptron, perceptron
from ident3d.training.encoders.resnet import ResNet, resnet18, resnet34, resnet50

__all__ = [
    "Box",
    "Encoder",
    "OutputSpace",
    "Perceptron",
    "Product",
    "ResNet",
    "Sphere",
    "Unbounded",
    "encoder",
    "output_space",
    "parameter_groups",
    "perceptron",
    "resnet18",
    "resnet34",
    "resnet50",
]
