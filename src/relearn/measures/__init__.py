"""What we look at: each file takes a network, features or poisons, changes nothing, and returns numbers."""
