"""Statements of the paper on equations, random fields and operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from sciuq_runner.reproduction.evidence import Evidence
from sciuq_runner.reproduction.paper_statements import Numbers, finding, reduced

LENGTH_SPLITS = ("ood_0.1", "ood_0.15", "ood_0.2", "id", "ood_0.3", "ood_0.35", "ood_0.4")
OPERATOR_SPLITS = ("id", "ood_0.15")
FIELD_MODELS, STATISTICS = ("pi_gan", "nnpc", "nnpc_plus"), ("u_mean", "u_std", "lambda_mean", "lambda_std")
CASES = ("heteroscedastic", "large_noise", "extrapolation", "steep")


def labelled(found: Mapping[str, Numbers]) -> dict[str, float]:
    """Several kinds of numbers in one row."""
    return {f"{name} {kind}": value for kind, numbers in found.items() for name, value in numbers.items()}


# PDEs


def standard(
    evidence: Evidence, metric: str, techniques: Iterable[str] = ("hmc", "mfvi", "mcd", "dens", "hmc_fp")
) -> dict[str, float]:
    return {name: evidence.mean("mixed_pde_standard", f"technique={name}", metric) for name in techniques}


@finding("Section 6.2.1", "For the reaction rate, the functional prior beats all methods with networks.")
def functional_prior_beats_networks(evidence: Evidence) -> tuple[bool, Numbers]:
    errors, likelihoods, calibration = (
        standard(evidence, f"lambda/id/{metric}") for metric in ("rl2e", "mpl", "rmsce")
    )
    holds = errors["hmc_fp"] == min(errors.values()) and likelihoods["hmc_fp"] == max(likelihoods.values())
    numbers = labelled({"rl2e": errors, "mpl": likelihoods, "rmsce": calibration})
    return holds and calibration["hmc_fp"] == min(calibration.values()), numbers


@finding(
    "Section 6.2.1",
    "The calibration errors of f and of the reaction rate are at least six times smaller with the functional prior "
    "than with networks, for all methods.",
)
def functional_prior_is_calibrated_far_better(evidence: Evidence) -> tuple[bool, Numbers]:
    found = {}
    for quantity in ("f", "lambda"):
        errors = standard(evidence, f"{quantity}/id/rmsce")
        best = errors.pop("hmc_fp")
        found[f"{quantity}, best of networks over functional prior"] = min(errors.values()) / best
    return min(found.values()) >= 6, found


@finding("Section 6.2.1", "Of the methods with networks, the dear ones (HMC, DEns) have the smaller errors of u.")
def dear_methods_are_more_accurate(evidence: Evidence) -> tuple[bool, Numbers]:
    found = standard(evidence, "u/id/rl2e", ("hmc", "dens", "mfvi", "mcd"))
    return max(found["hmc"], found["dens"]) < min(found["mfvi"], found["mcd"]), found


@finding("Section 6.2.1", "DEns finds the reaction rate more accurately than HMC, and is surer of it.")
def ensemble_is_overconfident(evidence: Evidence) -> tuple[bool, Numbers]:
    errors, spreads = (
        standard(evidence, f"lambda/id/{metric}", ("hmc", "dens")) for metric in ("rl2e", "epistemic_std")
    )
    numbers = labelled({"error": errors, "epistemic": spreads})
    return errors["dens"] < errors["hmc"] and spreads["dens"] < spreads["hmc"], numbers


@finding("Section 6.2.1", "Networks are less sure of u than the functional prior: HMC has more epistemic uncertainty.")
def networks_are_less_sure(evidence: Evidence) -> tuple[bool, Numbers]:
    found = standard(evidence, "u/id/epistemic_std", ("hmc", "hmc_fp"))
    return found["hmc"] > found["hmc_fp"], found


@finding("Section 6.2.1", "The errors of u lie within the 95 % band in most places (90 %), for every method.")
def bands_cover_the_solution(evidence: Evidence) -> tuple[bool, Numbers]:
    found = standard(evidence, "u/id/coverage")
    return min(found.values()) >= 0.9, found


@finding("Section 6.2.1", "HMC, MFVI and DEns estimate the noise to a fifth.")
def noise_is_found(evidence: Evidence) -> tuple[bool, Numbers]:
    found = standard(evidence, "noise/all/mean", ("hmc", "mfvi", "dens"))
    return all(abs(value / 0.05 - 1) <= 0.2 for value in found.values()), found


@finding("Section 6.2.2", "In every additional case u is found less accurately than in the standard one.")
def hard_cases_are_harder(evidence: Evidence) -> tuple[bool, Numbers]:
    found = {name: evidence.mean("mixed_pde_additional", f"problem.case={name}", "u/id/rl2e") for name in CASES}
    found["standard"] = standard(evidence, "u/id/rl2e", ("hmc",))["hmc"]
    return min(found[name] for name in CASES) > found["standard"], found


@finding(
    "Section 6.2.2",
    "In the additional cases too, errors lie within the 95 % band in most places (80 %), for all quantities.",
)
def bands_cover_hard_cases(evidence: Evidence) -> tuple[bool, Numbers]:
    found = {
        f"{case} {quantity}": evidence.mean("mixed_pde_additional", f"problem.case={case}", f"{quantity}/id/coverage")
        for case in CASES
        for quantity in ("u", "f", "lambda")
    }
    return min(found.values()) >= 0.8, found


# Random fields


def random_field(evidence: Evidence, case: str, model: str, metric: str) -> float:
    return evidence.mean(f"spde_{case}", f"model={model}", metric)


@finding("Section 6.3", "Noise costs NNPC+ less accuracy of the conductivity than NNPC.")
def decoder_is_robust_to_noise(evidence: Evidence) -> tuple[bool, Numbers]:
    rises = {}
    for model in ("nnpc", "nnpc_plus"):
        clean, noisy = (
            sum(random_field(evidence, case, model, f"lambda_{kind}/id/rl2e") for kind in ("mean", "std"))
            for case in ("clean", "noisy")
        )
        rises[model] = noisy - clean
    return rises["nnpc_plus"] < rises["nnpc"], rises


@finding("Section 6.3", "All three models find the leading parts of the spectra (eigenvalues off by at most a tenth).")
def spectra_are_found(evidence: Evidence) -> tuple[bool, Numbers]:
    found = {
        f"{model} {quantity}": random_field(evidence, "noisy", model, f"{quantity}_eigenvalues/id/rl2e")
        for model in FIELD_MODELS
        for quantity in ("u", "lambda")
    }
    return max(found.values()) <= 0.1, found


def of_statistics(evidence: Evidence, metric: str) -> dict[str, float]:
    """A metric of the mean and standard deviation of both fields, of all models, from noisy realisations."""
    return {
        f"{model} {statistic}": random_field(evidence, "noisy", model, f"{statistic}/id/{metric}")
        for model in FIELD_MODELS
        for statistic in STATISTICS
    }


@finding(
    "Section 6.3",
    "From noisy realisations, errors of the mean and standard deviation of both fields lie outside the 95 % epistemic "
    "band in most places (covered less than half), for all models.",
)
def statistics_are_not_covered(evidence: Evidence) -> tuple[bool, Numbers]:
    found = of_statistics(evidence, "coverage")
    return max(found.values()) < 0.5, found


@finding(
    "Section 6.3",
    "From noisy realisations, NNPC+ has the smallest epistemic uncertainty of the mean and standard deviation of both "
    "fields.",
)
def decoder_is_surest(evidence: Evidence) -> tuple[bool, Numbers]:
    found = of_statistics(evidence, "epistemic_std")
    least = {name: min(found[f"{model} {name}"] for model in ("pi_gan", "nnpc")) for name in STATISTICS}
    return all(found[f"nnpc_plus {name}"] < value for name, value in least.items()), found


@finding("Appendix D.4", "In some case at most 10 left-out realisations reduce the calibration error by a factor of 3.")
def few_realisations_calibrate(evidence: Evidence) -> tuple[bool, Numbers]:
    return reduced(evidence, "spde_noisy", [(f"model={model}",) for model in FIELD_MODELS], ("u", "lambda"), 3)


# Forward problem


def forward(evidence: Evidence, case: str, metric: str) -> dict[str, float]:
    return {name: evidence.mean(f"forward_{case}", f"model={name}", metric) for name in ("bnn", "gp_pi_gan")}


@finding("Section 6.4", "With 15 readings of the source, GP + PI-GAN finds u more accurately than networks.")
def two_steps_are_more_accurate(evidence: Evidence) -> tuple[bool, Numbers]:
    found = forward(evidence, "n15", "u/id/rl2e")
    return found["gp_pi_gan"] < found["bnn"], found


@finding(
    "Section 6.4, Appendix D.5",
    "With 6 readings of the source, GP + PI-GAN is overconfident: its band of u covers less than that of networks.",
)
def two_steps_are_overconfident(evidence: Evidence) -> tuple[bool, Numbers]:
    found = forward(evidence, "n6", "u/id/coverage")
    return found["gp_pi_gan"] < found["bnn"], found


# Operators


def fields(evidence: Evidence, split: str, metric: str) -> dict[str, float]:
    """A metric of both priors and both quantities, in or out of distribution."""
    length = {"id": "0.25", "ood": "0.2"}[split]
    return {
        f"{model} {quantity} {split}": evidence.mean(
            "darcy_noisy", (f"model={model}", f"problem.new_length={length}"), f"{quantity}/{split}/{metric}"
        )
        for model in ("pa_bnn_fp", "pa_gan_fp")
        for quantity in ("log_lambda", "u")
    }


def better_prior(evidence: Evidence, split: str) -> tuple[bool, Numbers]:
    """Whether errors are smaller and likelihoods higher with a learned prior than with networks."""
    errors, likelihoods = (fields(evidence, split, f"{metric}_standardised") for metric in ("rl2e", "mpl"))
    keys = [(key, key.replace("pa_gan_fp", "pa_bnn_fp")) for key in errors if key.startswith("pa_gan_fp")]
    holds = all(errors[a] < errors[b] and likelihoods[a] > likelihoods[b] for a, b in keys)
    return holds, labelled({"rl2e": errors, "mpl": likelihoods})


def calibrated_networks(evidence: Evidence, split: str) -> tuple[bool, Numbers]:
    """Whether calibration errors of u are smaller with networks than with a learned prior."""
    found = fields(evidence, split, "rmsce")
    return found[f"pa_bnn_fp u {split}"] < found[f"pa_gan_fp u {split}"], found


@finding(
    "Section 6.5.1",
    "For a field behind an operator that is like those of training, a learned prior is more accurate and likelier than "
    "networks.",
)
def learned_prior_is_better(evidence: Evidence) -> tuple[bool, Numbers]:
    return better_prior(evidence, "id")


@finding("Section 6.5.1", "Also for a field unlike those of training, the learned prior is more accurate and likelier.")
def learned_prior_is_better_outside(evidence: Evidence) -> tuple[bool, Numbers]:
    return better_prior(evidence, "ood")


@finding(
    "Section 6.5.1",
    "For a field behind an operator that is like those of training, networks are calibrated better for u.",
)
def networks_are_calibrated_better(evidence: Evidence) -> tuple[bool, Numbers]:
    return calibrated_networks(evidence, "id")


@finding("Section 6.5.1", "Also for a field unlike those of training, networks are calibrated better for u.")
def networks_are_calibrated_better_outside(evidence: Evidence) -> tuple[bool, Numbers]:
    return calibrated_networks(evidence, "ood")


@finding(
    "Section 6.5.1",
    "Fields unlike those of training are found far less accurately (errors at least 1.5 times), with both priors.",
)
def other_fields_are_harder(evidence: Evidence) -> tuple[bool, Numbers]:
    inside, outside = (fields(evidence, split, "rl2e_standardised") for split in ("id", "ood"))
    factors = {key.removesuffix(" id"): outside[key.replace(" id", " ood")] / value for key, value in inside.items()}
    return min(factors.values()) >= 1.5, factors


@finding(
    "Section 6.5.1",
    "For a field like those of training, the 95 % epistemic bands of both priors cover errors in most places (80 %), "
    "for both quantities.",
)
def both_priors_cover_fields(evidence: Evidence) -> tuple[bool, Numbers]:
    found = fields(evidence, "id", "epistemic_coverage")
    return min(found.values()) >= 0.8, found


@finding(
    "Appendix D.7",
    "Out of distribution, the 95 % epistemic band of networks covers errors in most places (80 %), that of a learned "
    "prior does not, for both quantities.",
)
def only_networks_cover_other_fields(evidence: Evidence) -> tuple[bool, Numbers]:
    found = fields(evidence, "ood", "epistemic_coverage")
    return all((value >= 0.8) == key.startswith("pa_bnn_fp") for key, value in found.items()), found


@finding(
    "Appendix D.7", "For a field behind an operator, at most 10 readings halve the calibration error in some case."
)
def few_readings_calibrate_fields(evidence: Evidence) -> tuple[bool, Numbers]:
    jobs = [
        (f"model={model}", f"problem.new_length={length}")
        for model in ("pa_bnn_fp", "pa_gan_fp")
        for length in ("0.25", "0.2")
    ]
    return reduced(evidence, "darcy_noisy", jobs, ("log_lambda", "u"), 2)


def operator(evidence: Evidence, metric: str) -> float:
    return evidence.mean("darcy_clean", (), metric)


@finding(
    "Section 6.5.2",
    "Single operators are about as accurate as their ensemble in distribution, and far less out of it: the error of a "
    "member is at least 1.5 times that of the ensemble there, and a larger multiple of it than in distribution.",
)
def ensembles_beat_members(evidence: Evidence) -> tuple[bool, Numbers]:
    found = {
        split: operator(evidence, f"baselines/{split}/member_standardised")
        / operator(evidence, f"u/{split}/rl2e_standardised")
        for split in OPERATOR_SPLITS
    }
    return found["ood_0.15"] >= 1.5 and found["ood_0.15"] > found["id"], found


@finding(
    "Section 6.5.2",
    "The 95 % epistemic band of the ensemble covers the error in almost all of the domain (90 %), in and out of "
    "distribution.",
)
def bands_cover_operators(evidence: Evidence) -> tuple[bool, Numbers]:
    found = {split: operator(evidence, f"u/{split}/coverage") for split in OPERATOR_SPLITS}
    return min(found.values()) >= 0.9, found


@finding("Section 6.5.2", "Members disagree more about conductivities unlike those of training.")
def members_disagree_outside(evidence: Evidence) -> tuple[bool, Numbers]:
    found = {split: operator(evidence, f"detection/std/mean_{split}") for split in OPERATOR_SPLITS}
    return found["ood_0.15"] > found["id"], found


@finding(
    "Section 6.5.3",
    "The three scores follow the error over correlation lengths (rank correlation at least 0.8), and rise to 0.15.",
)
def scores_follow_the_error(evidence: Evidence) -> tuple[bool, Numbers]:
    errors = [operator(evidence, f"detection/rl2e/mean_{name}") for name in LENGTH_SPLITS]
    found, rises = {}, {}
    for score in ("gan_mse", "gan_nll", "std"):
        values = [operator(evidence, f"detection/{score}/mean_{name}") for name in LENGTH_SPLITS]
        found[score] = float(np.corrcoef(np.argsort(np.argsort(values)), np.argsort(np.argsort(errors)))[0, 1])
        rises[score] = operator(evidence, f"detection/{score}/rise_ood_0.15")
    holds = min(found.values()) >= 0.8 and min(rises.values()) > 0
    return holds, labelled({"correlation": found, "rise": rises})


@finding("Section 6.5.3", "Conductivities that are smoother than those of training have a smaller error of u.")
def smoother_conductivities_are_easier(evidence: Evidence) -> tuple[bool, Numbers]:
    found = {
        name: operator(evidence, f"detection/rl2e/mean_{name}") for name in LENGTH_SPLITS[LENGTH_SPLITS.index("id") :]
    }
    return all(found[name] < found["id"] for name in found if name != "id"), found
