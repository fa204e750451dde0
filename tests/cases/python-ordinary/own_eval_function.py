def evaluate(tokens):
    stack = []
    for token in tokens.split():
        if token in "+-*/":
            b, a = stack.pop(), stack.pop()
            stack.append({"+": a + b, "-": a - b, "*": a * b}.get(token))
        else:
            stack.append(float(token))
    return stack[0]

print(evaluate("3 4 + 2 *"))
