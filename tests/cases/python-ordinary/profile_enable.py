import cProfile
import pstats

profiler = cProfile.Profile()
profiler.enable()
sum(range(1000))
profiler.disable()
print(pstats.Stats(profiler).total_calls >= 0)
