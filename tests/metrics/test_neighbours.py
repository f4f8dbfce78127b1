"""The accuracy of nearest neighbours, beside one that is written out row by row."""

import numpy as np
import pytest

from ident3d import metrics
from ident3d.errors import UserError


def test_each_row_gets_the_class_of_most_weight() -> None:
    rng = np.random.default_rng(0)
    codes, classes = rng.normal(size=(60, 3)), rng.integers(0, 4, 60)
    new, true = rng.normal(size=(25, 3)), rng.integers(0, 4, 25)
    found = metrics.knn_accuracy(classes, codes, test=(true, new), k=7, tau=0.2)
    for row, predicted in zip(new, found.predicted, strict=True):
        cosine = codes @ row / np.linalg.norm(codes, axis=1) / np.linalg.norm(row)
        nearest = np.argsort(-cosine)[:7]
        votes = [np.exp(cosine[nearest][classes[nearest] == c] / 0.2).sum() for c in range(4)]
        assert predicted == np.argmax(votes)
    assert float(found) == (found.predicted == true).mean()
    # Of fewer rows than neighbours all vote, and a row of zeros is as near to each.
    few = metrics.knn_accuracy(classes, codes * 0, test=(true, new), k=500)
    assert set(few.predicted) == {np.bincount(classes).argmax()}


def test_wrong_numbers_are_refused() -> None:
    codes, classes = np.eye(6), np.arange(6) % 2
    for wrong in ({"k": 0}, {"tau": 0.0}):
        with pytest.raises(UserError, match="neighbour"):
            metrics.knn_accuracy(classes, codes, **wrong)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="columns"):
        metrics.knn_accuracy(classes, codes, test=(classes, codes[:, :2]))
