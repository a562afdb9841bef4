"""What `scripts/playground.py` shows, and the server that shows it."""
