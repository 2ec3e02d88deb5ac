"""What lies on the shelves."""

from shop import sdk


def counts() -> dict[str, int]:
    """Pieces by article."""
    return {row["sku"]: row["count"] for row in sdk.fetch("stock", timeout_ms=500)}


def short_of(sku: str, wanted: int) -> bool:
    """Whether there are fewer pieces than wanted."""
    return counts().get(sku, 0) < wanted
