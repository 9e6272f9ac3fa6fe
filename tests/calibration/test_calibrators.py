"""Calibrated distributions agree with independent integrals, keep their promises and survive odd data."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri

from sciuq_runner.calibration.cdf import CDF
from sciuq_runner.calibration.conformal import Conformal, points_needed
from sciuq_runner.calibration.crude import Crude
from sciuq_runner.calibration.var import Var
from sciuq_runner.evaluation import metrics
from sciuq_runner.predict.calibrated_distributions import read_standard
from sciuq_runner.predict.piecewise import Piecewise
from sciuq_runner.predict.scaled_residual import N_LEVELS, UNCALIBRATED, Normal, Standard
from tests.montecarlo import SIGMAS

CALIBRATORS = [Var(), Var("rmsce"), CDF(), Crude(), Conformal()]
ROUNDING = 1e-10  # levels are sums of up to a hundred masses, divided by pieces no shorter than about 1e-4


def draw(seed: int, size: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(size)


ORDINARY = {
    "gaussian": draw(0, 40),
    "skewed": np.random.default_rng(1).gamma(2, 1.5, 40) - 2,
    "one-sided": np.abs(draw(2, 12)) + 0.5,
    "far out": np.array([-9.0, -8.5, 8.0, 12.0]),
    "one point": np.array([-1.7]),
    "zero among them": np.array([-1.0, 0.0, 2.0]),
}
ODD = {
    "all zero": np.zeros(50),
    "all one": np.ones(50),
    "two points": np.array([-0.3, 2.0]),
    "two equal points": np.array([2.0, 2.0]),
    "ties": np.repeat([-1.0, 0.0, 0.5], 20),
    "nearly ties": 1 + 1e-15 * np.arange(30),
    "ties next to ties": np.repeat([1 - 2.0**-40, 1, 1 + 2.0**-39], 2),
    "one-sided": 3 + np.abs(draw(3, 30)),
    "outlier": np.append(draw(4, 30), 1e6),
    "two outliers": np.append(draw(5, 30), [1e12, -1e12]),
    "tiny": 1e-14 * draw(6, 30),
    "over-confident": 100 * draw(7, 30),
}


def fits(samples: dict[str, np.ndarray]) -> list:
    return [
        pytest.param(calibrator, z, id=f"{calibrator}-{name}")
        for calibrator, (name, z) in itertools.product(CALIBRATORS, samples.items())
    ]


def smooth_parts(standard: Standard, *more: float) -> np.ndarray:
    """Ends of intervals, none longer than one, on which the distribution function is smooth."""
    knots = standard.knots if isinstance(standard, Piecewise) else np.array([])
    return np.unique(np.concatenate([knots, -knots, np.arange(-160.0, 161.0), list(more)]))


def integral(function: Callable[[np.ndarray], np.ndarray], standard: Standard, *more: float) -> float:
    """Gauss-Legendre quadrature on every smooth part."""
    nodes, weights = np.polynomial.legendre.leggauss(30)
    ends = smooth_parts(standard, *more)[:, None]
    half = np.diff(ends, axis=0) / 2
    return float(np.sum(half * weights * function(ends[:-1] + half * (1 + nodes))))


# the distributions


@pytest.mark.parametrize(("calibrator", "z"), fits(ORDINARY))
def test_quantiles_ascend_and_invert_the_distribution_function(calibrator, z):
    standard = calibrator.fit(z)
    p = np.linspace(0, 1, 1001)
    quantiles = standard.quantile(p)
    assert (np.diff(quantiles) > 0).all()
    assert quantiles[0] == -np.inf
    assert quantiles[-1] == np.inf
    np.testing.assert_allclose(standard.cdf(quantiles), p, atol=ROUNDING)
    inner = quantiles[1:-1]
    np.testing.assert_allclose(standard.quantile(standard.cdf(inner)), inner, atol=ROUNDING, rtol=ROUNDING)
    assert standard.cdf(np.array(inner[5])) == standard.cdf(inner)[5]


@pytest.mark.parametrize(("calibrator", "z"), fits(ORDINARY))
def test_density_is_the_derivative_and_integrates_to_one(calibrator, z):
    standard = calibrator.fit(z)
    assert integral(standard.density, standard) == pytest.approx(1, abs=1e-9)
    ends = smooth_parts(standard)
    middle, step = (ends[1:] + ends[:-1]) / 2, np.diff(ends) / 1000
    slope = (standard.cdf(middle + step) - standard.cdf(middle - step)) / (2 * step)
    density = standard.density(middle)
    # the error of a central difference is step^2 / 6 times the second derivative, of a Gaussian z^2 - 1 times itself
    assert (np.abs(slope - density) <= step**2 * (middle**2 + 1) * density + 1e-14 / step).all()


@pytest.mark.parametrize(("calibrator", "z"), fits(ORDINARY))
def test_mean_and_std_are_the_integrals_of_the_appendix(calibrator, z):
    standard = calibrator.fit(z)

    def above(t: np.ndarray) -> np.ndarray:
        return np.where(t > 0, 1 - standard.cdf(t), 0)

    def below(t: np.ndarray) -> np.ndarray:
        return np.where(t < 0, standard.cdf(t), 0)

    mean = integral(above, standard, 0.0) - integral(below, standard, 0.0)
    square = integral(lambda t: 2 * t * (above(t) + below(-t)), standard, 0.0)
    assert standard.mean == pytest.approx(mean, abs=1e-8)
    assert standard.std == pytest.approx(np.sqrt(square - mean**2), rel=1e-8)


@pytest.mark.parametrize(("calibrator", "z"), fits(ORDINARY))
def test_crps_is_the_integral_of_its_definition(calibrator, z):
    standard = calibrator.fit(z)
    at = np.array([-11.0, -2.0, 0.0, 0.6, 8.2, float(z[0])])
    expected = [integral(lambda t, x=x: (standard.cdf(t) - (t >= x)) ** 2, standard, x) for x in at]
    np.testing.assert_allclose(standard.crps(at), expected, rtol=1e-8)


def test_far_pieces_agree_with_the_truncated_normal_distribution():
    standard = Piecewise(np.array([60.0, 60.01]), np.array([0.25, 0.75]), straight=False)
    own = stats.truncnorm(60, 60.01)
    inside = np.linspace(60, 60.01, 11)[1:-1]
    np.testing.assert_allclose(standard.cdf(inside), 0.25 + 0.5 * own.cdf(inside), rtol=1e-9)
    np.testing.assert_allclose(standard.log_density(inside), np.log(0.5) + own.logpdf(inside), rtol=1e-9)
    np.testing.assert_allclose(standard.quantile(standard.cdf(inside)), inside, rtol=1e-12)
    # the left part is practically all of N(0, 1), the right one 60.01 plus about an exponential of that rate
    parts = np.array([[0.25, 0, 1], [0.5, own.mean(), 0], [0.25, 60.01 + 1 / 60.01, 0]])
    mean = parts[:, 0] @ parts[:, 1]
    variance = parts[:, 0] @ (parts[:, 2] + (parts[:, 1] - mean) ** 2)
    assert standard.mean == pytest.approx(mean, rel=1e-6)
    assert standard.std == pytest.approx(np.sqrt(variance), rel=1e-6)


def test_log_density_is_finite_where_the_density_underflows():
    for standard in (UNCALIBRATED, CDF().fit(draw(0, 20)), Crude().fit(draw(0, 20)), Conformal().fit(draw(0, 20))):
        assert standard.density(np.array(60.0)) == 0
        # beyond the last knot the tail of N(0, 1), whose logarithm falls by (z^2 - 60^2) / 2
        fall = standard.log_density(np.array(60.0)) - standard.log_density(np.array(80.0))
        assert fall == pytest.approx((80**2 - 60**2) / 2)


# the calibrators


def test_distribution_functions_are_those_of_the_definitions():
    z = np.sort(1.5 * draw(11, 25) + 0.3)
    ranks = np.arange(1, 26) / 26
    at = np.linspace(-6, 6, 301)
    through = np.concatenate([[0], stats.norm.cdf(z), [1]]), np.concatenate([[0], ranks, [1]])
    np.testing.assert_allclose(CDF().fit(z).cdf(at), np.interp(stats.norm.cdf(at), *through), atol=ROUNDING)

    inner = np.linspace(ranks[0], ranks[-1], 101)
    np.testing.assert_allclose(Crude().fit(z).quantile(inner), np.interp(inner, ranks, z), atol=ROUNDING)
    tail = stats.norm.cdf(at) / stats.norm.cdf(z[0]) * ranks[0]
    np.testing.assert_allclose(Crude().fit(z).cdf(at)[at < z[0]], tail[at < z[0]], rtol=ROUNDING)

    scores = np.sort(np.abs(z))
    inside = np.abs(at) < scores[-1]
    mass = np.interp(np.abs(at), np.append(0, scores), np.append(0, ranks))
    expected = 0.5 + np.sign(at) / 2 * mass
    np.testing.assert_allclose(Conformal().fit(z).cdf(at)[inside], expected[inside], atol=ROUNDING)


@pytest.mark.parametrize("calibrator", [CDF(), Crude()], ids=str)
@pytest.mark.parametrize("spread", [0.0, 0.1])
def test_truth_above_the_prediction_moves_it_up(calibrator, spread):
    truth = 1 + spread * ndtri(np.arange(1, 100) / 100)
    prediction, std = np.zeros(99), np.ones(99)
    standard = calibrator.fit((truth - prediction) / std)
    assert standard.quantile(np.array(0.5)) == pytest.approx(1, abs=1e-12)
    assert standard.mean > 0.5
    assert metrics.evaluate(metrics.SplitArrays(prediction, std, truth, standard))["rl2e"] < 0.5


def test_constant_error_is_corrected_by_crude():
    standard = Crude().fit(np.ones(99))
    # 98 parts of 100 at one, the tails of N(0, 1) on either side one part each
    tails = (1 - stats.norm.pdf(1) / stats.norm.cdf(1) - 1 + stats.norm.pdf(1) / stats.norm.sf(1)) / 100
    assert standard.mean == pytest.approx(0.98 + tails)


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=str)
def test_calibrated_residuals_stay_as_they_are(calibrator):
    n = 999
    z = ndtri(np.arange(1, n + 1) / (n + 1))
    at = np.linspace(-4, 4, 801)
    error = np.abs(calibrator.fit(z).cdf(at) - UNCALIBRATED.cdf(at)).max()
    # a change of scale moves a level by at most max z phi(z) = 0.242 per unit of its logarithm; the mean square differs
    # from one by less than a Riemann sum's error: both extreme terms and the integral beyond them
    square = 2 * (z[-1] ** 2 + z[-1] * stats.norm.pdf(z[-1]) * (n + 1) + 1) / (n + 1)
    bounds = {
        Var(): 0.25 * square,
        # at s = 1 counts are within one of the levels, so the best s is within two in the root mean square of
        # z phi(z), which is 0.175 over all levels where its maximum is 0.242
        Var("rmsce"): 3 / n,
        CDF(): 1e-9,  # the identity up to the resolution of ties
        Crude(): 1 / (n + 1),  # equal at the ranks, so within one between them
        Conformal(): 1 / (n + 1),  # every score comes twice: two ranks of the score, half of them on either side
    }
    assert error < bounds[calibrator] * (1 + 1e-9)


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=str)
@pytest.mark.parametrize("factor", [3.0, 1 / 3], ids=["over-confident", "under-confident"])
@pytest.mark.parametrize("seed", range(3))
def test_rmsce_falls_on_fresh_data(calibrator, factor, seed):
    n, n_fresh = 1000, 20_000
    z, fresh = factor * draw(100 + seed, n), factor * draw(200 + seed, n_fresh)
    zero, one = np.zeros(n_fresh), np.ones(n_fresh)
    before = metrics.rmsce(zero, one, fresh)
    after = metrics.rmsce(zero, one, fresh, calibrator.fit(z))
    # Dvoretzky-Kiefer-Wolfowitz: empirical levels are this far from the truth with a probability of one in a million
    bound = sum(np.sqrt(np.log(2e6) / (2 * size)) for size in (n, n_fresh)) + 1 / (n + 1)
    assert after < min(bound, before / 2)


def test_var_minimises_what_it_says():
    z = np.sort(1.7 * draw(8, 30) + 0.2)
    zero, one = np.zeros(30), np.ones(30)

    def nll(scale: float) -> float:
        return metrics.nll(zero, one, z, Normal(scale))

    best = Var().fit(z).scale
    assert nll(best) < min(nll(0.999 * best), nll(1.001 * best))

    # RMSCE is constant between the scales at which a quantile of some level meets a residual
    bounds = ndtri(np.linspace(0, 1, N_LEVELS)[1:-1])
    steps = np.unique(z[:, None] / bounds)
    middles = (steps[1:] + steps[:-1]) / 2
    middles = middles[(middles > 0) & (middles < np.abs(z).max() / ndtri(0.75))]
    least = min(metrics.rmsce(zero, one, z, Normal(scale)) for scale in middles)
    assert metrics.rmsce(zero, one, z, Var("rmsce").fit(z)) == pytest.approx(least, rel=1e-12)


def test_var_by_rmsce_does_not_run_away_with_residuals_of_one_sign():
    assert Var("rmsce").fit(np.array([1.0, 2.0])).scale <= 2 / ndtri(0.75) * (1 + 1e-12)


@pytest.mark.parametrize("n", [9, 19, 25])
@pytest.mark.parametrize("level", [0.5, 0.8, 0.9])
def test_conformal_coverage_is_within_its_band(n, level):
    law = stats.t(3)
    repetitions = 2000
    samples = law.rvs((repetitions, n), random_state=np.random.default_rng(n))
    widths = np.array([Conformal().fit(z).interval(level) for z in samples])
    np.testing.assert_array_equal(widths[:, 0], -widths[:, 1])
    coverage = law.cdf(widths[:, 1]) - law.cdf(widths[:, 0])
    # given the calibration data, coverage follows Beta(k, n + 1 - k)
    k = next(k for k in range(1, n + 1) if 100 * k >= round(100 * level) * (n + 1))
    beta = stats.beta(k, n + 1 - k)
    assert level <= beta.mean() + 1e-12
    assert beta.mean() <= level + 1 / (n + 1) + 1e-12
    assert coverage.mean() == pytest.approx(beta.mean(), abs=SIGMAS * beta.std() / np.sqrt(repetitions))


@pytest.mark.parametrize("n", [19, 25, 45])
def test_conformal_coverage_of_functions_is_that_promised(n):
    """Residuals of a function are nearly the same: they tell hardly more than one of them."""
    rng, repetitions, level = np.random.default_rng(n), 4000, 0.95
    shifts = rng.standard_normal((repetitions, n + 1, 1))
    z = shifts + 0.01 * rng.standard_normal((repetitions, n + 1, 10))
    ends = np.array([Conformal().fit(part).interval(level)[1] for part in z[:, :-1]])
    covered = (np.abs(z[:, -1]) <= ends[:, None]).mean(1)
    error = SIGMAS * covered.std() / np.sqrt(repetitions)
    assert level - error < covered.mean() < level + 1 / (n + 1) + error


def test_conformal_interval_of_functions_ends_at_a_score():
    """Of 25 functions with eight values each, at 26 times eight times 0.95: the 198th of 200 scores."""
    z = np.arange(1, 201).reshape(25, 8) / 100
    assert Conformal().fit(z).interval(0.95)[1] == pytest.approx(1.98)
    assert Conformal().fit(z[:19]).interval(0.95)[1] == pytest.approx(z[18, -1])  # the largest
    assert Conformal().fit(z[:18]).interval(0.95)[1] > z[17, -1] + 1e-3


def test_conformal_interval_ends_at_a_score():
    scores = np.arange(1, 20) / 10  # 19 of them: 95 % is the largest
    standard = Conformal().fit(scores * np.resize([1, -1], 19))
    for level, rank in ((0.95, 19), (0.9, 18), (0.91, 19), (0.05, 1), (0.5, 10)):
        np.testing.assert_allclose(standard.interval(level), (-scores[rank - 1], scores[rank - 1]), rtol=1e-10)
        assert standard.interval(level)[1] >= scores[rank - 1]  # rounding may not lose the reading at the end
    assert standard.interval(0.96)[1] > scores[-1]
    tied = Conformal().fit(np.repeat([1.0, 2.0], [15, 4]))
    assert tied.interval(0.75) == (-1, 1)
    assert tied.interval(0.76) == (-2, 2)


def test_points_needed_for_a_conformal_interval():
    assert [points_needed(level) for level in (0.5, 0.9, 0.95, 0.99, 0.999)] == [1, 9, 19, 99, 999]
    for level in (0.31, 0.68, 0.95, 0.973):
        fewest = next(n for n in itertools.count(1) if round((n + 1) * level, 9) <= n)
        assert points_needed(level) == fewest


@pytest.mark.parametrize(("calibrator", "z"), fits(ODD))
def test_odd_data_break_nothing(calibrator, z):
    with np.errstate(divide="raise", invalid="raise", over="raise"):
        standard = calibrator.fit(z)
        p = np.linspace(0, 1, 201)[1:-1]
        quantiles = standard.quantile(p)
        assert np.isfinite(quantiles).all()
        assert (np.diff(quantiles) >= 0).all()
        at = np.sort(np.concatenate([z, -z, [-1.0, 0.0, 1.0]]))
        levels = standard.cdf(at)
        assert (np.diff(levels) >= 0).all()
        assert levels.min() >= 0
        assert levels.max() <= 1
        assert (standard.crps(at) >= -1e-12 * np.abs(at).max()).all()
        assert standard.std > 0
        found = metrics.evaluate(metrics.SplitArrays(np.zeros(z.size), np.ones(z.size), z + 1e-3, standard))
    assert np.isfinite(list(found.values())).all()


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=str)
def test_nothing_to_learn_from_is_refused(calibrator):
    with pytest.raises(ValueError, match="at least one reading"):
        calibrator.fit(np.empty((0, 1)))
    with pytest.raises(ValueError, match="finite"):
        calibrator.fit(np.array([1.0, np.nan]))


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=str)
def test_the_order_of_readings_does_not_matter(calibrator):
    z = draw(9, 20)
    expected = calibrator.fit(z).to_dict()
    assert calibrator.fit(z[::-1, None]).to_dict() == expected
    if not isinstance(calibrator, Conformal):  # which counts functions
        assert calibrator.fit(z[::-1].reshape(5, 4)).to_dict() == expected


# files


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=str)
def test_json_round_trip(calibrator):
    standard = calibrator.fit(draw(10, 30))
    again = read_standard(json.loads(json.dumps(standard.to_dict(), allow_nan=False)))
    assert type(again) is type(standard)
    assert again.to_dict() == standard.to_dict()
    p = np.linspace(0.01, 0.99, 99)
    np.testing.assert_array_equal(again.quantile(p), standard.quantile(p))
    assert again.interval(0.9) == standard.interval(0.9)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "norml", "scale": 1.0}, "did you mean 'normal'"),
        ({"scale": 1.0}, "not a kind"),
        ({"kind": "normal", "scale": 1.0, "mean": 0.0}, "cannot have"),
        ({"kind": "normal", "scale": 0.0}, "positive"),
        ({"kind": "piecewise", "knots": [1, 0], "levels": [0.1, 0.2], "straight": True, "outward": False}, "ascending"),
        ({"kind": "piecewise", "knots": [0, 1], "levels": [0.1, 1.0], "straight": True, "outward": False}, "ascending"),
        ({"kind": "piecewise", "knots": [0, 1], "levels": [0.1], "straight": True, "outward": False}, "ascending"),
        ({"kind": "piecewise", "knots": [], "levels": [], "straight": True, "outward": False}, "ascending"),
    ],
)
def test_files_with_something_else_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        read_standard(values)
