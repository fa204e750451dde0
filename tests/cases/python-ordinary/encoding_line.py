#!/usr/bin/env python3
# -*- coding: utf-8 -*-
# encoding notes: coding style is PEP 8


class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x = x
        self.y = y

    def where(self):
        return self.x, self.y


match Point(1, 2):
    case Point(x, y):
        print(x, y, Point(1, 2).where.__self__.x)
