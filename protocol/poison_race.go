//go:build race

package protocol

// poison overwrites released bytes, so that use after release is seen.
func poison(b []byte) {
	b = b[:cap(b)]
	for i := range b {
		b[i] = 0xdb
	}
}

func clearPoisoned(index []entry) {
	for i := range index {
		index[i] = entry{keyLen: -1, valueLen: -1, timestamp: -0x2424242424242425}
	}
}
