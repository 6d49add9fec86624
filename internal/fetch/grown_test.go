package fetch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A broker takes the high watermark before it reads, so both may be of another time.
func TestLogThatGrowsWhileItIsRead(t *testing.T) {
	r := newRig(t)
	r.assign(1)
	for base := int64(0); base < 300; base += 30 { // the same each time
		r.fetch(ans{hw: base + 10, records: append(v2(base, 10), v2(base+10, 20)...)})
		require.Equal(t, names(0, base, base+29), r.drain())
	}
	require.Empty(t, r.table.Faults())
	require.Equal(t, map[int32]int64{0: 300}, asked(&r.plan(1, newest).Request))
}
