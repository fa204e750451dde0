import calendar

print(calendar.month(2026, 11))
print(calendar.monthrange(2024, 2))
