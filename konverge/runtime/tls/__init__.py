"""Certificates of our own servers: made, read from files, and replaced while requests go on."""
