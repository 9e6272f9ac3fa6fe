"""HTML from small pieces: whatever is not marked as HTML is escaped."""

from __future__ import annotations

from html import escape

VOID = {"img", "meta"}


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, /, *children: str, **attributes: str | float) -> Html:
    """An element; ``class_`` stands for ``class``, and ``data_value`` for ``data-value``."""
    pairs = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_short(value))}"' for key, value in attributes.items()
    )
    return Html(f"<{name}{pairs}>" if name in VOID else f"<{name}{pairs}>{join(*children)}</{name}>")


def join(*children: str) -> Html:
    """Pieces one after the other."""
    return Html("".join(child if isinstance(child, Html) else escape(child) for child in children))


def _short(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
