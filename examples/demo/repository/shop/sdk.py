"""The client SDK: the new call `get`, and the old call `fetch` until nobody uses it."""

import warnings

_DATA = {
    "catalog": [{"sku": "tea", "price": 4}, {"sku": "cup", "price": 9}],
    "customers": [{"id": 1, "name": "Ada", "country": "GB"}],
    "orders": [{"id": 7, "customer": 1, "sku": "cup", "count": 2}],
    "stock": [{"sku": "tea", "count": 12}, {"sku": "cup", "count": 1}],
    "payments": [{"order": 7, "paid": True}],
    "shipments": [{"order": 7, "state": "packed"}],
}


def get(path: str, *, timeout_s: float) -> list[dict]:
    """The rows at `path`; `timeout_s` is in seconds."""
    if timeout_s <= 0:
        raise ValueError(f"a time limit of {timeout_s} s")
    return [dict(row) for row in _DATA[path]]


def fetch(path: str, timeout_ms: int) -> list[dict]:
    """The old call: like `get`, with milliseconds. It goes away with the next release."""
    warnings.warn("sdk.fetch is old, use sdk.get", DeprecationWarning, stacklevel=2)
    return get(path, timeout_s=timeout_ms / 1000)
