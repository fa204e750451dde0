import ast

print(ast.literal_eval("[1, {'a': (2, 3)}]"))
