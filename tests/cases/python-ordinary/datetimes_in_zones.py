from datetime import datetime, timezone, timedelta

cairo = timezone(timedelta(hours=2))
print(datetime(2026, 5, 1, 12, tzinfo=timezone.utc).astimezone(cairo))
