#!POPCORN leaderboard repeated_squares
"""Takes more than a second, one step after the other."""


def custom_kernel(data):
    text, modulus_text, squarings = data
    number, modulus = int(text, 16), int(modulus_text, 16)
    for _ in range(squarings):
        number = number * number % modulus
    return f"{number:x}"
