import cmath

print([cmath.exp(2j * cmath.pi * k / 3) for k in range(3)])
