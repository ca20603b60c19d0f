// A server that answers as a kube-apiserver does to the programs of the benchmark, fast enough not to be the limit. Standard library only.
module konverge.invalid/tools/bench/standin

go 1.26.0
