package protocol

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestRequestFrameIsWhatKmsgMakes(t *testing.T) {
	tests := []struct {
		name     string
		req      kmsg.Request
		version  int16
		clientID string
	}{
		{"a header without tags", kmsg.NewPtrHeartbeatRequest(), 3, "consumer-1"},
		{"a flexible header", kmsg.NewPtrHeartbeatRequest(), 4, "consumer-1"},
		{"a flexible ApiVersions request", kmsg.NewPtrApiVersionsRequest(), 3, "consumer-1"},
		{"an empty client id", kmsg.NewPtrMetadataRequest(), 12, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.req.SetVersion(tt.version)
			want := kmsg.NewRequestFormatter(kmsg.FormatterClientID(tt.clientID)).AppendRequest(nil, tt.req, 0x01020304)
			got := AppendRequestHeader(make([]byte, 0, 64), tt.req.Key(), tt.version, 0x01020304, tt.clientID, tt.req.IsFlexible())
			got = FinishFrame(tt.req.AppendTo(got))
			require.Equal(t, want, got)
		})
	}
}

func TestRequestHeaderAllocatesNothingWithRoom(t *testing.T) {
	buf := make([]byte, 0, 64)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		FinishFrame(AppendRequestHeader(buf, KeyFetch, 12, 7, "consumer-1", true))
	}))
}

func TestClientIDThatIsTooLongIsCut(t *testing.T) {
	frame := AppendRequestHeader(nil, KeyFetch, 0, 7, strings.Repeat("x", 40_000), false)
	require.Len(t, frame, 4+2+2+4+2+32_767)
	require.Equal(t, []byte{0x7f, 0xff}, frame[12:14])
}

func TestAPIName(t *testing.T) {
	require.Equal(t, "Fetch", APIName(KeyFetch))
	require.Equal(t, "OffsetForLeaderEpoch", APIName(KeyOffsetForLeaderEpoch))
	require.Equal(t, "API 999", APIName(999))
}
