"""Fixtures that are shared with other folders."""

from ray_cluster import cluster as cluster
