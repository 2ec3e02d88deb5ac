"""What the shop sells."""

from shop import sdk

TIMEOUT_MS = 2000


def prices() -> dict[str, int]:
    """Price by article."""
    return {row["sku"]: row["price"] for row in sdk.fetch("catalog", TIMEOUT_MS)}


def price(sku: str) -> int:
    """The price of one article."""
    return prices()[sku]
