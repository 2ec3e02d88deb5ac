"""Address labels."""

from shop import customers


def label(customer: int) -> str:
    """The line on a parcel."""
    return f"To {customers.names()[customer]}"
