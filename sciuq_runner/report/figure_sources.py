"""Figures inside the page, as addresses that hold the picture."""

from __future__ import annotations

from base64 import b64encode
from io import BytesIO

LARGE_FILE, LONGEST_SIDE = 60_000, 1000  # bytes and pixels above which a figure is made smaller


def data_uri(png: bytes) -> str:
    """A PNG inside an address, made smaller where it is large; empty for what is no PNG."""
    from PIL import Image

    try:
        with Image.open(BytesIO(png), formats=["PNG"]) as image:
            image.load()
            if len(png) > LARGE_FILE or max(image.size) > LONGEST_SIDE:
                image.thumbnail((LONGEST_SIDE, LONGEST_SIDE), Image.Resampling.LANCZOS)
                small = BytesIO()
                image.convert("RGB").quantize(128).save(small, "PNG", optimize=True)
                png = min(png, small.getvalue(), key=len)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):  # what Pillow says of broken files
        return ""
    return f"data:image/png;base64,{b64encode(png).decode('ascii')}"
