"""What the shop promises."""

import unittest

from shop import (
    catalog,
    customers,
    labels,
    money,
    orders,
    payments,
    reports,
    search,
    sessions,
    shipping,
    stock,
)


class ShopTest(unittest.TestCase):
    def test_prices(self) -> None:
        assert catalog.prices() == {"tea": 4, "cup": 9}
        assert search.find("u") == ["cup"]

    def test_customers(self) -> None:
        assert customers.names() == {1: "Ada"}
        assert customers.countries() == {"GB"}
        assert labels.label(1) == "To Ada"

    def test_orders(self) -> None:
        assert orders.total(7) == 18
        assert orders.of_customer(1) == [7]

    def test_stock(self) -> None:
        assert stock.short_of("cup", 2)
        assert not stock.short_of("tea", 2)

    def test_delivery(self) -> None:
        assert payments.is_paid(7)
        assert shipping.may_leave(7)
        assert shipping.state(8) == "unknown"

    def test_sums(self) -> None:
        assert reports.turnover() == 18
        assert reports.shelf_value() == 57
        assert money.shown(-1805) == "-18.05"

    def test_sessions(self) -> None:
        token = sessions.sign_in(1)
        assert sessions.customer_of(token) == 1
        assert sessions.customer_of("guess") is None


if __name__ == "__main__":
    unittest.main()
