"""Composing: what is refused before Hydra reads anything, and values that depend on choices."""

from __future__ import annotations

import pytest

from sciuq_runner.config.compose import compose, plain
from sciuq_runner.errors import ConfigError


@pytest.mark.parametrize("name", ["tuned/cooling_hmc.yaml", "tuned_model/cooling_bnn.yaml", "tuned_triple/x_y_z.yaml"])
def test_tuned_settings_where_nobody_reads_them_are_refused(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir()
    path.write_text("# @package _global_\nseed: 3\n")
    with pytest.raises(ConfigError, match=r"is not read: tuned settings are in tuned/method/PROBLEM/METHOD\.yaml"):
        compose([], str(tmp_path))


def test_tuned_settings_of_the_persons_own_count(tmp_path):
    path = tmp_path / "tuned/model_method/forward_pde/bnn_dens.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("# @package _global_\nmethod: {n_members: 3}\n")
    chosen = ["problem=forward_pde", "method=dens"]
    assert plain(compose(chosen, str(tmp_path)))["method"]["n_members"] == 3
    assert plain(compose([*chosen, "method.n_members=4"], str(tmp_path)))["method"]["n_members"] == 4
    assert plain(compose([*chosen, "model=gan_fp"], str(tmp_path)))["method"]["n_members"] == 10


@pytest.mark.parametrize(
    ("method", "case", "learned"),
    [("hmc", "unknown", True), ("hmc", "known", False), ("dens", "unknown", False), ("gp", "known", False)],
)
def test_a_value_can_depend_on_the_method(method, case, learned):
    """``${method:{...}}``: methods that infer scales learn that of the prior where the noise is unknown."""
    config = plain(compose([f"method={method}", f"problem.case={case}"], None))
    assert config["model"]["learn_prior"] is learned
