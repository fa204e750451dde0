import locale
import gettext

print(gettext.gettext("hello"), locale.getlocale() is not None)
