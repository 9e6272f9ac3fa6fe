"""Every finding of the paper can be confirmed and can fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

from sciuq_runner.report.recorded_runs import RecordedRun
from sciuq_runner.reproduction.evidence import Evidence, NotEnough
from sciuq_runner.reproduction.findings import judge
from sciuq_runner.reproduction.paper_jobs import Job, jobs_of
from sciuq_runner.reproduction.paper_statements import FINDINGS, outcome
from tests.reproduction.conftest import FIDELITY, fake_run

T = TypeVar("T")
Value = Callable[[frozenset[str], str], float]
"""A number for the preset and choices of a job, all words together, and a metric."""


class Made:
    """Numbers instead of runs."""

    def __init__(self, value: Value | None = None) -> None:
        self.value = value

    def mean(self, preset: str, choices: str | Iterable[str], metric: str) -> float:
        if self.value is None:
            raise NotEnough
        words = [choices] if isinstance(choices, str) else list(choices)
        return self.value(frozenset([preset, *(word.partition("=")[2] for word in words)]), metric)

    def on_equal_terms(self, check: Callable[[Made], T]) -> T:
        return check(self)

    def jobs(self, preset: str) -> dict[frozenset[str], Job]:
        by = {"var": {"_target_": "sciuq_runner.calibration.var.Var"}}
        models = ("pi_gan", "nnpc", "nnpc_plus")
        names = [(f"model={name}",) for name in models]
        names += [
            (f"model={m}", f"problem.new_length={n}") for m in ("pa_bnn_fp", "pa_gan_fp") for n in ("0.25", "0.2")
        ]
        return {frozenset(item): Job(preset, item, {"calibration": {"by": by}}) for item in names}


def ranked(*first: str, low: float = 1.0, high: float = 2.0) -> Value:
    """Low for jobs with one of these words, high for others; the other way round for likelihoods."""

    def value(words: frozenset[str], metric: str) -> float:
        chosen = bool(words & set(first))
        return high if chosen == metric.endswith(("mpl", "mpl_standardised")) else low

    return value


def opposite(value: Value) -> Value:
    """What was low is high."""
    return lambda words, metric: 3.0 - value(words, metric)


def noise_and_size(words: frozenset[str], metric: str) -> float:
    """Grows with the noise and with fewer readings."""
    return float(next(iter(words & {"0.1", "0.3", "0.5"}))) * (2.0 if "16" in words else 1.0)


def outside_alone(words: frozenset[str], metric: str) -> float:
    """The same, seen out of distribution alone: what is not along all of x would miss it."""
    return noise_and_size(words, metric) if "ood" in metric else 0.01


def growing(mcd: float, where: str) -> Value:
    """HMC grows fivefold with the noise or twofold with fewer readings, and MCD by a share of that."""
    first, last = {"noise": ("0.1", "0.5"), "size": ("32", "16")}[where]

    def value(words: frozenset[str], metric: str) -> float:
        rise = (4.0 if where == "noise" else 1.0) * (mcd if "mcd" in words else 1.0)
        return 1.0 + rise if last in words else 1.0 if first in words else 1.0 + rise / 2

    return value


def wider(hmc: float, mfvi: float) -> Value:
    """Bands that are so many times as wide out of distribution."""
    return lambda words, metric: 1.0 if "/id/" in metric else hmc if "hmc" in words else mfvi


def operators(inside: float, outside: float) -> Value:
    """How many times the error of their ensemble that of members is."""

    def value(words: frozenset[str], metric: str) -> float:
        return (inside if "/id/" in metric else outside) if "/member" in metric else 1.0

    return value


def only(model: str, statistic: str, low: float, high: float) -> Value:
    """High for one statistic of one model."""
    return lambda words, metric: high if model in words and metric.startswith(statistic) else low


def by_metric(**values: float) -> Value:
    """A number for every end of a metric, with __ for a stroke."""
    known = {key.replace("__", "/"): value for key, value in values.items()}
    return lambda words, metric: next(value for key, value in known.items() if metric.endswith(key))


def spread_over(words: frozenset[str], metric: str) -> float:
    """Methods that differ before calibration and not after."""
    return 0.1 if "cal" in metric else 0.1 + 0.01 * len("".join(sorted(words)))


def apart(learned: bool) -> Value:
    """Networks that differ where the prior is fixed, or where it is learned."""
    return lambda words, metric: 2.0 if "4x50" in words and str(learned) in words else 1.0


def noisier(model: str) -> Value:
    """Noise costs one model more."""
    return lambda words, metric: 2.0 if "spde_noisy" in words and model in words else 1.0


def lengths(sign: float) -> Value:
    """Errors that fall with the correlation length, and scores that follow or do the opposite."""

    def value(words: frozenset[str], metric: str) -> float:
        if "rise" in metric:
            return sign
        place = 0.25 if metric.endswith("_id") else float(metric.rpartition("_")[2])
        return -place if "/rl2e/" in metric else -sign * place

    return value


def calibrated(after: float, train: float = 1.0) -> Value:
    """Calibration errors of 1 before, and of something else after calibration with ten readings, or with training's."""

    def value(words: frozenset[str], metric: str) -> float:
        return 1.0 if metric.endswith("/none/0") else train if "/train/" in metric else after

    return value


METRICS: dict[str, tuple[Value, Value]] = {  # numbers that confirm, and numbers that do not
    "hmc_grows_with_noise": (outside_alone, lambda words, metric: 1.0),
    "hmc_grows_with_fewer_readings": (outside_alone, lambda words, metric: 1.0),
    "mcd_does_not_grow_with_noise": (growing(0.49, "noise"), growing(0.51, "noise")),
    "mcd_does_not_grow_with_fewer_readings": (growing(0.49, "size"), growing(0.51, "size")),
    "mcd_is_likelier": (ranked("mcd"), opposite(ranked("mcd"))),
    "three_are_least_competitive": (opposite(ranked("ld", "mfvi", "swag")), opposite(ranked("hmc", "mfvi", "swag"))),
    "hmc_knows_what_it_has_not_seen": (
        lambda words, metric: 5.0 if "hmc" in words and "ood" in metric else 1.0,
        lambda words, metric: 5.0 if "ood" in metric else 1.0,
    ),
    "ld_does_not_tell": (by_metric(id__piw=1.0, ood__piw=1.2), by_metric(id__piw=1.0, ood__piw=1.3)),
    "larger_networks_are_less_sure": (ranked("2x50"), ranked("2x50", "4x50")),
    "a_learned_prior_makes_networks_alike": (apart(False), apart(True)),
    "calibration_makes_methods_alike": (spread_over, lambda words, metric: 0.2 - spread_over(words, "x" + metric[6:])),
    "calibration_costs_swag_elsewhere": (
        lambda words, metric: 0.3 if "cal" in metric else 0.2,
        lambda words, metric: 0.1 if "cal" in metric else 0.2,
    ),
    "hmc_is_calibrated_best": (
        ranked("hmc"),
        lambda words, metric: 0.1 if "la" in words and "cal" not in metric else 0.2 if "hmc" in words else 0.3,
    ),
    "cheap_methods_are_as_accurate": (ranked("hmc", low=1.0, high=1.2), ranked("hmc", low=1.0, high=1.3)),
    "functional_prior_is_most_accurate": (ranked("hmc_fp"), ranked("dens")),
    "ensemble_is_likeliest": (ranked("dens"), ranked("hmc_fp")),
    "networks_are_calibrated_best": (ranked("hmc"), ranked("hmc_fp")),
    "functional_prior_is_calibrated_best_outside": (ranked("hmc_fp"), ranked("hmc")),
    "cold_posteriors_are_likelier": (ranked("0.5"), ranked("1.0")),
    "mfvi_does_not_tell": (wider(2.0, 1.5), wider(2.0, 1.51)),
    "networks_are_less_sure": (ranked("hmc_fp"), ranked("hmc")),
    "statistics_are_not_covered": (by_metric(coverage=0.49), only("nnpc", "lambda_std", 0.1, 0.51)),
    "decoder_is_surest": (ranked("nnpc_plus"), only("nnpc_plus", "u_std", 1.0, 2.0)),
    "bands_cover_operators": (
        by_metric(coverage=0.91),
        lambda words, metric: 0.89 if metric == "u/ood_0.15/coverage" else 0.99,
    ),
    "functional_prior_beats_networks": (ranked("hmc_fp"), ranked("hmc")),
    "dear_methods_are_more_accurate": (ranked("hmc", "dens"), ranked("hmc", "mfvi")),
    "ensemble_is_overconfident": (ranked("dens"), by_metric(rl2e=1.0, epistemic_std=2.0)),
    "bands_cover_the_solution": (by_metric(coverage=0.95), by_metric(coverage=0.85)),
    "noise_is_found": (by_metric(mean=0.055), by_metric(mean=0.065)),
    "hard_cases_are_harder": (ranked("mixed_pde_standard"), ranked("steep")),
    "bands_cover_hard_cases": (by_metric(coverage=0.85), by_metric(coverage=0.75)),
    "decoder_is_robust_to_noise": (noisier("nnpc"), noisier("nnpc_plus")),
    "spectra_are_found": (by_metric(rl2e=0.1), by_metric(rl2e=0.11)),
    "two_steps_are_more_accurate": (ranked("gp_pi_gan"), ranked("bnn")),
    "two_steps_are_overconfident": (ranked("gp_pi_gan"), ranked("bnn")),
    "learned_prior_is_better": (ranked("pa_gan_fp"), ranked("pa_bnn_fp")),
    "learned_prior_is_better_outside": (ranked("pa_gan_fp"), ranked("pa_bnn_fp")),
    "networks_are_calibrated_better": (ranked("pa_bnn_fp"), ranked("pa_gan_fp")),
    "networks_are_calibrated_better_outside": (ranked("pa_bnn_fp"), ranked("pa_gan_fp")),
    "other_fields_are_harder": (ranked("0.25"), ranked("0.25", low=1.0, high=1.4)),
    "ensembles_beat_members": (operators(1.1, 1.5), operators(1.1, 1.49)),
    "members_disagree_outside": (by_metric(id=1.0, **{"ood_0.15": 2.0}), by_metric(id=2.0, **{"ood_0.15": 1.0})),
    "scores_follow_the_error": (lengths(1.0), lengths(-1.0)),
    "few_readings_calibrate_swag": (calibrated(0.9), calibrated(1.1)),
    "training_readings_do_not_calibrate": (calibrated(1.0, train=1.1), calibrated(1.0, train=0.9)),
    "few_realisations_calibrate": (calibrated(1 / 3.1), calibrated(1 / 2.9)),
    "few_readings_calibrate_fields": (calibrated(1 / 2.1), calibrated(1 / 1.9)),
    "functional_prior_is_calibrated_far_better": (
        ranked("hmc_fp", low=1.0, high=6.1),
        lambda words, metric: 1.0 if "hmc_fp" in words else 5.9 if metric.startswith("lambda") else 6.1,
    ),
    "both_priors_cover_fields": (by_metric(coverage=0.81), ranked("pa_gan_fp", low=0.79, high=0.9)),
    "smoother_conductivities_are_easier": (
        lengths(1.0),
        lambda words, metric: 1.0 if metric.endswith("0.35") else lengths(1.0)(words, metric),
    ),
    "dear_methods_perform_best": (ranked("hmc", "dens"), ranked("hmc", "dens", "sens")),
    "cheap_methods_are_calibrated_less_well": (ranked("hmc", "dens", "la"), ranked("hmc", "la")),
    "dear_methods_take_longest": (opposite(ranked("hmc", "dens")), opposite(ranked("hmc"))),
    "only_networks_cover_other_fields": (ranked("pa_gan_fp", low=0.7, high=0.9), by_metric(coverage=0.9)),
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mcd_does_not_grow_with_noise", lambda words, metric: 1.0),  # nor does HMC
        ("mcd_does_not_grow_with_fewer_readings", lambda words, metric: 1.0),
        ("mfvi_does_not_tell", wider(1.0, 1.0)),
        ("ensembles_beat_members", operators(2.0, 1.9)),  # as much in distribution
    ],
)
def test_what_is_said_of_one_beside_another_needs_both(name, value):
    assert outcome(FINDINGS[name], Made(value)).answer == "not confirmed"


@pytest.mark.parametrize("name", METRICS)
def test_numbers_can_confirm_a_finding_and_refute_it(name):
    for value, answer in zip(METRICS[name], ("confirmed", "not confirmed"), strict=True):
        found = outcome(FINDINGS[name], Made(value))
        assert found.answer == answer
        assert found.numbers
    assert outcome(FINDINGS[name], Made()).answer == "not enough runs"


def test_every_finding_is_tested_and_without_runs_none_is_decided():
    assert set(METRICS) == set(FINDINGS)
    assert {item.answer for item in judge(Made())} == {"not enough runs"}


def test_names_of_jobs_and_metrics_in_findings_are_those_of_the_presets(as_in_the_paper):
    """A name that no preset has would be an error, not a lack of runs."""
    found = judge(Evidence(as_in_the_paper, FIDELITY))
    assert len(found) == len(FINDINGS)
    assert "confirmed" in {item.answer for item in found}


def test_jobs_are_compared_on_the_seeds_that_all_of_them_have():
    """Seed 2 is a draw that is easy for whoever has it; and what two jobs do not share decides nothing."""
    jobs = {job.choices[0].partition("=")[2]: job for job in jobs_of("forward_n15", "smoke")}

    def runs(model: str, errors: dict[int, float]) -> list[RecordedRun]:
        return [fake_run(jobs[model], seed, {"u/id/rl2e": error}) for seed, error in errors.items()]

    networks = runs("bnn", {0: 2.0, 1: 2.0, 2: 0.1, 3: 0.1})
    item = FINDINGS["two_steps_are_more_accurate"]
    found = outcome(item, Evidence([*networks, *runs("gp_pi_gan", {0: 1.5, 1: 1.5})], "smoke"))
    assert (found.answer, dict(found.numbers)) == ("confirmed", {"bnn": 2.0, "gp_pi_gan": 1.5})
    assert outcome(item, Evidence([*networks, *runs("gp_pi_gan", {7: 1.5})], "smoke")).answer == "not enough runs"
