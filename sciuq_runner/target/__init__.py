"""The target log p(theta | D): where a problem, its data and a model meet, and all that a method sees."""
