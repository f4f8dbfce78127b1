"""A causal graph over declared factors: read from a TOML file, and drawn from."""

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError, check_known, unknown
from ident3d.latents.exact.arithmetic import Float64
from ident3d.latents.exact.causal import UNPARSED, CausalModel, toml_text
from ident3d.latents.exact.causal_draws import around_means, choose
from ident3d.latents.exact.formula import choice_key, value_name
from ident3d.latents.exact.interventions import DISTRIBUTIONS, is_drawn
from ident3d.latents.exact.mechanism import Node, by_class, read_node
from ident3d.latents.exact.streams import uniform_float32, uniform_float64
from ident3d.latents.factor import Factor, stored

Given = float | NDArray[np.float32]
OWN_DO: Final = "shape=cube, 'height ~ normal(0.2, 0.3)'"


def load_graph(path: Path | str, factors: Sequence[Factor]) -> CausalModel:
    """Return the graph of a TOML file, which has a table for each factor that is not drawn by itself."""
    path = Path(path)
    # Its own errors name the file.
    text = toml_text(path, "graph")
    try:
        return read_graph(tomllib.loads(text), factors)
    except UserError as error:
        raise UserError(f"{path.name}: {error}") from None
    except UNPARSED as error:
        raise UserError(f"{path.name}: This is not TOML: {error}.") from None


def read_graph(tables: Any, factors: Sequence[Factor]) -> CausalModel:
    """Return the graph over these factors that tables describe; raise UserError for what does not fit.

    A table is that of a latent of Causal-3DIdent. A periodic factor is wrapped, so that it has either a mean or a
    range. Of a categorical one it has `weight`, a number or formula for each value.
    """
    if not isinstance(tables, Mapping):
        raise UserError(f"A graph has a table for each factor, and is not {tables!r}.")
    names = [factor.name for factor in factors]
    for name in tables:
        if name not in names:
            raise unknown("factor (in the graph)", name, names)
    nodes = {factor.name: _node(factor, tables.get(factor.name, {}), names) for factor in factors}
    return CausalModel((), nodes).checked()


def independent(factors: Sequence[Factor]) -> CausalModel:
    """Return the graph without arrows, from which factors are drawn as they are without any."""
    return read_graph({}, factors)


def _node(factor: Factor, table: Any, names: Sequence[str]) -> Node:
    if not isinstance(table, Mapping):
        raise UserError(f"{factor.name} is a table of the graph, not {table!r}.")
    if factor.kind != "categorical":
        listed = tuple(factor.to_raw(factor.listed).astype(np.float64).tolist()) if factor.values else ()
        node = replace(read_node(factor.name, table, (), names), listed=listed)
        if factor.kind == "box":
            return node
        if node.components and "range" in table:
            raise UserError(f"{factor.name} is periodic: it has a mean, around which it is wrapped, or a range.")
        return replace(node, periodic=True)
    values = tuple(map(value_name, factor.values))
    if not table:
        return Node(values=values)
    if set(table) != {"weight"} or not isinstance(table["weight"], Mapping):
        raise UserError(
            f"{factor.name} is categorical: its table has `weight` alone, with a number or a formula for each of "
            f"{', '.join(values)}."
        )
    for value in table["weight"]:
        check_known(f"value of {factor.name}", value, values)
    if missing := [value for value in values if value not in table["weight"]]:
        raise UserError(f"The weight of {factor.name} says nothing of its value {missing[0]}.")
    weights = [by_class(f"weight of {value} (in {factor.name})", table["weight"][value], (), names) for value in values]
    return Node(values=values, weights=tuple(formula for (formula,) in weights))


def follow(
    model: CausalModel, factors: Sequence[Factor], word: NDArray[np.uint64], given: Mapping[str, Given]
) -> NDArray[np.float32]:
    """Return raw latents (n, d) drawn along the graph, from random words (n, d or more); `given` ones are set.

    Factor k has word k to itself, so that an intervention changes its descendants and nothing else. A child sees its
    parents as they are stored, in float32.
    """
    raw = np.empty((len(word), len(factors)), np.float32)
    place = {factor.name: k for k, factor in enumerate(factors)}
    asked, none = model.choices, np.zeros(len(word), np.int8)
    latents: dict[str, Float64] = {}
    for name in model.order:
        k, node = place[name], model.nodes[name]
        factor = factors[k]
        if name in given:
            raw[:, k] = given[name]
        elif node.weights:
            chosen, _ = choose([weight.value(latents) for weight in node.weights], uniform_float64(word[:, k]))
            raw[:, k] = factor.to_raw(factor.listed)[chosen]
        elif node.components:
            drawn = around_means(model, node, latents, none, uniform_float64(word[:, k]))
            raw[:, k] = stored(factor, drawn.astype(np.float32))
        elif (node.low, node.high) == (-1, 1):
            raw[:, k] = uniform(factor, word[:, k])
        else:
            middle, half = (node.low + node.high) / 2, (node.high - node.low) / 2
            drawn = middle + half * uniform_float32(word[:, k]).astype(np.float64)
            raw[:, k] = stored(factor, drawn.astype(np.float32))
        latents[name] = raw[:, k].astype(np.float64)
        for value in [value for of, value in asked if of == name]:
            latents[choice_key(name, value)] = has_value(factor, raw[:, k], node.values.index(value))
    return raw


def has_value(factor: Factor, raw: NDArray[np.float32], number: int) -> Float64:
    """Return 1 where a categorical factor (n,) has the value of this number, else 0."""
    return np.where(factor.index(raw) == number, 1.0, 0.0)


def chosen_values(model: CausalModel, factors: Sequence[Factor], raw: NDArray[np.float32]) -> dict[str, Float64]:
    """Return what formulas ask of the categorical factors in raw latents (n, d), by the key of each question."""
    place = {factor.name: k for k, factor in enumerate(factors)}
    return {
        choice_key(name, value): has_value(
            factors[place[name]], raw[:, place[name]], model.nodes[name].values.index(value)
        )
        for name, value in model.choices
    }


def uniform(factor: Factor, word: NDArray[np.uint64]) -> NDArray[np.float32]:
    """Return U(-1, 1) for a continuous factor, from random words (n,); of listed values each equally often."""
    if not factor.values:
        return uniform_float32(word)
    # Of the upper 32 bits u the integer part of u n / 2³², which is exact.
    chosen = (word >> np.uint64(32)) * np.uint64(len(factor.values)) >> np.uint64(32)
    return np.asarray(factor.to_raw(factor.listed)[chosen])


def own_interventions(texts: Iterable[str]) -> dict[str, float | str]:
    """Return what --do says in a user's own scene: a value, which stays a text, or what is drawn from after a ~."""
    found: dict[str, float | str] = {}
    for text in texts:
        name, sign, value = re.match("([^=~]*)([=~]?)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
        name, value = name.strip(), value.strip()
        if not (name and sign and value):
            raise UserError(f"{text!r} is not of the form NAME=VALUE, such as {OWN_DO}.")
        if name in found:
            raise UserError(f"{name} is given two values.")
        if sign == "~" and not is_drawn(value):
            raise UserError(f"{name} is drawn from {', '.join(DISTRIBUTIONS)}, as in {OWN_DO}; {value!r} is neither.")
        found[name] = value
    return found


def empty_text(factors: Sequence[Factor]) -> str:
    """Return a graph file in which every factor is drawn by itself, to start a user's own from."""
    lines = ["# Raw latents are from -1 to 1. A factor without a table, or with an empty one, has no parents."]
    for factor in factors:
        # TOML and JSON write text in the same way.
        name = factor.name if re.fullmatch("[A-Za-z0-9_-]+", factor.name) else json.dumps(factor.name)
        values = ", ".join(f"{json.dumps(value_name(value))} = 1" for value in factor.values)
        how = {
            "box": 'mean = 0, sd = 0.5, noise = "normal" or "laplace", range = [-1, 1]',
            "periodic": "mean = 0, sd = 0.1, wrapped",
            "categorical": f"weight = {{ {values} }}",
        }[factor.kind]
        lines.append(f"\n[{name}]  # {factor.kind}: {how}")
    return "\n".join(lines) + "\n"
