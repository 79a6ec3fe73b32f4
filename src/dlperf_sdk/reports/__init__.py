"""Render results for people as blocks of text and tables, for the terminal and as Markdown."""
