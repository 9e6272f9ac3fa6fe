"""Statements of the paper on function approximation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product

import numpy as np
from scipy.stats import rankdata

from sciuq_runner.reproduction.evidence import Evidence
from sciuq_runner.reproduction.paper_statements import Numbers, by_few, finding

METHODS = ("gp", "hmc", "ld", "mfvi", "mcd", "la", "dens", "sens", "swag")
NOISES, TRAINING_SIZES = ("0.1", "0.3", "0.5"), ("32", "16")
NETWORKS = ("2x50", "2x100", "4x50")
TEMPERATURES = ("1.0", "0.5")
FEW = 14  # calibration readings that the paper calls a few


def known(evidence: Evidence, metric: str, methods: Iterable[str] = METHODS) -> dict[str, float]:
    """A metric of several methods with known noise."""
    return {method: evidence.mean("function_known", f"method={method}", metric) for method in methods}


def along_x(evidence: Evidence, preset: str, choices: Sequence[str]) -> float:
    """Epistemic standard deviation along all of x: 60 % of the test points are in distribution."""
    inside, outside = (evidence.mean(preset, choices, f"u/{split}/epistemic_std") for split in ("id", "ood"))
    return float(np.sqrt(0.6 * inside**2 + 0.4 * outside**2))


def setting(method: str, n: str, noise: str) -> tuple[str, ...]:
    return f"method={method}", f"problem.n_train={n}", f"problem.noise_scale={noise}"


def growth(evidence: Evidence, method: str) -> dict[tuple[str, str], float]:
    """Epistemic standard deviation by number of readings and noise."""
    return {
        (n, noise): along_x(evidence, "epistemic_growth", setting(method, n, noise))
        for n in TRAINING_SIZES
        for noise in NOISES
    }


def named(values: Mapping[tuple[str, str], float]) -> dict[str, float]:
    return {" ".join(key): value for key, value in values.items()}


@finding("Section 6.1.1", "The epistemic uncertainty of HMC grows with the noise.")
def hmc_grows_with_noise(evidence: Evidence) -> tuple[bool, Numbers]:
    found = growth(evidence, "hmc")
    return all(found[n, "0.1"] < found[n, "0.3"] < found[n, "0.5"] for n in TRAINING_SIZES), named(found)


@finding("Section 6.1.1", "The epistemic uncertainty of HMC grows when there are fewer readings.")
def hmc_grows_with_fewer_readings(evidence: Evidence) -> tuple[bool, Numbers]:
    found = growth(evidence, "hmc")
    return all(found["32", noise] < found["16", noise] for noise in NOISES), named(found)


def growth_of_both(evidence: Evidence, steps: Iterable[tuple[tuple[str, str], tuple[str, str]]]) -> dict[str, float]:
    """The mean rise of HMC's and of MCD's uncertainty over steps from one case to another."""
    both = {method: growth(evidence, method) for method in ("hmc", "mcd")}
    pairs = list(steps)
    return {name: float(np.mean([found[b] / found[a] - 1 for a, b in pairs])) for name, found in both.items()}


def less_than_half(rises: Mapping[str, float], first: str, second: str) -> bool:
    """Whether the first rises, and the second by at most half as much."""
    return rises[first] > 0 and rises[second] <= 0.5 * rises[first]


@finding(
    "Section 6.1.1",
    "Unlike that of HMC, the epistemic uncertainty of MCD does not grow with the noise: from 0.1 to 0.5 it rises by at "
    "most half as much.",
)
def mcd_does_not_grow_with_noise(evidence: Evidence) -> tuple[bool, Numbers]:
    rises = growth_of_both(evidence, (((n, "0.1"), (n, "0.5")) for n in TRAINING_SIZES))
    return less_than_half(rises, "hmc", "mcd"), rises


@finding(
    "Section 6.1.1",
    "Unlike that of HMC, the epistemic uncertainty of MCD does not grow when there are fewer readings: from 32 to 16 "
    "it rises by at most half as much.",
)
def mcd_does_not_grow_with_fewer_readings(evidence: Evidence) -> tuple[bool, Numbers]:
    rises = growth_of_both(evidence, ((("32", noise), ("16", noise)) for noise in NOISES))
    return less_than_half(rises, "hmc", "mcd"), rises


@finding("Section 6.1.1", "MCD has a higher predictive likelihood than HMC for all noises and numbers of readings.")
def mcd_is_likelier(evidence: Evidence) -> tuple[bool, Numbers]:
    hmc, mcd = (
        {
            (n, noise): evidence.mean("epistemic_growth", setting(method, n, noise), "u/id/mpl")
            for n in TRAINING_SIZES
            for noise in NOISES
        }
        for method in ("hmc", "mcd")
    )
    rises = {key: mcd[key] - hmc[key] for key in hmc}
    return min(rises.values()) > 0, named(rises)


@finding("Section 6.1.1", "LD, MFVI and SWAG have the three lowest predictive likelihoods in distribution.")
def three_are_least_competitive(evidence: Evidence) -> tuple[bool, Numbers]:
    found = known(evidence, "u/id/mpl")
    return set(sorted(found, key=found.__getitem__)[:3]) == {"ld", "mfvi", "swag"}, found


@finding(
    "Section 6.1.1",
    "Out of distribution the epistemic uncertainty of HMC is at least twice what it is in distribution, and has grown "
    "by a larger factor than that of MCD.",
)
def hmc_knows_what_it_has_not_seen(evidence: Evidence) -> tuple[bool, Numbers]:
    inside, outside = (known(evidence, f"u/{split}/epistemic_std", ("hmc", "mcd")) for split in ("id", "ood"))
    factors = {method: outside[method] / inside[method] for method in inside}
    return factors["hmc"] >= 2 and factors["hmc"] > factors["mcd"], factors


@finding("Section 6.1.1", "The band of LD is about as wide out of distribution as in it (within a quarter).")
def ld_does_not_tell(evidence: Evidence) -> tuple[bool, Numbers]:
    inside, outside = (known(evidence, f"u/{split}/piw", ("ld",))["ld"] for split in ("id", "ood"))
    return abs(outside / inside - 1) <= 0.25, {"id": inside, "ood": outside}


def size(evidence: Evidence, learned: bool) -> dict[str, float]:
    """Epistemic standard deviation by network."""
    return {
        network: along_x(evidence, "network_size", (f"architecture={network}", f"model.learn_prior={learned}"))
        for network in NETWORKS
    }


@finding("Section 6.1.1", "With a fixed prior, wider and deeper networks have more epistemic uncertainty.")
def larger_networks_are_less_sure(evidence: Evidence) -> tuple[bool, Numbers]:
    found = size(evidence, learned=False)
    return found["2x100"] > found["2x50"] and found["4x50"] > found["2x50"], found


@finding("Section 6.1.1", "Learning the prior brings networks of different sizes closer together.")
def a_learned_prior_makes_networks_alike(evidence: Evidence) -> tuple[bool, Numbers]:
    ratios = {}
    for name, learned in (("fixed", False), ("learned", True)):
        found = size(evidence, learned).values()
        ratios[name] = max(found) / min(found)
    return ratios["learned"] < ratios["fixed"], ratios


@finding("Section 6.1.1", f"Calibration with at most {FEW} readings reduces the calibration error of SWAG.")
def few_readings_calibrate_swag(evidence: Evidence) -> tuple[bool, Numbers]:
    before, after = by_few(evidence, "calibration_size", ("method=swag",), "u", ("var",), FEW)
    return after < before, {"before": before, "after": after}


@finding("Section 6.1.1", "Calibrating with the training readings makes most methods worse.")
def training_readings_do_not_calibrate(evidence: Evidence) -> tuple[bool, Numbers]:
    calibrated, before = (
        {
            method: evidence.mean("calibration_size", f"method={method}", f"calibration_size/u/{name}")
            for method in METHODS
        }
        for name in ("train/32", "none/0")
    )
    rises = {method: calibrated[method] - before[method] for method in METHODS}
    return sum(value > 0 for value in rises.values()) > len(rises) / 2, rises


@finding("Section 6.1.1", "Calibration makes all methods about equally calibrated: their errors lie closer together.")
def calibration_makes_methods_alike(evidence: Evidence) -> tuple[bool, Numbers]:
    before, after = (list(known(evidence, f"u/{split}/rmsce").values()) for split in ("id", "cal_var_id"))
    spreads = {"before": max(before) - min(before), "after": max(after) - min(after)}
    return spreads["after"] < spreads["before"], spreads


@finding("Section 6.1.1", "Calibration in distribution makes SWAG worse out of distribution.")
def calibration_costs_swag_elsewhere(evidence: Evidence) -> tuple[bool, Numbers]:
    before, after = (known(evidence, f"u/{split}/rmsce", ("swag",))["swag"] for split in ("ood", "cal_var_ood"))
    return after > before, {"before": before, "after": after}


def unknown(evidence: Evidence, metric: str) -> dict[str, float]:
    return {name: evidence.mean("function_unknown", f"method={name}", metric) for name in ("hmc", "mfvi", "la")}


@finding(
    "Section 6.1.2",
    "With learned noise and prior, HMC is calibrated best, before and even after calibration of MFVI and LA.",
)
def hmc_is_calibrated_best(evidence: Evidence) -> tuple[bool, Numbers]:
    found = unknown(evidence, "u/id/rmsce")
    after = unknown(evidence, "u/cal_var_id/rmsce")
    found |= {f"{name} calibrated": after[name] for name in ("mfvi", "la")}
    return found["hmc"] == min(found.values()), found


@finding(
    "Section 6.1.2", "With learned priors the cheaper MFVI and LA are nearly as accurate as HMC (within a quarter)."
)
def cheap_methods_are_as_accurate(evidence: Evidence) -> tuple[bool, Numbers]:
    found = unknown(evidence, "u/id/rl2e")
    return max(found["mfvi"], found["la"]) <= 1.25 * found["hmc"], found


def uneven(evidence: Evidence, metric: str) -> dict[str, float]:
    techniques = ("hmc", "mfvi", "dens", "hmc_fp")
    return {name: evidence.mean("function_heteroscedastic", f"technique={name}", metric) for name in techniques}


@finding("Section 6.1.3", "With noise that depends on x, the functional prior has the smallest error in distribution.")
def functional_prior_is_most_accurate(evidence: Evidence) -> tuple[bool, Numbers]:
    found = uneven(evidence, "u/id/rl2e")
    return found["hmc_fp"] == min(found.values()), found


@finding(
    "Section 6.1.3", "With noise that depends on x, the ensemble has the highest predictive likelihood in distribution."
)
def ensemble_is_likeliest(evidence: Evidence) -> tuple[bool, Numbers]:
    found = uneven(evidence, "u/id/mpl")
    return found["dens"] == max(found.values()), found


@finding("Section 6.1.3", "With noise that depends on x, HMC with networks is calibrated best in distribution.")
def networks_are_calibrated_best(evidence: Evidence) -> tuple[bool, Numbers]:
    found = uneven(evidence, "u/id/rmsce")
    return found["hmc"] == min(found.values()), found


@finding("Section 6.1.3", "With noise that depends on x, the functional prior is calibrated best out of distribution.")
def functional_prior_is_calibrated_best_outside(evidence: Evidence) -> tuple[bool, Numbers]:
    found = uneven(evidence, "u/ood/rmsce")
    return found["hmc_fp"] == min(found.values()), found


def wrong(evidence: Evidence, metric: str) -> dict[str, float]:
    """A metric by method and temperature where the likelihood is wrong."""
    return {
        f"{method} {tau}": evidence.mean("function_student_t", (f"method={method}", f"temperature={tau}"), metric)
        for method in ("hmc", "mfvi")
        for tau in TEMPERATURES
    }


@finding("Appendix D.2.2", "Where the likelihood is wrong, a cold posterior has a higher predictive likelihood.")
def cold_posteriors_are_likelier(evidence: Evidence) -> tuple[bool, Numbers]:
    found = wrong(evidence, "u/id/mpl")
    return all(found[f"{method} 0.5"] > found[f"{method} 1.0"] for method in ("hmc", "mfvi")), found


@finding(
    "Appendix D.2.2",
    "Where the likelihood is wrong, the band of HMC is wider out of distribution, and that of MFVI rises by at most "
    "half as much, at both temperatures.",
)
def mfvi_does_not_tell(evidence: Evidence) -> tuple[bool, Numbers]:
    inside, outside = (wrong(evidence, f"u/{split}/piw") for split in ("id", "ood"))
    rises = {key: outside[key] / inside[key] - 1 for key in inside}
    return all(less_than_half(rises, f"hmc {tau}", f"mfvi {tau}") for tau in TEMPERATURES), rises


# Performance against cost

DEAR, CHEAP = ("hmc", "dens"), ("ld", "mfvi", "mcd", "la", "sens", "swag")


@finding(
    "Section 6.6",
    "HMC and DEns perform best: with known noise, each has a lower mean rank than every other approximate method, over "
    "error, predictive likelihood and calibration error, in and out of distribution.",
)
def dear_methods_perform_best(evidence: Evidence) -> tuple[bool, Numbers]:
    names = (*DEAR, *CHEAP)
    ranks = []
    for split, metric in product(("id", "ood"), ("rl2e", "mpl", "rmsce")):
        found = known(evidence, f"u/{split}/{metric}", names)
        ranks.append(rankdata([-found[name] if metric == "mpl" else found[name] for name in names]))
    means = dict(zip(names, np.mean(ranks, axis=0).tolist(), strict=True))
    return max(means[name] for name in DEAR) < min(means[name] for name in CHEAP), means


@finding(
    "Section 6.6",
    "Cheaper methods, LA aside, are calibrated less well than HMC and DEns, in distribution with known noise.",
)
def cheap_methods_are_calibrated_less_well(evidence: Evidence) -> tuple[bool, Numbers]:
    found = known(evidence, "u/id/rmsce", (*DEAR, *CHEAP))
    return max(found[name] for name in DEAR) < min(found[name] for name in CHEAP if name != "la"), found


@finding("Section 6.6", "HMC and DEns take longest.")
def dear_methods_take_longest(evidence: Evidence) -> tuple[bool, Numbers]:
    found = {name: evidence.mean("cost", f"method={name}", "cost/train_s") for name in (*DEAR, *CHEAP)}
    return min(found[name] for name in DEAR) > max(found[name] for name in CHEAP), found
