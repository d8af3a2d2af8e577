"""Reads files of any size as documents and sentences, in bounded memory."""
