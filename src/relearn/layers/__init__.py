"""What is part of a network and runs in its forward pass; one idea a file."""
