"""Who is signed in."""

import secrets

_open: dict[str, int] = {}


def sign_in(customer: int) -> str:
    """A token for a customer, which nobody can guess."""
    token = secrets.token_urlsafe(16)
    _open[token] = customer
    return token


def customer_of(token: str) -> int | None:
    """Whose token it is; None for a token that nobody got."""
    return _open.get(token)
