"""Reports: results as blocks of text and tables, shown on the terminal, as Markdown and in HTML."""
