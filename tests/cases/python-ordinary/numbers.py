print(0xFF, 0b101, 0o17, 1_000_000, 1e-3, 2 ** 100, divmod(17, 5), round(2.5), abs(-3), complex(1, 2))
