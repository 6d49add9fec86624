//go:build !race

package fetch

func poison([]byte) {}

// maxTracked slabs are 6 MiB.
const maxTracked = 12
