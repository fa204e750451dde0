import configparser

parser = configparser.ConfigParser()
parser.read_string("[a]\nb = 1\n")
print(parser.getint("a", "b"))
