import html

print(html.escape("<a & b>"), html.unescape("&eacute;"))
