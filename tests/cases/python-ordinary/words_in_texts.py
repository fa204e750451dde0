print("import os; exec(1); eval(2); __import__ and subprocess are only words here")
# import sys would be refused, this comment is not
