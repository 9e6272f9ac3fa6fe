"""``sciuq-run --cfg``: the composed configuration as YAML, the settings of the run with their resolved values."""

from __future__ import annotations

from omegaconf import Container, DictConfig, OmegaConf

from sciuq_runner.config.compose import resolved
from sciuq_runner.config.explain import all_keys, nearest_key
from sciuq_runner.errors import ConfigError


def shown(cfg: DictConfig, kind: str, package: str | None) -> str:
    """What ``--cfg job``, ``hydra`` or ``all`` prints of a composed configuration; ``--package`` chooses a part.

    The settings of Hydra itself keep their interpolations, with ``--resolve`` too: a job has some of their values only
    when it runs.
    """
    help_texts = ("help", "hydra_help") if kind == "hydra" else ()
    own = {"hydra": OmegaConf.masked_copy(cfg.hydra, [str(key) for key in cfg.hydra if key not in help_texts])}
    parts = {"job": resolved(cfg), "hydra": own, "all": {**own, **resolved(cfg)}}
    return in_yaml(OmegaConf.create(parts[kind]), package)


def in_yaml(cfg: DictConfig, package: str | None) -> str:
    """A configuration, or the part of it that ``package`` names, as Hydra prints it."""
    if package in (None, "_global_"):
        return OmegaConf.to_yaml(cfg)
    assert package is not None
    known = all_keys(OmegaConf.to_container(cfg))
    if package not in known:
        raise ConfigError(f"--package {package} is not in the configuration: {nearest_key(package, known)}")
    part = OmegaConf.select(cfg, package)
    return f"# @package {package}\n{OmegaConf.to_yaml(part)}" if isinstance(part, Container) else f"{part}\n"
