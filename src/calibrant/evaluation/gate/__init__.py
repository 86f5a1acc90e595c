"""A gate for pipelines: values compared with limits and with a baseline."""
