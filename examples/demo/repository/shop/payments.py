"""What was paid."""

from shop import sdk


def is_paid(order_id: int) -> bool:
    """Whether an order was paid."""
    return any(row["order"] == order_id and row["paid"] for row in sdk.fetch("payments", 3000))
