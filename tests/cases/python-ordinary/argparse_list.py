import argparse

parser = argparse.ArgumentParser(prog="demo")
parser.add_argument("--n", type=int, default=3)
print(parser.parse_args(["--n", "5"]).n)
