//go:build !race

package fetch

func poison([]byte) {}

// maxTracked slabs are 8 MiB.
const maxTracked = 16
