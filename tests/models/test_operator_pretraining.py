"""Learning an operator before a function in front of it is sought: once, in which space, and after faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
import torch
from sciuq_runner.problems.darcy import HEAD, LOG_CONDUCTIVITY, Darcy

from sciuq_runner import files
from sciuq_runner.errors import ConfigError, RunError
from sciuq_runner.models.gan_fp import GANFP
from sciuq_runner.models.gan_training import Adversarial
from sciuq_runner.models.operator_fields import (
    BoundOperatorField,
    OperatorFieldModel,
    OperatorPretraining,
    OperatorTraining,
)
from sciuq_runner.models.pa_bnn_fp import PABNNFP
from sciuq_runner.models.pa_gan_fp import PAGANFP
from sciuq_runner.models.pretraining import Store, pretrain
from sciuq_runner.physics.standardisation import Standardisation
from sciuq_runner.seeds import stream
from sciuq_runner.training import optimisers as optim
from sciuq_runner.training.loop import Loop
from sciuq_runner.training.optimisers import STEPS_PER_CALL
from tests.operators import TINY, Counting

BRIEF = OperatorTraining(n_steps=6, batch=4, compile="never")
SMALL = Adversarial(n_steps=6, batch=8, critic_width=8, compile="never")
GAN = GANFP(latent=3, width=8, n_realisations=20, gan=SMALL)
NOISY = Darcy(case="noisy", n_grid=6, n_terms=20, n_pairs=24, n_lambda=8, n_u=4, n_calibration=2, n_validation=2)
BNN_FP = PABNNFP(operator=TINY, training=BRIEF, width=5, depth=1)
GAN_FP = PAGANFP(operator=TINY, training=BRIEF, prior=GAN)


def bound(settings: OperatorFieldModel, problem: Darcy = NOISY) -> BoundOperatorField:
    readings = {name: item.train for name, item in problem.dataset(stream(0, "data")).items()}
    model = settings.bind(problem, problem.noise, readings)
    assert isinstance(model, BoundOperatorField)
    return model


@pytest.mark.parametrize("mirror", [True, False])
def test_pairs_that_judge_an_operator_do_not_train_it_in_any_position(mirror):
    stage = bound(BNN_FP, replace(NOISY, mirror=mirror)).pretraining()[0]
    assert isinstance(stage, OperatorPretraining)
    n_functions = NOISY.n_pairs
    held, seen = ({int(i) % n_functions for i in part} for part in (stage.held, stage.seen))
    assert not held & seen
    assert held | seen == set(range(n_functions))
    assert len(stage.held) + len(stage.seen) == (1 + mirror) * n_functions


def test_an_operator_that_fails_leaves_its_last_good_weights(tmp_path, monkeypatch):
    """They are of an earlier step, finite, and can be loaded."""
    values = iter([torch.zeros(1)] * 2 + [torch.full((1,), torch.nan)] * 9)
    made = optim.adam

    def failing(*args: Any, **more: Any) -> Any:
        state, value = made(*args, **more)
        wrong = next(values).to(value)
        return optim.AdamState(state.theta + wrong, *list(vars(state).values())[1:]), value + wrong

    monkeypatch.setattr(optim, "adam", failing)
    settings = replace(BNN_FP, training=replace(BRIEF, n_steps=5 * STEPS_PER_CALL))
    with pytest.raises(RunError, match="last good weights are in"):
        pretrain(bound(settings), Store(tmp_path / "store"), tmp_path, Loop())
    state, _ = files.read_tensors(tmp_path / "last_good.safetensors")
    again = bound(settings)
    again.load_operator(state)
    assert again.beta is not None
    assert torch.isfinite(again.beta).all()
    assert not list((tmp_path / "store").glob("*.safetensors"))


def test_an_operator_is_learned_once_and_serves_both_priors(tmp_path):
    store, first, second = Store(tmp_path / "store"), bound(BNN_FP), bound(GAN_FP)
    numbers = pretrain(first, store, tmp_path, Loop())
    assert numbers["reused"] == 0
    assert 0 < numbers["operator_rl2e"] < 100
    assert numbers["operator_rl2e_standardised"] > 0
    assert len(list((tmp_path / "store").glob("*.safetensors"))) == 1
    assert second.pretraining()[0].key() == first.pretraining()[0].key()
    numbers = pretrain(second, store, tmp_path, Loop())
    assert {"operator_rl2e", "distance", f"{LOG_CONDUCTIVITY}_spectrum_error"} < set(numbers)
    assert len(list((tmp_path / "store").glob("*.safetensors"))) == 2  # the generator came to it
    assert first.beta is not None
    torch.testing.assert_close(second.beta, first.beta)
    for again in (bound(BNN_FP), bound(GAN_FP), bound(BNN_FP, replace(NOISY, new_length=0.15, noise_scale=0.3))):
        assert pretrain(again, store, tmp_path, Loop())["reused"] == 1
        torch.testing.assert_close(again.beta, first.beta)


class Doubled(Darcy):
    """In other units of the output, and in nothing else."""

    def transforms(self) -> Mapping[str, Standardisation]:
        known = super().transforms()
        return {**known, "u": replace(known["u"], scale=2 * known["u"].scale)}


CHANGES = {
    "pairs": (BNN_FP, replace(NOISY, data_seed=1)),
    "fewer pairs": (BNN_FP, replace(NOISY, n_pairs=23)),
    "target": (BNN_FP, replace(NOISY, target="log_u")),
    "points": (BNN_FP, replace(NOISY, stride=2)),
    "sensors": (BNN_FP, replace(NOISY, input_stride=2)),
    "network": (replace(BNN_FP, operator=replace(TINY, n_modes=15)), NOISY),
    "training": (replace(BNN_FP, training=replace(BRIEF, n_steps=7)), NOISY),
    "number": (replace(BNN_FP, n_operators=2), replace(NOISY, n_u=0)),
    "seed": (replace(BNN_FP, pretrain_seed=1), NOISY),
    "space": (replace(BNN_FP, training=replace(BRIEF, space="plain")), NOISY),
    "units": (BNN_FP, Doubled(**asdict(NOISY))),
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_operator_is_not_mistaken_for_it(change):
    assert bound(*CHANGES[change]).pretraining()[0].key() != bound(BNN_FP).pretraining()[0].key()


def test_the_logarithm_of_a_positive_output_is_learned(tmp_path):
    """What comes out is the output all the same, in the units of the problem, between places of the grid as well."""
    model = bound(BNN_FP)
    pretrain(model, Store(tmp_path / "store"), tmp_path, Loop())
    assert model.beta is not None
    pairs, wanted = NOISY.pairs(), NOISY.transforms()["u"]
    learned = Standardisation.fit(pairs.x, pairs.y, log=True)
    x, functions = np.array([[0.3, 0.4], [0.77, 0.11], [0.01, 0.99]]), torch.tensor(pairs.inputs[:5])
    raw = model.operator.network(model.beta.double(), torch.tensor(x), functions)
    heads = np.asarray(learned.undo(raw, x)[0][0])
    assert (heads > 0).all()
    found = model.operate(model.beta.double(), torch.tensor(x), functions)[0]
    np.testing.assert_allclose(found, wanted.apply(heads, x), rtol=1e-9)
    plain = bound(replace(BNN_FP, training=replace(BRIEF, space="plain")))
    pretrain(plain, Store(tmp_path / "store"), tmp_path, Loop())
    assert not plain.units


@pytest.mark.parametrize("space", ["plain", "log"])
def test_a_network_that_gives_what_it_should_learn_has_no_error(space, monkeypatch):
    model = bound(replace(BNN_FP, training=replace(BRIEF, space=space)))
    stage = model.pretraining()[0]
    assert isinstance(stage, OperatorPretraining)
    pairs = NOISY.pairs()
    learned = Standardisation.fit(pairs.x, pairs.y, log=True) if space == "log" else NOISY.transforms()["u"]
    np.testing.assert_allclose(stage.y, learned.apply(pairs.y, pairs.x), atol=1e-6)
    monkeypatch.setattr(loop := Loop(), "steps", lambda *_: ())
    stage.load(stage.run(loop))
    monkeypatch.setattr(model.operator, "network", lambda beta, x, functions: stage.y[None, :, stage.held])
    numbers, _ = stage.judge()
    assert max(numbers.values()) < 1e-5


SPACES = {
    "log_u": (replace(NOISY, target="log_u"), False),
    "noisy heads": (replace(NOISY, train_noise=0.1), False),
    "some heads": (replace(NOISY, stride=2), False),
    "clean heads": (NOISY, True),
}


@pytest.mark.parametrize("kind", SPACES)
def test_the_logarithm_is_taken_where_this_is_possible(kind):
    problem, wanted = SPACES[kind]
    stage = bound(BNN_FP, problem).pretraining()[0]
    assert isinstance(stage, OperatorPretraining)
    assert bool(stage.units) == wanted


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"target": "log_u"}, "u is a logarithm already"),
        ({"train_noise": 3.0}, "u is not positive in all pairs, or noisy"),
        ({"stride": 2}, "u of the pairs is not read everywhere"),
    ],
)
def test_a_logarithm_that_cannot_be_taken_is_refused(settings, reason):
    asked = replace(BNN_FP, training=replace(BRIEF, space="log"))
    with pytest.raises(ConfigError, match=rf"^model\.training\.space=log: {reason}: use plain\.$"):
        bound(asked, replace(NOISY, **settings))


def test_how_fast_it_is_learned_does_not_matter():
    compiled = replace(BNN_FP, training=replace(BRIEF, compile="always"), width=7)
    assert bound(compiled).pretraining()[0].key() == bound(BNN_FP).pretraining()[0].key()


@pytest.mark.parametrize("settings", [BNN_FP, GAN_FP], ids=["bnn", "gan"])
def test_a_saved_model_needs_no_readings(settings, tmp_path):
    model, again = bound(settings), settings.bind(NOISY, NOISY.noise)
    pretrain(model, Store(tmp_path / "store"), tmp_path, Loop())
    again.load_state(model.state())
    theta, x = model.init(3, torch.Generator().manual_seed(0)), torch.linspace(0.1, 0.9, 10).double().view(5, 2)
    for name in (LOG_CONDUCTIVITY, HEAD):
        found = model.observe(theta, name, x)
        assert found.shape == (3, 5, 1)
        torch.testing.assert_close(again.observe(theta, name, x), found)
    assert "pairs" not in vars(again)


@pytest.mark.parametrize("stage", [0, 1], ids=["operator", "generator"])
def test_pretraining_goes_on_in_the_stage_where_it_was_interrupted(stage, tmp_path):
    settings = replace(GAN_FP, training=replace(BRIEF, n_steps=3 * STEPS_PER_CALL))
    whole, every = bound(settings), Counting()
    pretrain(whole, Store(tmp_path / "a"), tmp_path / "a", Loop(every))
    names = list(every.made)
    display = Counting(names[stage])
    display.loop = Loop(display, tmp_path / "b" / "checkpoint.safetensors", 1e9)
    with pytest.raises(KeyboardInterrupt):
        pretrain(bound(settings), Store(tmp_path / "b"), tmp_path / "b", display.loop)
    resumed, rest = bound(settings), Counting()
    pretrain(resumed, Store(tmp_path / "b"), tmp_path / "b", Loop(rest, tmp_path / "b" / "checkpoint.safetensors", 1e9))
    for name, tensor in whole.state().items():
        torch.testing.assert_close(resumed.state()[name], tensor, rtol=0, atol=0)
    assert display.made[names[stage]] + rest.made[names[stage]] == every.made[names[stage]]
