"""Pretraining: masked LM and sentence order prediction."""
