package protocol

import "hash/crc32"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// crc32C is the checksum of v2 batches. It covers everything from the
// attributes on, so that a broker can set offset and leader epoch without
// computing it again.
func crc32C(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// crc32IEEE is the checksum of messages v0 and v1, from the magic byte on.
func crc32IEEE(b []byte) uint32 { return crc32.ChecksumIEEE(b) }
