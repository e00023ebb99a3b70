"""Every registered defence passes the contract that plug-ins pass, too."""

import numpy as np
import pytest

from relearn.methods import DEFENCES, load
from relearn.testing import DefenceContract

# For 60 points; a defence that is not named here has its defaults.
ARGUMENTS = {
    "deep_knn": {"k": 5},
    "l2_outliers": {"fraction": 0.2},
    "one_class_svm": {"nu": 0.2},
    "random_eviction": {"fraction": 0.2, "seed": 3},
}


def contract_of(name: str) -> type[DefenceContract]:
    class Contract(DefenceContract):
        draws = name == "random_eviction"
        accepts_no_points = name != "deep_knn"

        def make(self):
            return load(DEFENCES, name)(**ARGUMENTS.get(name, {}))

    return Contract


globals().update({f"Test_{name}": contract_of(name) for name in DEFENCES})


def test_arguments_are_those_of_defences():
    assert set(ARGUMENTS) <= set(DEFENCES)


def test_deep_knn_has_no_allowed_k_for_an_empty_set():
    with pytest.raises(ValueError, match="k is 5; allowed: 1 to 0"):
        load(DEFENCES, "deep_knn")(k=5).fit_predict(np.zeros((0, 4)), [])
