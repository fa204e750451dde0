import re

class Engine:
    def compile(self, text):
        return re.compile(text)

    def eval(self, x):
        return x + 1

    def exec(self):
        return "ran"

e = Engine()
print(e.compile("a").match("a"), e.eval(1), e.exec())
