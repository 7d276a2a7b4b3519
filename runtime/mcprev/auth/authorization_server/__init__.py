"""An authorization server: registers clients, asks users for consent, and issues tokens for the resources it is told."""
