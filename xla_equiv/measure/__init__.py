"""How far two traces are apart, key by key and step by step. Pure numpy."""
