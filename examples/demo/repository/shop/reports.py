"""Sums over everything."""

from shop import catalog, orders, sdk


def turnover() -> int:
    """What all orders cost together."""
    return sum(orders.total(row["id"]) for row in sdk.fetch("orders", 10_000))


def shelf_value() -> int:
    """What the stock is worth."""
    prices = catalog.prices()
    return sum(prices[row["sku"]] * row["count"] for row in sdk.fetch("stock", 10_000))
