from datetime import date, timedelta

start = date(2026, 1, 31)
print([(start + timedelta(days=7 * i)).isoformat() for i in range(4)])
