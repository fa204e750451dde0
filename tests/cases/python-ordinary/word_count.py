text = """the quick brown fox
jumps over the lazy dog the end"""
frequency: dict[str, int] = {}
for word in text.split():
    frequency[word] = frequency.get(word, 0) + 1
for word, n in sorted(frequency.items(), key=lambda item: (-item[1], item[0]))[:3]:
    print(f"{word:<10}{n:>3}")
