# Names of builtins as keys, parameters, values and methods.
options = {"compile": True, "eval": 1}
print(options.get("compile"), options.pop("eval"))


class Model:
    def __init__(self, compile=False):
        self.compile = compile

    def eval(self):
        return self.compile


def run(eval, exec=None):
    return eval + 1 if exec is None else exec


print(Model(True).eval(), run(2))
compile = 3
print(compile)
