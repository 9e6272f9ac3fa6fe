"""Addresses of tracking servers without the passwords in them, which belong neither into files nor on a screen."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from sciuq_runner.errors import ConfigError

VARIABLE = "MLFLOW_TRACKING_URI"
SETTING = "tracking.uri="
SECRET = r"(?i:(?<=[?&])[\w-]*(?:password|passwd|pwd|secret|token))"


def hide_password(text: str) -> str:
    """A sentence or address in which ``***@`` stands for what is before the @ of an address."""
    text = re.sub(r"://(?!/)[^\s'\"]*@", "://***@", text)
    return re.sub(rf"({SECRET}=)[^&\s'\"]*", r"\1***", text)


def without_credentials(uri: str) -> str:
    """An address that can be kept: of a server without name and password, of a database without password."""
    uri, removed = re.subn(rf"{SECRET}=[^&]*(&|$)", "", uri)
    uri = re.sub(r"[?&]$", "", uri) if removed else uri
    head, mark, rest = uri.partition("://")
    # A password may have / and @ in it. On the web a port is none; the address of a database is read otherwise.
    port = r"(?!\d+/)" if head.startswith("http") else ""
    where = re.match(rf"(?P<who>[^\s/:@]*(:{port}.*)?)@", rest) if mark and not rest.startswith("/") else None
    if where is None:
        return uri
    name = where.group("who").partition(":")[0]
    kept = "" if head.startswith("http") or not name else f"{name}@"
    return f"{head}://{kept}{rest[where.end() :]}"


def with_credentials(uri: str | None) -> str | None:
    """The same address with the name and password that ``MLFLOW_TRACKING_URI`` has for it, if it has any."""
    known = os.environ.get(VARIABLE)
    return known if uri and known and without_credentials(known) == uri else uri


def local_store(folder: Path) -> str:
    """The address of the database in a folder."""
    return f"sqlite:///{folder / 'mlflow.db'}"


def is_own(uri: str) -> bool:
    """Whether this is the store that is used where none is named: that of the environment, or of the working folder.

    Any other that a run folder names is one that whoever made the folder has chosen.
    """
    known = os.environ.get(VARIABLE)
    return without_credentials(uri) in (without_credentials(known) if known else "", local_store(Path.cwd()))


def take_credentials(overrides: list[str]) -> list[str]:
    """The command line as it can be saved: the password of ``tracking.uri=`` goes to the environment."""
    kept = []
    for text in overrides:
        uri = text.removeprefix(SETTING).strip("'\"")
        if text.startswith(SETTING) and without_credentials(uri) != uri:
            os.environ[VARIABLE] = uri
            text = f"{SETTING}{text.removeprefix(SETTING).replace(uri, without_credentials(uri))}"
        kept.append(text)
    return kept


def kept_uri(uri: object) -> object:
    """``tracking.uri`` as a run may log it; refuses a password that would be saved with the run as it stands."""
    if not isinstance(uri, str) or without_credentials(uri) == uri:
        return uri
    if uri != os.environ.get(VARIABLE):
        raise ConfigError(
            f"tracking.uri={hide_password(uri)} has a password in a configuration file, where every run would save it: "
            f"put it into the environment variable {VARIABLE}."
        )
    return without_credentials(uri)


def refuse_password(key: str, address: object) -> None:
    """Refuse a password in an address that would be saved with every run, and for which no variable stands."""
    if isinstance(address, str) and without_credentials(address) != address:
        raise ConfigError(
            f"{key}={hide_password(address)} has a password, which every run would save: leave it out, and log in "
            "by the means of that store (a key, or variables of the environment)."
        )


def server_of(uri: str) -> str:
    """Scheme and place of a server on the web, without credentials; empty for other stores."""
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https"):
        return ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
