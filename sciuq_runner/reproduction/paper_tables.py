"""The numbers of the paper, each with the one job and the one metric of ours that stand beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

import yaml

Better = Literal["lower", "higher", "near"]

BETTER: dict[str, Better] = {  # which direction is better, by the last part of our metric
    "rl2e": "lower",
    "rl2e_standardised": "lower",
    "rmsce": "lower",
    "piw": "lower",
    "mpl": "higher",
    "mpl_standardised": "higher",
    "sdcv": "higher",
    "member_standardised": "lower",  # error of a single member
    "train_s": "lower",
    "mean": "near",  # a learned scale should be near the truth
    "length": "near",  # settings, which are no results
    "1": "near",
    "mean_id": "near",  # the spread of an ensemble has no better direction
    "mean_ood_0.15": "near",
}
RISES: dict[str, Better] = {"rl2e": "lower", "gan_mse": "near", "gan_nll": "near", "std": "near"}
"""Of detection: the error should rise little out of distribution. How much a score rises says nothing about how well it
tells without its spread, so that scores should rise as in the paper."""

HUNDREDTH = 0.01


@dataclass(frozen=True)
class PaperCell:
    """A number of the paper as printed; ``unit`` times it is what ours is compared with.

    ``metric`` is a path such as ``u/id/rl2e``, or a setting such as ``problem.length``; ``truth`` is what a learned
    number should be.
    """

    table: str
    keys: tuple[str, ...]
    printed: float
    preset: str
    choices: frozenset[str]
    metric: str
    unit: float
    better: Better
    truth: float | None = None

    @property
    def name(self) -> str:
        return "/".join((self.table, *self.keys))

    @property
    def is_setting(self) -> bool:
        """Whether the paper prints what its experiment was, not what it found."""
        return "/" not in self.metric


@dataclass(frozen=True)
class Rule:
    """Where the cells whose names fit ``pattern`` are found; parts in braces are filled from its groups."""

    pattern: str
    preset: str
    choices: tuple[str, ...]
    metric: str
    unit: float = HUNDREDTH
    truth: float | None = None


OUR_FIELDS = {"u_full": "u/id", "u_final": "u/t1", "f": "f/id", "lambda": "lambda/id"}
NEW_LENGTHS = {"id": "0.25", "ood": "0.2"}
OUR_TEST_SPLITS = {"id": "id", "ood": "ood_0.15"}
OUR_SCORES = {"dens_std": "std"}
CALIBRATOR = "var"
"""Behind the calibrated numbers: the paper does not say which of its three it took, nor with how many readings."""

RULES = (
    Rule(
        "function_known_(?P<split>id|ood)/(?P<method>.*)/cal_rmsce",
        "function_known",
        ("method={method}",),
        f"u/cal_{CALIBRATOR}_{{split}}/rmsce",
    ),
    Rule(
        "function_known_(?P<split>id|ood)/(?P<method>.*)/(?P<metric>.*)",
        "function_known",
        ("method={method}",),
        "u/{split}/{metric}",
    ),
    Rule(
        "function_epistemic_id/(?P<method>.*)/n(?P<n>.*)_s(?P<noise>.*)/(?P<metric>.*)",
        "epistemic_growth",
        ("method={method}", "problem.n_train={n}", "problem.noise_scale={noise}"),
        "u/id/{metric}",
    ),
    Rule(
        "function_unknown/learned_sigma_u/(?P<method>.*)",
        "function_unknown",
        ("method={method}",),
        "noise/u/mean",
        1,
        0.1,
    ),
    Rule(
        "function_unknown/(?P<split>.*)/(?P<method>.*)/(?P<metric>.*)",
        "function_unknown",
        ("method={method}",),
        "u/{split}/{metric}",
    ),
    Rule(
        "function_heteroscedastic/(?P<split>.*)/(?P<technique>.*)/(?P<metric>.*)",
        "function_heteroscedastic",
        ("technique={technique}",),
        "u/{split}/{metric}",
    ),
    Rule(
        "function_student_t_id/tau_(?P<tau>.*)/(?P<method>.*)/(?P<metric>.*)",
        "function_student_t",
        ("method={method}", "temperature={tau}"),
        "u/id/{metric}",
    ),
    Rule(
        "mixed_pde_standard/learned_sigma_u/(?P<technique>.*)",
        "mixed_pde_standard",
        ("technique={technique}",),
        "noise/all/mean",
        1,
        0.05,
    ),
    Rule(
        "mixed_pde_standard/(?P<place>.*)/(?P<technique>.*)/(?P<metric>.*)",
        "mixed_pde_standard",
        ("technique={technique}",),
        "{place}/{metric}",
    ),
    Rule(
        "mixed_pde_additional/(?P<case>.*)/(?P<place>.*)",
        "mixed_pde_additional",
        ("problem.case={case}",),
        "{place}/rl2e",
    ),
    Rule(
        "spde/(?P<quantity>.*)/(?P<case>.*)/(?P<model>.*)/(?P<statistic>.*)",
        "spde_{case}",
        ("model={model}",),
        "{quantity}_{statistic}/id/rl2e",
    ),
    Rule(
        "darcy_noisy_inference/(?P<quantity>.*)/(?P<split>.*)/(?P<model>.*)/(?P<metric>rl2e|mpl)",
        "darcy_noisy",
        ("model={model}", "problem.new_length={length}"),
        "{quantity}/{split}/{metric}_standardised",
    ),
    Rule(
        "darcy_noisy_inference/(?P<quantity>.*)/(?P<split>.*)/(?P<model>.*)/(?P<metric>rmsce)",
        "darcy_noisy",
        ("model={model}", "problem.new_length={length}"),
        "{quantity}/{split}/{metric}",
    ),
    Rule("darcy_clean_inference/id/l", "darcy_clean", (), "problem.length", 1),
    Rule("darcy_clean_inference/ood/l", "darcy_clean", (), "problem.test_lengths.1", 1),
    Rule("darcy_clean_inference/(?P<test>.*)/mean_epistemic_sd", "darcy_clean", (), "detection/std/mean_{test}", 1),
    Rule(
        "darcy_clean_inference/(?P<test>.*)/single_member_rl2e",
        "darcy_clean",
        (),
        "baselines/{test}/member_standardised",
    ),
    Rule("darcy_clean_inference/(?P<test>.*)/rl2e", "darcy_clean", (), "u/{test}/rl2e_standardised"),
    Rule("darcy_ood_detection/(?P<score>.*)", "darcy_ood", (), "detection/{score}/rise_ood_0.15"),
    Rule("cost_seconds/cpu/(?P<method>.*)", "cost", ("method={method}",), "cost/train_s", 1),
    Rule("cost_seconds/gpu/(?P<method>.*)", "cost_gpu", ("method={method}",), "cost/train_s", 1),
)


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper, or the numbers of one of its sections."""

    name: str
    title: str
    source: str
    remark: str
    cells: tuple[PaperCell, ...]


@cache
def tables() -> dict[str, PaperTable]:
    """All tables by name, in the order of the paper."""
    text = resources.files("sciuq_runner.reproduction").joinpath("paper.yaml").read_text(encoding="utf-8")
    return {
        name: PaperTable(
            name,
            node["title"],
            node["source"],
            node["remark"],
            tuple(cell(name, keys, value) for keys, value in leaves(node["values"])),
        )
        for name, node in yaml.safe_load(text).items()
    }


def leaves(node: Any, keys: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], float]]:
    """All numbers of a nested mapping with their keys."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from leaves(value, (*keys, str(key)))
    else:
        yield keys, float(node)


def cell(table: str, keys: tuple[str, ...], printed: float) -> PaperCell:
    """The number of a table with the job and metric that the first rule for it names."""
    name = "/".join((table, *keys))
    for rule in RULES:
        found = re.fullmatch(rule.pattern, name)
        if found is None:
            continue
        parts = fill(found.groupdict())
        metric = rule.metric.format(**parts)
        choices = frozenset(text.format(**parts) for text in rule.choices)
        better = RISES[parts["score"]] if "score" in parts else BETTER[last_part(metric)]
        return PaperCell(
            table, keys, printed, rule.preset.format(**parts), choices, metric, rule.unit, better, rule.truth
        )
    raise KeyError(name)


def last_part(metric: str) -> str:
    """``rl2e`` of ``u/id/rl2e``; settings have points where metrics have strokes."""
    return metric.rpartition("/" if "/" in metric else ".")[2]


def fill(groups: Mapping[str, str]) -> dict[str, str]:
    """What stands for the parts of a name in our own names."""
    parts = dict(groups)
    if "place" in parts:
        parts["place"] = OUR_FIELDS[parts["place"]]
    if "split" in parts:
        parts["length"] = NEW_LENGTHS[parts["split"]]
    if "test" in parts:
        parts["test"] = OUR_TEST_SPLITS[parts["test"]]
    if "score" in parts:
        parts["score"] = OUR_SCORES.get(parts["score"], parts["score"])
    if "tau" in parts:
        parts["tau"] = str(float(parts["tau"]))
    return parts
