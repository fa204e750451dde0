import unittest

class Sums(unittest.TestCase):
    def test_sum(self):
        self.assertEqual(sum([1, 2]), 3)

suite = unittest.defaultTestLoader.loadTestsFromTestCase(Sums)
print(suite.countTestCases())
