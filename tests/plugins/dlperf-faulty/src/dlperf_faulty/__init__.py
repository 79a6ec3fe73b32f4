"""A framework plugin whose workers go wrong on request: what the agents, the verdicts and the API must cope with."""
