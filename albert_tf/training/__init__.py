"""Training around `Model.fit`: recipes, optimizer, exact resume, fine-tuning."""
