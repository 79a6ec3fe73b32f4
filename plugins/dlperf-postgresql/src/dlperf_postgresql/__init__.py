"""Results of dlperf-sdk in a PostgreSQL database, at URLs such as `postgresql://HOST/DATABASE`."""
