from html.parser import HTMLParser

class Links(HTMLParser):
    def handle_starttag(self, tag, attrs):
        if tag == "a":
            print(dict(attrs).get("href"))

Links().feed("<p><a href='x'>y</a></p>")
