"""Finding articles by a part of their name."""

from shop import sdk


def find(text: str) -> list[str]:
    """The articles whose name holds `text`."""
    return sorted(row["sku"] for row in sdk.fetch("catalog", 250) if text in row["sku"])
