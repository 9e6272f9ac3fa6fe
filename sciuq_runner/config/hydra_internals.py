"""Parts of Hydra without a public name. Only this module imports them, so that a new version of Hydra has one place to
break."""

from __future__ import annotations

from hydra._internal.callbacks import Callbacks
from hydra._internal.config_search_path_impl import ConfigSearchPathImpl
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path, get_args_parser

__all__ = [
    "BasicSweeper",
    "Callbacks",
    "ConfigSearchPathImpl",
    "Hydra",
    "create_config_search_path",
    "get_args_parser",
]
