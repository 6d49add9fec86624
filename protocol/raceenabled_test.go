//go:build race

package protocol

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const raceEnabled = true

func TestReleasedBytesAreOverwritten(t *testing.T) {
	recs := numbered(0, 100)
	s, _, err := new(Decoder).Decode(batch{codec: CodecLZ4, recs: recs}.encode(), noLimit)
	require.NoError(t, err)
	value := s.Value(5)
	s.Release()
	require.NotEqual(t, recs[5].value, value)
}
