"""Problems from YAML files: twins of the built-in ones, what a file can say, and the examples at work."""

from __future__ import annotations

import shutil
import subprocess
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from sciuq_runner.problems.forward_pde import ForwardPDE
from sciuq_runner.problems.function import Function
from sciuq_runner.problems.mixed_pde import AFTER_THE_START, MixedPDE
from sciuq_runner.problems.user import UserProblem

from sciuq_runner.errors import RunError
from sciuq_runner.files import read_tensors
from sciuq_runner.methods.dens import DEns
from sciuq_runner.methods.hmc import HMC
from sciuq_runner.methods.la import LA
from sciuq_runner.methods.ld import LD
from sciuq_runner.methods.mcd import MCD
from sciuq_runner.methods.mfvi import MFVI
from sciuq_runner.methods.nuts import NUTS
from sciuq_runner.methods.sens import SEns
from sciuq_runner.methods.sgld import SGLD
from sciuq_runner.methods.swag import SWAG
from sciuq_runner.models.bnn import BNN
from sciuq_runner.models.gp_pi_gan import GPPIGAN
from sciuq_runner.physics.problem import Observations, Problem
from sciuq_runner.schema import build
from sciuq_runner.target.density import Target
from sciuq_runner.training.loop import Loop
from tests.conftest import Inside, environment, program, read_metrics, run_folders, start_and_kill
from tests.problems.conftest import SIMPLE, TARGET, changed, problem, save, write

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> UserProblem:
    return problem(EXAMPLES, yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text()))


# Twins


def columns(names: str, readings: Observations) -> dict[str, np.ndarray]:
    """Observations that are listed once for each of their copies, once."""
    n = readings.count
    return dict(zip(names.split(), [*readings.x[:n].T, readings.y[:n, 0]], strict=True))


def function_twin(folder: Path) -> tuple[Problem, dict[str, Any]]:
    twin = Function()
    data = twin.dataset(np.random.default_rng(0))
    save(folder / "u.csv", **columns("x u", data["u"].train))
    return twin, {
        "coordinates": {"x": [-1, 1]},
        "unknowns": {"u": ["x"]},
        "observed": {"u": {"file": "u.csv", "noise": 0.1}},
    }


def mixed_twin(folder: Path, case: str) -> tuple[Problem, dict[str, Any]]:
    twin = MixedPDE(case=case, n_test_x=5, n_test_t=5)
    data = twin.dataset(np.random.default_rng(0))
    save(folder / "u.npz", **columns("t x u", data["u"].train))
    source = columns("t x f", data["f"].train)
    save(folder / "f.mat", place=source["x"], f=source["f"])
    save(folder / "lambda.csv", **columns("x lambda", data["lambda"].train))
    noise: dict[str, Any] = {"kind": "learned", "scale": 0.05, "shape": 0.5, "hyper_scale": 40, "group": "all"}
    if case == "heteroscedastic":
        noise = {"kind": "heteroscedastic", "scale": 0.05, "group": "lambda"}
    return twin, {
        "coordinates": {"t": [0, 1], "x": [-1, 1]},
        "unknowns": {"u": ["t", "x"], "lambda": ["x"]},
        "constants": {"D": 0.01},
        "equations": {"f": "u_t - D*u_xx + lambda*u**3"},
        "observed": {
            "u": {"file": "u.npz", "noise": noise},
            "f": {
                "file": "f.mat",
                "columns": {"x": "place"},
                "repeat": {"t": AFTER_THE_START.tolist()},
                "drift": twin.drift,
                "noise": noise,
            },
            "lambda": {"file": "lambda.csv", "noise": noise},
        },
    }


def forward_twin(folder: Path) -> tuple[Problem, dict[str, Any]]:
    twin = ForwardPDE()
    data = twin.dataset(np.random.default_rng(0))
    for name in ("u", "f"):
        save(folder / f"{name}.csv", **columns(f"x {name}", data[name].train))
    return twin, {
        "coordinates": {"x": [-1, 1]},
        "unknowns": {"u": ["x"]},
        "equations": {"f": "0.01*u_xx - 0.7*u**3"},
        "observed": {name: {"file": f"{name}.csv", "noise": 0.1} for name in ("u", "f")},
    }


TWINS = {
    "function": function_twin,
    "mixed_pde standard": lambda folder: mixed_twin(folder, "standard"),
    "mixed_pde heteroscedastic": lambda folder: mixed_twin(folder, "heteroscedastic"),
    "forward_pde": forward_twin,
}


def target_of(chosen: Problem) -> Target:
    data = chosen.dataset(np.random.default_rng(0))
    readings = {name: item.train for name, item in data.items()}
    model = BNN(width=20).bind(chosen, chosen.noise)
    return Target(model, chosen.noise, readings, dtype=torch.float64)


@pytest.mark.parametrize("name", TWINS)
def test_a_yaml_twin_has_the_same_log_density_and_gradient(name, tmp_path):
    ours, node = TWINS[name](tmp_path)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(node, sort_keys=False))
    theirs = problem(tmp_path, yaml.safe_load((tmp_path / "mine.yaml").read_text()))
    targets = [target_of(ours), target_of(theirs)]
    assert targets[0].size == targets[1].size
    assert targets[0].n_observations == targets[1].n_observations
    theta = 0.5 * torch.randn(3, targets[0].size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = []
    for target in targets:
        at = theta.clone().requires_grad_()
        density = target.log_density(at)
        found.append((density, *torch.autograd.grad(density.sum(), at)))
    torch.testing.assert_close(found[1][0], found[0][0], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(found[1][1], found[0][1], rtol=1e-9, atol=1e-9)


# What a file can say


def test_what_becomes_of_a_file(base, tmp_path):
    found = problem(tmp_path, base)
    assert found.coordinates_of("flux") == ("t", "x")
    assert found.direct == ("u", "q")
    assert found.scalars["k"].reference == 2
    assert {name: (noise.kind, noise.scale) for name, noise in found.noise.items()} == {
        "u": ("known", 0.1),
        "q": ("learned", 0.2),
        "heat": ("exact", 0.01),
        "left": ("exact", 0.05),
        "flux": ("exact", 1.0),
    }
    data = found.dataset(np.random.default_rng(0))
    assert {name: len(item.train) for name, item in data.items()} == {"u": 12, "q": 6, "heat": 20, "left": 5, "flux": 0}
    t, x = data["u"].test.x.T
    assert np.unique(t).tolist() == pytest.approx([0, 0.3, 1 / 3, 2 / 3, 1])
    np.testing.assert_allclose(data["u"].reference[:, 0], t * x)
    assert 0.03 < np.std(data["u"].test.y - data["u"].reference) < 0.3
    assert {name: int(mask.sum()) for name, mask in data["u"].splits.items()} == {"id": 30, "end": 6, "third": 6}
    assert list(data["q"].splits) == ["id"]
    assert set(data["left"].test.x[:, 1]) == {-1.0}
    np.testing.assert_allclose(data["left"].train.y, np.sin(data["left"].train.x[:, :1]))
    assert np.isnan(data["flux"].test.y).all()


def test_data_files_are_those_that_are_read(base, tmp_path):
    node = changed(base, {"test.u": {"file": "u.csv"}, "test.left": {"file": "~/left.csv"}})
    found = problem(tmp_path, node).data_files
    assert found == (tmp_path / "mine.yaml", tmp_path / "u.csv", tmp_path / "q.npz", Path.home() / "left.csv")
    in_a_configuration_folder = build({"_target_": TARGET, **node}, "problem", Problem)
    assert in_a_configuration_folder.data_files[0] == Path("u.csv")


def test_the_same_generator_gives_the_same_data(base, tmp_path):
    base["hold_out"] = {"calibration": 2, "validation": 1}
    first, again = (problem(tmp_path, base).dataset(np.random.default_rng(3)) for _ in range(2))
    for name in first:
        for part in ("train", "calibration", "validation", "test"):
            np.testing.assert_array_equal(getattr(first[name], part).y, getattr(again[name], part).y)


def rows(readings: Observations) -> set[tuple[float, ...]]:
    return {tuple(row) for row in np.concatenate([readings.x, readings.y], axis=1).tolist()}


def test_readings_set_aside_are_disjoint_and_all_there(base, tmp_path):
    node = changed(base, {"hold_out": {"calibration": 3, "validation": 2}, "observed.q.hold_out": {"validation": 1}})
    found = problem(tmp_path, node)
    assert found.n_calibration_points == 3
    data = found.dataset(np.random.default_rng(0))
    parts = [rows(part) for part in (data["u"].train, data["u"].calibration, data["u"].validation)]
    assert [len(part) for part in parts] == [7, 3, 2]
    assert set.union(*parts) == rows(problem(tmp_path, base).dataset(np.random.default_rng(0))["u"].train)
    assert [len(part) for part in (data["q"].train, data["q"].calibration, data["q"].validation)] == [5, 0, 1]
    assert not len(data["heat"].calibration)


def test_a_reading_that_holds_at_several_points_is_one(base, tmp_path):
    """All copies of one reading are on one side, and one set aside is compared at one of its points."""
    save(tmp_path / "f.csv", x=np.linspace(-1, 1, 8), f=np.arange(8.0))
    steady = {"file": "f.csv", "repeat": {"t": [0, 0.5, 1]}, "drift": 0.2, "noise": 0.1}
    node = changed(base, {"equations.f": "u_t - q", "observed.f": steady})
    node["hold_out"] = {"calibration": 2, "validation": 1}
    data = problem(tmp_path, node).dataset(np.random.default_rng(0))["f"]
    assert (len(data.train), data.train.copies, data.train.drift) == (15, 3, 0.2)
    assert data.train.count == 5
    assert (len(data.calibration), data.calibration.count, len(data.validation)) == (2, 2, 1)
    sides = [set(part.y[:, 0]) for part in (data.train, data.calibration, data.validation)]
    assert sorted(value for side in sides for value in side) == list(range(8))
    assert set(data.calibration.x[:, 0]) <= {0, 0.5, 1}
    conditions = changed(base, {"observed.left": {"value": 0, "points": 5, "repeat": {"x": [-1, 1]}, "noise": "exact"}})
    left = problem(tmp_path, conditions).dataset(np.random.default_rng(0))["left"]
    assert (len(left.train), left.train.count) == (10, 10)


def test_test_readings_and_conditions_at_one_point(base, tmp_path):
    save(tmp_path / "test.mat", t=[0.5, 0.2, 0.2], where=[0, 1, -1], u=[1, 2, 3])
    more = {"test.u": {"file": "test.mat", "columns": {"x": "where"}}, "observed.left.at": {"t": 0, "x": -1}}
    more["observed.left.points"] = ...
    data = problem(tmp_path, changed(base, more)).dataset(np.random.default_rng(0))
    assert data["u"].test.x.tolist() == [[0.2, -1], [0.2, 1], [0.5, 0]]
    assert data["u"].test.y[:, 0].tolist() == [3, 2, 1]
    assert list(data["u"].splits) == ["id"]
    assert data["left"].train.x.tolist() == [[0, -1]]


@pytest.mark.parametrize(
    "known",
    [
        {"value": 0, "repeat": {"x": [-1, 1]}, "noise": "exact"},
        {"value": 0, "at": {"t": 0}, "points": 7, "noise": "exact"},
        {"file": "q.npz", "columns": {"u": "q"}, "at": {"t": 0}, "noise": 0.1},
    ],
)
def test_a_field_is_predicted_everywhere_wherever_it_is_read(base, tmp_path, known):
    """An equation that is a condition is judged where it holds, the field itself on the whole grid."""
    data = problem(tmp_path, changed(base, {"observed.u": known})).dataset(np.random.default_rng(0))["u"]
    assert len(data.test) == 30
    assert len(data.reference) == 30


def test_true_noise_makes_test_readings(base, tmp_path):
    student = {"kind": "learned", "family": "student_t", "degrees_of_freedom": 6, "reference": 0.3}
    node = changed(base, {"observed.u.noise": student, "grid": {"t": 41, "x": 41}})
    data = problem(tmp_path, node).dataset(np.random.default_rng(0))["u"]
    expected = 0.3 * np.sqrt(6 / 4)
    assert data.noise_reference is not None
    assert data.noise_reference[0, 0] == pytest.approx(expected)
    assert np.std(data.test.y - data.reference) == pytest.approx(expected, rel=0.15)


def test_physics_of_a_file(base, tmp_path):
    """Against autograd, with an unknown number, a constant, a coordinate and two fields."""
    node = changed(base, {"equations.heat": "u_t - D*u_xx + k*sin(x)*u*q_x"})
    made = problem(tmp_path, node)
    model = BNN(width=8).bind(made, made.noise)
    theta = torch.randn(2, model.n_params, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    points = torch.rand(5, 2, dtype=torch.float64, requires_grad=True)
    parts, k = model.parts(theta), model.parameters(theta[:, -1:])["k"]
    found = model.observe(theta, "heat", points)
    for member in range(2):
        u = model.networks["u"](parts["u"][member : member + 1], points)[0, :, 0]
        q = model.networks["q"](parts["q"][member : member + 1], points[:, 1:])[0, :, 0]
        u_t, u_x = torch.autograd.grad(u.sum(), points, create_graph=True)[0].T
        u_xx = torch.autograd.grad(u_x.sum(), points, create_graph=True)[0][:, 1]
        q_x = torch.autograd.grad(q.sum(), points)[0][:, 1]
        expected = u_t - 0.1 * u_xx + k[member] * torch.sin(points[:, 1]) * u * q_x
        torch.testing.assert_close(found[member, :, 0], expected)


@pytest.mark.full
@pytest.mark.parametrize("name", ["rod", "kdv", "epidemic", "poisson"])
def test_examples_compile_in_one_graph(name):
    target = target_of(example(name))
    theta = 0.1 * torch.randn(2, target.size, dtype=torch.float64)
    compiled = torch.compile(target.log_density, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(theta), target.log_density(theta))


@pytest.mark.parametrize("equation", ["u_x + log(u)", "u_x - sqrt(u)", "u_x + u**k"])
@pytest.mark.parametrize(
    "method",
    [
        HMC(n_chains=2),
        LD(n_chains=2, compile="never"),
        SGLD(n_chains=2),
        NUTS(),
        DEns(n_members=2, compile="never"),
        LA(compile="never"),
        MCD(compile="never"),
        MFVI(compile="never"),
        SEns(compile="never"),
        SWAG(compile="never"),
    ],
)
def test_an_equation_without_a_value_at_the_start_is_named(tmp_path, method, equation):
    save(tmp_path / "u.csv", x=np.linspace(0, 1, 3), u=np.ones(3))
    node = yaml.safe_load(SIMPLE.replace("data.csv", "u.csv"))
    node["observed"]["growth"] = {"value": 0, "points": 20, "noise": "exact"}
    node["equations"] = {"growth": equation, "left": "u"}
    node["observed"]["left"] = {"value": 1, "at": {"x": 0}, "noise": "exact"}
    if "k" in equation:
        node["parameters"] = {"k": {"prior": "normal", "mean": 0.5, "std": 0.1}}
    target = target_of(problem(tmp_path, node))
    with pytest.raises(RunError, match=r"starts, since growth is not: write log, sqrt, powers"):
        method.run(target, torch.Generator().manual_seed(0), Loop())


@pytest.mark.parametrize("change", [{"equations": {"f": "2*D*u_xx"}}, {"constants": {"D": 0.2}}])
def test_a_generator_of_other_equations_is_not_mistaken_for_that_of_these(tmp_path, change):
    save(tmp_path / "data.csv", x=np.linspace(0, 1, 5), u=np.ones(5))
    save(tmp_path / "f.csv", x=np.linspace(0, 1, 5), f=np.linspace(0, 1, 5) ** 2)
    node = yaml.safe_load(SIMPLE)
    node |= {"constants": {"D": 0.1}, "equations": {"f": "D*u_xx"}}
    node["observed"]["f"] = {"file": "f.csv", "noise": 0.1}

    def key(node: dict[str, Any]) -> str:
        made = problem(tmp_path, node)
        readings = {name: item.train for name, item in made.dataset(np.random.default_rng(0)).items()}
        (stage,) = GPPIGAN(latent=3, n_realisations=20, n_places=5).bind(made, made.noise, readings).pretraining()
        return stage.key()

    assert key(node) == key(deepcopy(node))
    assert key(node) != key({**node, **change})


# The real program


def check_run(folder: Path, quantities: set[str], parameters: set[str]) -> dict[str, Any]:
    found = read_metrics(folder)
    assert quantities <= set(found)
    assert set(found["parameters"]) == parameters
    with np.load(folder / "predictions.npz") as arrays:
        for name in arrays["quantities"]:
            assert np.isfinite(arrays[f"{name}_mean"]).all()
    assert "could not be drawn" not in (folder / "run.log").read_text()
    return found


@pytest.mark.cli
@pytest.mark.parametrize(
    ("name", "judged", "parameters", "more"),
    [
        pytest.param("kdv", {"u"}, {"a", "b"}, [], marks=pytest.mark.full),
        ("epidemic", {"s", "i", "r"}, {"beta", "gamma"}, ["calibration=var"]),
        pytest.param("poisson", {"u", "f"}, set(), ["calibration=[var,cdf]"], marks=pytest.mark.full),
    ],
)
def test_examples_run_from_their_files_alone(inside: Inside, tmp_path, name, judged, parameters, more):
    """Two methods in one sweep; calibrated where readings are set aside."""
    settings = (f"problem={EXAMPLES / name}.yaml", "method=hmc,dens", "fidelity=smoke", "tracking=none", *more)
    found = inside("-m", *settings)
    assert found.status == 0, found.out + found.err
    assert "Traceback" not in found.out + found.err
    folders = run_folders(tmp_path)
    assert len(folders) == 2
    for folder in folders:
        metrics = check_run(folder, judged, parameters)
        for quantity in judged:
            assert metrics[quantity]["id"]["rl2e"] > 0
        calibrated = {quantity for quantity in judged if "cal_id" in metrics[quantity]}
        assert calibrated == {"kdv": set(), "epidemic": {"i", "r"}, "poisson": {"f"}}[name]
        figures = {path.name for path in (folder / "figures").glob("*.png")}
        assert ("distributions.png" in figures) == bool(parameters)
        if name != "epidemic":
            assert "u_maps.png" in figures


@pytest.mark.cli
def test_the_first_example_runs(inside, tmp_path):
    """The walk-through of the README, with its slices, learned noise and unknown number."""
    found = inside(f"problem={EXAMPLES}/rod.yaml", "method=hmc", "fidelity=smoke", "tracking=none")
    assert found.status == 0, found.out + found.err
    (folder,) = run_folders(tmp_path)
    metrics = check_run(folder, {"u"}, {"k"})
    assert metrics["u"]["end"]["rl2e"] > 0
    assert metrics["noise"]["u"]["mean"] > 0
    assert metrics["parameters"]["k"]["lower"] < metrics["parameters"]["k"]["upper"]
    assert {"u_maps.png", "distributions.png"} <= {path.name for path in (folder / "figures").glob("*.png")}


@pytest.mark.cli
def test_planes_of_three_coordinates_are_drawn(inside: Inside, tmp_path):
    """Where a slice fixes one of them, as lines are where it fixes all but one."""
    write(
        tmp_path,
        """
coordinates: {t: [0, 1], x: [0, 1], y: [0, 1]}
unknowns: {u: [t, x, y]}
observed:
  u: {value: "t + x*y", points: 30, noise: 0.1}
exact: {u: "t + x*y"}
grid: {t: 3, x: 5, y: 4}
slices: {end: {t: 1}, edge: {t: 1, x: 0}}
""",
    )
    found = inside("problem=mine.yaml", "method=dens", "fidelity=smoke", "tracking=none")
    assert found.status == 0, found.out + found.err
    (folder,) = run_folders(tmp_path)
    figures = {path.name for path in (folder / "figures").glob("*.png")}
    assert {"u_end_maps.png", "u_edge_bands.png"} <= figures
    assert "u_maps.png" not in figures


@pytest.mark.cli
def test_readings_alone_are_enough(inside: Inside, tmp_path):
    """Without any truth there are no metrics, but predictions and figures."""
    write(tmp_path, SIMPLE)
    write(tmp_path, "x,u\n0,1\n1,2\n", "data.csv")
    found = inside("problem=mine.yaml", "method=dens", "fidelity=smoke", "tracking=none")
    assert found.status == 0, found.out + found.err
    (folder,) = run_folders(tmp_path)
    assert check_run(folder, {"u"}, set())["u"] == {}
    assert "There are no metrics: the problem names no truth" in found.out
    assert (folder / "figures" / "u_bands.png").is_file()


@pytest.mark.cli
def test_a_user_problem_in_a_configuration_folder(cli, inside: Inside, tmp_path):
    """Named like any other problem; listed in --help."""
    (tmp_path / "mine" / "problem").mkdir(parents=True)
    text = f"# A line of my own\n_target_: {TARGET}\nfile: mine/problem/line.yaml\n{SIMPLE}exact: {{u: x}}\n"
    write(tmp_path / "mine" / "problem", text, "line.yaml")
    write(tmp_path / "mine" / "problem", "x,u\n0,1\n1,2\n", "data.csv")
    found = inside("--config-dir", "mine", "problem=line", "method=dens", "fidelity=smoke", "tracking=none")
    assert found.status == 0, found.out + found.err
    (folder,) = run_folders(tmp_path)
    check_run(folder, {"u"}, set())
    assert "A line of my own" in cli("--help", "--config-dir", "mine").stdout


def copy_of(name: str, folder: Path) -> Path:
    """An example in a folder of its own."""
    folder.mkdir()
    for path in EXAMPLES.glob(f"{name}.*"):
        shutil.copy(path, folder)
    return folder / f"{name}.yaml"


@pytest.mark.cli
@pytest.mark.full
def test_a_finished_run_predicts_without_its_file(cli, tmp_path):
    source = copy_of("rod", tmp_path / "source")
    found = cli("problem=source/rod.yaml", "method=hmc", "fidelity=smoke", "tracking=none")
    assert found.returncode == 0, found.stderr
    shutil.rmtree(source.parent)
    (folder,) = run_folders(tmp_path)
    write(tmp_path, "t,x\n0.5,0.5\n1,0.25\n", "points.csv")
    for quantity in ("u", "heat"):
        command = [
            "from sciuq_runner.cli.predict import main; main()",
            str(folder),
            "points.csv",
            "--quantity",
            quantity,
        ]
        found = subprocess.run(
            [program()[0], "-c", *command], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
        )
        assert found.returncode == 0, found.stderr
        lines = found.stdout.strip().splitlines()
        assert lines[0].startswith("t,x,mean,std")
        assert len(lines) == 3


@pytest.mark.full
@pytest.mark.cli
def test_a_killed_run_of_a_user_problem_is_resumed(cli, tmp_path):
    source = f"problem={copy_of('rod', tmp_path / 'source')}"
    settings = [source, "fidelity=smoke", "tracking=none", "checkpoint_interval=0.05", "method.n_samples=400"]
    undisturbed = cli(*settings)
    assert undisturbed.returncode == 0, undisturbed.stderr
    (reference,) = run_folders(tmp_path)
    killed = start_and_kill(tmp_path, *settings)
    data = tmp_path / "source" / "rod.csv"
    before = data.read_text()
    data.write_text(before.rstrip().rpartition("\n")[0] + "\n")
    refused = cli(f"resume={killed}")
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert f"{data} has changed since the run was started" in refused.stderr
    data.write_text(before)
    resumed = cli(f"resume={killed}")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "Going on after" in resumed.stdout
    ours, theirs = (read_tensors(folder / "samples.safetensors")[0]["theta"] for folder in (killed, reference))
    assert torch.equal(ours, theirs)


def test_files_of_one_name_are_two_problems(tmp_path):
    """And a name that would be read as a number or is taken gets another."""
    from sciuq_runner.config.problem_files import adopt_files

    paths = [tmp_path / name for name in ("a/twin.yaml", "b/twin.yaml", "1.yaml", "function.yaml")]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text("coordinates: {x: [0, 1]}\n")
    (found,) = adopt_files([f"problem={','.join(map(str, paths))}"])
    assert found == "problem=twin,twin_2,user_1,user_function"
    assert adopt_files([f"problem={paths[0]}"]) == ["problem=twin"]
