from zoneinfo import ZoneInfo
from datetime import datetime

try:
    print(datetime(2026, 7, 1, tzinfo=ZoneInfo("Europe/Berlin")).utcoffset())
except Exception as error:
    print("no zones here:", error)
