"""Identifiability scores: plain functions on two arrays."""
