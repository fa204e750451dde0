try:
    with open("notes.txt", encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            print(number, line.rstrip())
except FileNotFoundError:
    print("no notes")
