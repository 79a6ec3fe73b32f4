"""Export of results to other programs' formats, and import of other programs' measurements."""
