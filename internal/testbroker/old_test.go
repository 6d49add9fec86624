package testbroker

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What real brokers of these releases did when they were asked.
func TestOldReleasesAndRequestsThatTheyDoNotKnow(t *testing.T) {
	for _, tc := range []struct {
		release  string
		swallows bool
		last     kmsg.Request // the newest request that it knows
		unknown  kmsg.Request // the next one
	}{
		{"0.8.0", false, kmsg.NewPtrMetadataRequest(), kmsg.NewPtrOffsetFetchRequest()},
		{"0.8.1", false, kmsg.NewPtrOffsetFetchRequest(), kmsg.NewPtrFindCoordinatorRequest()},
		{"0.8.2", false, kmsg.NewPtrFindCoordinatorRequest(), kmsg.NewPtrListGroupsRequest()},
		{"0.9", true, kmsg.NewPtrListGroupsRequest(), kmsg.NewPtrApiVersionsRequest()},
	} {
		t.Run(tc.release, func(t *testing.T) {
			c := New(t, WithRelease(tc.release))
			c.CreateTopic("t", 1)
			c.CreateTopic(offsetsTopic, 1)
			cl := dial(t, c, 1)
			_, err := cl.try(tc.last)
			require.NoError(t, err)
			cl.send(tc.unknown)
			_, err = cl.try(kmsg.NewPtrMetadataRequest())
			if tc.swallows {
				require.NoError(t, err, "the request behind it is answered")
			} else {
				require.Error(t, err)
			}
		})
	}
}

func TestFreshBrokersOf08DoNotNameThemselves(t *testing.T) {
	for release, brokers := range map[string]int{"0.8.0": 0, "0.8.1": 0, "0.8.2": 0, "0.9": 1} {
		c := New(t, WithRelease(release))
		resp := ask[*kmsg.MetadataResponse](dial(t, c, 1), 0, kmsg.NewPtrMetadataRequest())
		require.Len(t, resp.Brokers, brokers, release)
		c.CreateTopic("t", 1)
		resp = ask[*kmsg.MetadataResponse](dial(t, c, 1), 0, kmsg.NewPtrMetadataRequest())
		require.Len(t, resp.Brokers, 1, release)
	}
}
