"""Campaigns: matrices of cases that are measured unattended, and resumed after an interruption."""
