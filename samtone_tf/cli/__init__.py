"""The command `samtone`: one thin file per command; each calls the same verb in Python."""
