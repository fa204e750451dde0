from math import *
from random import *
from itertools import *

seed(1)
print(sqrt(2) > 1, pi, randint(1, 1), list(islice(count(), 3)))
