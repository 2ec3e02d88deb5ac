"""Who buys."""

from shop import sdk


def names() -> dict[int, str]:
    """Name by customer."""
    return {row["id"]: row["name"] for row in sdk.fetch("customers", 5000)}


def countries() -> set[str]:
    """The countries that customers live in."""
    return {row["country"] for row in sdk.fetch("customers", 5000)}
