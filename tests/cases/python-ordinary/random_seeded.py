import random

rng = random.Random(42)
print(rng.sample(range(100), 5), rng.choice("abc"))
