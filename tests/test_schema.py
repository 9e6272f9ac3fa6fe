"""Every mistake in a configuration is one sentence that names the key and what would be right."""

from __future__ import annotations

import re
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
    ("values", "key"),
    [
        ({"cuont": 3}, "method.cuont"),
        ({}, "method.count"),
        ({"count": 0}, "method.count"),
        ({"count": 1.5}, "method.count"),
        ({"count": "3"}, "method.count"),
        ({"count": True}, "method.count"),
        ({"count": 1, "rate": "fast"}, "method.rate"),
        ({"count": 1, "rate": float("nan")}, "method.rate"),
        ({"count": 1, "kind": "rihgt"}, "method.kind"),
        ({"count": 1, "limit": 2}, "method"),
    ],
    ids=str,
)
def test_wrong_values_are_answered(sentence, values, key):
    with pytest.raises(ConfigError) as caught:
        construct(Settings, values, "method")
    assert re.match(rf"{re.escape(key)}[ :=]", str(caught.value)), caught.value
    sentence(str(caught.value))


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
    ("override", "key"),
    [
        ("method=hmcc", "method=hmcc"),
        ("metod=hmc", "metod"),
        ("method.nburn=3", "method.nburn"),
        ("method=null", "method=null"),
        ("seed=[1", "seed=[1"),
        ("problem", "problem"),
        ("method=hmc,dens", "method=hmc,dens"),
        ("+foo=3", "foo"),
        ("seed=-1", "seed=-1"),
        ("problem.case=nown", "problem.case"),
        ("calibration.n=51", "calibration.n=51"),
        ("device=gpu", "device"),
        ("fidelity.name=fast", "fidelity=fast"),
        ("method.n_burn=${zzz}", "method.n_burn refers to zzz"),
        ("seed=${method.nburn}", "seed refers to method.nburn"),
        ("seed=${nobody:1}", "seed"),
        ("problem.case=???", "problem.case"),
        ("n_burn=3", "n_burn"),
        ("method.n_burn=???", "method.n_burn"),
        ("method._target_=os.system", "add trust=[os]"),
        ("method._target_=sciuq_runner.models.bnn.BNN", "method"),
    ],
)
def test_the_whole_command_line_is_checked(sentence, override, key):
    with pytest.raises(ConfigError) as caught:
        assemble(plain(compose([override], None)))
    assert key in str(caught.value)
    assert "\n" not in str(caught.value)
    sentence(str(caught.value))


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
    ("values", "key"),
    [
        ({"needed": 21}, "problem.needed"),
        ({"needed": None}, "problem.needed"),
        ({"names": "t, x"}, "problem.names"),
        ({"names": "{x}"}, "problem.names"),
        ({"names": None}, "problem.names"),
        ({"values": {"x": 0}}, "problem.values.x"),
        ({"values": {"x": [0, "b"]}}, "problem.values.x"),
        ({"title": 3}, "problem.title"),
        ({"shown": "perhaps"}, "problem.shown"),
        ({"inner": 3}, "problem.inner"),
        ({"needed": {True: ["x"]}}, "problem.needed"),
        ({"values": {False: [0.0]}}, "problem.values"),
        ({"needed": {1: 0}}, "problem.needed"),
        ({True: 0}, "problem"),
        ({"inner": {2.5: 0}}, "problem.inner"),
    ],
    ids=str,
)
def test_mistakes_of_form_are_answered_in_plain_words(sentence, values, key):
    with pytest.raises(ConfigError) as caught:
        construct(Groups, {"needed": {}, **values}, "problem")
    assert re.match(rf"{re.escape(key)}[ :=]", str(caught.value)), caught.value
    sentence(str(caught.value))


def test_a_group_with_nothing_below_it_counts_as_left_out():
    made = construct(Groups, {"needed": {}, "values": None, "inner": None, "maybe": None}, "problem")
    assert made == Groups({}, maybe=None)  # where None has a meaning, it keeps it


def test_a_long_value_is_not_shown_in_full():
    with pytest.raises(ConfigError) as caught:
        check(["reading"] * 1000, dict[str, Any], "problem.grid")
    assert len(str(caught.value)) < 300
    assert str(caught.value).endswith(" ... is not valid: it should be names with values (a: b).")


@pytest.mark.parametrize(
    ("node", "key"),
    [
        ({"coordinates": {"x": [0, 1]}, "unknowns": {"u": ["x"]}}, "problem._target_"),
        ({"n_train": 3}, "problem._target_"),
        (["a"], "problem"),
    ],
    ids=str,
)
def test_without_a_class_the_sentence_says_which_to_write(sentence, node, key):
    with pytest.raises(ConfigError) as caught:
        build(node, "problem", Problem)
    assert re.match(rf"{re.escape(key)}[ :=]", str(caught.value)), caught.value
    sentence(str(caught.value))
