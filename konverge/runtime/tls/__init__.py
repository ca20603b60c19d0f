"""Certificates of our own servers: generated, read from files, and replaced during operation."""
