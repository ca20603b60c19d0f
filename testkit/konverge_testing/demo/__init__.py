"""`konverge demo`: an API server, the daemon and samples on one machine.

command.py    the command: starts everything, waits until the samples converge, stops
stages.py     the API server that the demo runs on: in memory, or a real one
running.py    an operator as a task of the demo's process
operator.py   `konverge demo MODULE:BUILD`: a user's operator in place of the daemon
samples.py    the sample objects, and their expected ends; operations.yaml, cluster.yaml, pools.yaml: samples of Operations,
              pull mode and pools
engines.py    stand-ins for the engines of Operations, a kubelet, and a control plane
table.py      the table of samples on the terminal
"""
