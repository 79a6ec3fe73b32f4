"""One case: prepare, launch, record, summarize."""
