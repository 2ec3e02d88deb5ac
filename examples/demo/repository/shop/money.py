"""Amounts of money as people read them."""


def shown(cents: int) -> str:
    """An amount with two digits behind the point."""
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100}.{abs(cents) % 100:02}"
