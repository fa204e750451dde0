import re


def parse(pattern, text):
    compile = re.compile
    return [m.group() for m in compile(pattern).finditer(text)]


def evaluate(tokens):
    def eval(index):
        return int(tokens[index])

    return eval(0) + eval(1)


print(parse(r"\d+", "a1b22"), evaluate(["1", "2"]))
