from string import Template, ascii_lowercase

print(Template("Hello $name").substitute(name="Ada"), ascii_lowercase[:3])
