"""Campaigns: a matrix of cases, carried out unattended and resumed where it was left."""
