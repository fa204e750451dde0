notes = """exec() and eval() run text; __import__ is for the interpreter.
Methods like __init__ and __call__ are ordinary, and so is f.__globals__ in a sentence."""
print("use compile() with care:", notes.count("()"), len("builtins, globals and subclasses".split()))
