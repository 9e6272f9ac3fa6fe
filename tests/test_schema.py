"""Every mistake in a configuration is one sentence that names the key and what would be right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from annotated_types import Ge

from sciuq_runner.assembly import assemble
from sciuq_runner.composition import compose, expand, plain, register_resolvers
from sciuq_runner.errors import ConfigError
from sciuq_runner.methods.base import Method
from sciuq_runner.schema import Positive, build, check, construct, locate

register_resolvers()


@dataclass(frozen=True)
class Settings:
    count: Annotated[int, Ge(1)]
    rate: Positive = 0.1
    kind: Literal["left", "right"] = "left"
    limit: Annotated[int, Ge(0)] | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit > self.count:
            raise ValueError(f"limit={self.limit} should not exceed count={self.count}.")


def test_good_values_pass_and_thousands_may_be_written_1e3():
    made = construct(Settings, {"count": 1e3, "rate": 2, "limit": None}, "method")
    assert made == Settings(1000, 2, "left", None)
    assert isinstance(made.count, int)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"cuont": 3}, "method.cuont is not a setting of method: did you mean 'count'?"),
        ({}, "method.count is missing."),
        ({"count": 0}, "method.count=0 is not valid: it should be greater than or equal to 1."),
        ({"count": 1.5}, "method.count=1.5 is not valid: it should be a valid integer."),
        ({"count": "3"}, "method.count='3' is not valid: it should be a valid integer."),
        ({"count": True}, "method.count=True is not valid: it should be a valid integer."),
        ({"count": 1, "rate": "fast"}, "method.rate='fast' is not valid: it should be a valid number."),
        ({"count": 1, "rate": float("nan")}, "method.rate=nan is not valid: it should be a finite number."),
        ({"count": 1, "kind": "rihgt"}, "method.kind='rihgt' is not valid: did you mean 'right'?"),
        ({"count": 1, "limit": 2}, "method: limit=2 should not exceed count=1."),
    ],
)
def test_wrong_values_are_answered(values, sentence):
    with pytest.raises(ConfigError) as caught:
        construct(Settings, values, "method")
    assert str(caught.value) == sentence


def test_only_trusted_classes_are_imported():
    with pytest.raises(ConfigError, match=r"add trust=\[os\]"):
        locate("os.system", "method")
    with pytest.raises(ConfigError, match="not a class of sciuq_runner"):
        locate("sciuq_runner_evil.HMC", "method")
    with pytest.raises(ConfigError, match="should be a class"):
        locate("os.system", "method", trust=["os"])
    with pytest.raises(ConfigError, match="should be a dataclass and a Method"):
        build({"_target_": "sciuq_runner.methods.hmc.Transition"}, "method", Method)
    with pytest.raises(ConfigError, match="cannot be imported"):
        locate("sciuq_runner.methods.nothing.X", "method")


def test_check_leaves_floats_alone_where_both_fit():
    assert check(1e3, float | int, "key") == 1000.0


@pytest.mark.parametrize(
    ("overrides", "part"),
    [
        (["method=hmcc"], "method=hmcc does not exist: did you mean 'hmc'?"),
        (["metod=hmc"], "metod is not a setting: did you mean 'method'?"),
        (["method.nburn=3"], "method.nburn is not a setting: did you mean 'method.n_burn'?"),
        (["method=null"], "method=null chooses nothing"),
        (["seed=[1"], "'seed=[1' cannot be read: write key=value"),
        (["problem"], "'problem' cannot be read: write key=value"),
        (["method=hmc,dens"], "names several values: add -m"),
        (["+foo=3"], "foo is not a setting of a run"),
        (["seed=-1"], "seed=-1 is not valid"),
        (["problem.case=nown"], "did you mean 'known'?"),
        (["calibration.n=51"], "calibration.n=51 is more than the 50 calibration points"),
        (["device=gpu"], "did you mean 'cpu'?"),
        (["fidelity.name=fast"], "fidelity=fast has no setting here"),
        (["method.n_burn=${nowhere}"], "nowhere"),
        (["method._target_=os.system"], "add trust=[os]"),
        (["method._target_=sciuq_runner.models.bnn.BNN"], "should be a dataclass and a Method"),
    ],
)
def test_the_whole_command_line_is_checked(overrides, part):
    with pytest.raises(ConfigError) as caught:
        assemble(plain(compose(overrides, None)))
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_sweep_is_expanded_to_its_jobs():
    jobs = expand(["method=hmc,dens", "seed=range(0,3)", "fidelity=smoke"], None)
    assert len(jobs) == 6
    assert ["method=dens", "seed=2", "fidelity=smoke"] in jobs
    preset = expand(["experiment=paper/function_known", "seed=7"], None)
    assert ["method=dens", "experiment=paper/function_known", "seed=7"] in preset
    assert {job[-1] for job in preset} == {"seed=7"}
