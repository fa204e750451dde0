import math

print(math.gcd(12, 18), math.comb(5, 2), math.isclose(0.1 + 0.2, 0.3), math.tau)
