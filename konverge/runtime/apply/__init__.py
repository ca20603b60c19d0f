"""Server-side apply of children and status, owner references."""
