import ast

tree = ast.parse("x = 1 + y")
print(sorted({type(node).__name__ for node in ast.walk(tree)}))
