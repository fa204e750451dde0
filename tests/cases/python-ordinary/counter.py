from collections import Counter

print(Counter("mississippi").most_common(2))
