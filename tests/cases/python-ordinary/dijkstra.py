import heapq

graph = {"a": {"b": 1, "c": 4}, "b": {"c": 2}, "c": {}}

def distances(start):
    best = {start: 0}
    queue = [(0, start)]
    while queue:
        cost, node = heapq.heappop(queue)
        if cost > best[node]:
            continue
        for other, weight in graph[node].items():
            new = cost + weight
            if new < best.get(other, float("inf")):
                best[other] = new
                heapq.heappush(queue, (new, other))
    return best

print(distances("a"))
