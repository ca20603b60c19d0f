"""`konverge demo`: an API server, the daemon and samples on one machine.

command.py    the command: starts everything, waits until the samples converge, stops
stages.py     the API server that the demo runs on: in memory, or a real one
samples.py    the sample objects, and their expected conditions
table.py      the table of instances on the terminal
"""
