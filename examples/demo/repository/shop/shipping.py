"""What is on its way."""

from shop import payments, sdk


def state(order_id: int) -> str:
    """How far an order has come."""
    for row in sdk.fetch("shipments", 3000):
        if row["order"] == order_id:
            return row["state"]
    return "unknown"


def may_leave(order_id: int) -> bool:
    """Only what is packed and paid may leave the house."""
    return state(order_id) == "packed" and payments.is_paid(order_id)
