import textwrap

print(textwrap.fill("a long line of words " * 5, width=30))
print(textwrap.dedent("    x\n    y"))
