"""Every mistake in a configuration is one sentence that names the key and what would be right."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge

from sciuq_runner.config.build import assemble
from sciuq_runner.config.compose import compose, plain, refuse_code, register_resolvers
from sciuq_runner.config.problem_files import adopt_files
from sciuq_runner.errors import ConfigError
from sciuq_runner.methods.base import Method
from sciuq_runner.physics.problem import Problem
from sciuq_runner.schema import Positive, build, check, construct, locate
from sciuq_runner.sweeps.request import read_sweep

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
        (["method.n_burn=${zzz}"], "method.n_burn refers to zzz, which is not a setting: sciuq-run --cfg job"),
        (
            ["seed=${method.nburn}"],
            "seed refers to method.nburn, which is not a setting: did you mean 'method.n_burn'?",
        ),
        (["seed=${nobody:1}"], "seed cannot be resolved: Unsupported interpolation type nobody."),
        (["problem.case=???"], "problem.case has no value: write one instead of ???."),
        (["n_burn=3"], "n_burn is not a setting: did you mean 'method.n_burn'?"),
        (["method.n_burn=???"], "method.n_burn has no value: write one instead of ???."),
        (["method._target_=os.system"], "add trust=[os]"),
        (["method._target_=sciuq_runner.models.bnn.BNN"], "should be a dataclass and a Method"),
    ],
)
def test_the_whole_command_line_is_checked(overrides, part):
    with pytest.raises(ConfigError) as caught:
        assemble(plain(compose(overrides, None)))
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_command_line_may_refer_to_settings():
    overrides = ["seed=3", "tracking.experiment=exp_${seed}", "method.n_samples=${method.n_burn}"]
    cfg = compose(overrides, None, with_hydra=True)
    refuse_code(cfg, overrides)
    config = plain(cfg)
    assert config["tracking"]["experiment"] == "exp_3"
    assert config["method"]["n_samples"] == config["method"]["n_burn"]


def test_what_is_not_in_the_file_of_a_problem_can_be_added(tmp_path):
    file = tmp_path / "lacking.yaml"
    file.write_text("coordinates: {x: [0, 1]}\nunknowns: {u: [x]}\nobserved: {u: {file: u.csv, noise: {scale: 1}}}\n")
    (choice,) = adopt_files([f"problem={file}"])
    hints = {"observed.u.noise.scal": ", or did you mean 'problem.observed.u.noise.scale'?", "hold_out.validation": "."}
    for key, hint in hints.items():
        with pytest.raises(ConfigError) as caught:
            compose([choice, f"problem.{key}=3"], None)
        assert str(caught.value) == f"problem.{key} is not in {file}: add it with +problem.{key}=…{hint}"
    with pytest.raises(ConfigError, match=r"problem\.colour is not a setting: "):
        compose([choice, "problem.colour=3"], None)
    assert compose([choice, "+problem.grid.x=3"], None).problem.grid.x == 3


def test_a_sweep_is_expanded_to_its_jobs():
    jobs = read_sweep(["method=hmc,dens", "seed=range(0,3)", "fidelity=smoke"], None).jobs
    assert len(jobs) == 6
    assert ["method=dens", "seed=2", "fidelity=smoke"] in jobs
    preset = read_sweep(["experiment=paper/function_known", "seed=7"], None).jobs
    assert ["method=dens", "experiment=paper/function_known", "seed=7"] in preset
    assert {job[-1] for job in preset} == {"seed=7"}


@dataclass(frozen=True)
class Inner:
    width: int = 3


@dataclass(frozen=True)
class Groups:
    needed: dict[str, Any]
    values: dict[str, list[float]] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    title: str = ""
    shown: bool = True
    inner: Inner = Inner()
    maybe: dict[str, Any] | None = field(default_factory=dict)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"needed": 21}, "problem.needed=21 is not valid: it should be names with values (a: b)."),
        ({"needed": None}, "problem.needed has no value: it should be names with values (a: b)."),
        ({"names": "t, x"}, "problem.names='t, x' is not valid: it should be a list in square brackets: write [t, x]."),
        ({"names": "{x}"}, "problem.names='{x}' is not valid: it should be a list in square brackets."),
        ({"names": None}, "problem.names has no value: it should be a list in square brackets."),
        ({"values": {"x": 0}}, "problem.values.x=0 is not valid: it should be a list in square brackets."),
        ({"values": {"x": [0, "b"]}}, "problem.values.x=[0, 'b'] is not valid: it should be a valid number."),
        ({"title": 3}, "problem.title=3 is not valid: it should be a text."),
        ({"shown": "perhaps"}, "problem.shown='perhaps' is not valid: it should be true or false."),
        ({"inner": 3}, "problem.inner=3 is not valid: it should be names with values (a: b)."),
        (
            {"needed": {True: ["x"]}},
            "problem.needed has a name that YAML reads as True: put the name in quotes, such as 'on'.",
        ),
        (
            {"values": {False: [0.0]}},
            "problem.values has a name that YAML reads as False: put the name in quotes, such as 'off'.",
        ),
        ({"needed": {1: 0}}, "problem.needed has a name that YAML reads as 1: put the name in quotes, such as '1'."),
        ({True: 0}, "problem has a name that YAML reads as True: put the name in quotes, such as 'on'."),
        (
            {"inner": {2.5: 0}},
            "problem.inner has a name that YAML reads as 2.5: put the name in quotes, such as '2.5'.",
        ),
    ],
)
def test_mistakes_of_form_are_answered_in_plain_words(values, sentence):
    with pytest.raises(ConfigError) as caught:
        construct(Groups, {"needed": {}, **values}, "problem")
    assert str(caught.value) == sentence


def test_a_group_with_nothing_below_it_counts_as_left_out():
    made = construct(Groups, {"needed": {}, "values": None, "inner": None, "maybe": None}, "problem")
    assert made == Groups({}, maybe=None)  # where None has a meaning, it keeps it


def test_a_long_value_is_not_shown_in_full():
    with pytest.raises(ConfigError) as caught:
        check(["reading"] * 1000, dict[str, Any], "problem.grid")
    assert len(str(caught.value)) < 300
    assert str(caught.value).endswith(" ... is not valid: it should be names with values (a: b).")


@pytest.mark.parametrize(
    ("node", "sentence"),
    [
        (
            {"coordinates": {"x": [0, 1]}, "unknowns": {"u": ["x"]}},
            "problem._target_ is missing: write _target_: sciuq_runner.problems.user.UserProblem above the others.",
        ),
        (
            {"n_train": 3},
            "problem._target_ is missing: write _target_: module.ClassName, the class that it describes.",
        ),
        (["a"], "problem should be names with values (a: b), with _target_: module.ClassName first."),
    ],
)
def test_without_a_class_the_sentence_says_which_to_write(node, sentence):
    with pytest.raises(ConfigError) as caught:
        build(node, "problem", Problem)
    assert str(caught.value) == sentence
