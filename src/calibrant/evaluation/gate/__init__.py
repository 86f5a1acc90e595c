"""A gate for pipelines: values held against limits and against a baseline."""
