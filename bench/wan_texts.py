"""Prompts for speculation, no two alike: a list to be copied, and an open question."""

import random

NAMES = ("Ada", "Bruno", "Carla", "Deniz", "Emil", "Farah", "Gita", "Hugo", "Ines", "Jonas", "Kira", "Luis")
PLACES = ("Lisbon", "Oslo", "Turin", "Ghent", "Riga", "Porto", "Graz", "Bergen", "Lyon", "Split")
TOPICS = ("the sea at night", "an old bridge", "bread", "a lost letter", "snow in April", "a chess game",
          "the first train", "a garden wall", "wind", "a lighthouse keeper")  # fmt: skip


def _asked(text: str) -> str:
    return f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"


class Texts:
    def __init__(self, seed: int = 3):
        self.generator = random.Random(seed)

    def seed(self) -> int:
        return self.generator.randrange(2**32)

    def repetitive(self) -> str:
        """Asks for a copy of lines that have much in common, and begins it."""
        lines = [
            f"{number}. {self.generator.choice(NAMES)} travels from {self.generator.choice(PLACES)} to "
            f"{self.generator.choice(PLACES)} with {self.generator.randrange(2, 99)} boxes of apples."
            for number in range(1, 9)
        ]
        return _asked("Copy this list exactly:\n" + "\n".join(lines)) + "\n".join(lines[:2]) + "\n"

    def free(self) -> str:
        first, second = self.generator.sample(TOPICS, 2)
        name, number = self.generator.choice(NAMES), self.generator.randrange(1000, 9999)
        return _asked(f"({number}) Write a story for {name} about {first} and {second}.")
