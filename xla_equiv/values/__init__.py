"""The nouns of the project: small frozen classes that need neither torch nor a device."""
