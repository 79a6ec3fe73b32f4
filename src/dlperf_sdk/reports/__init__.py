"""What people read: results as blocks of text and tables, for the terminal and as Markdown."""
