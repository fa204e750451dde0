import heapq

heap = [5, 1, 4]
heapq.heapify(heap)
heapq.heappush(heap, 2)
print([heapq.heappop(heap) for _ in range(len(heap))], heapq.nlargest(2, [1, 9, 3]))
