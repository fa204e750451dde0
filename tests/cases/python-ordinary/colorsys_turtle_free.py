import colorsys

print(tuple(round(x, 2) for x in colorsys.rgb_to_hsv(0.2, 0.4, 0.4)))
