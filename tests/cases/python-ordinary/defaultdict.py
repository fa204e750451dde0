from collections import defaultdict

groups = defaultdict(list)
for word in "apple avocado banana".split():
    groups[word[0]].append(word)
print(dict(groups))
