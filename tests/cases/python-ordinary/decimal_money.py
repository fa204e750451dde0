from decimal import Decimal, ROUND_HALF_UP

price = Decimal("19.99") * 3
print(price.quantize(Decimal("0.1"), rounding=ROUND_HALF_UP))
