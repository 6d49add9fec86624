package protocol

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The API keys of the requests that a consumer sends or that tell releases
// apart.
const (
	KeyProduce                int16 = 0
	KeyFetch                  int16 = 1
	KeyListOffsets            int16 = 2
	KeyMetadata               int16 = 3
	KeyOffsetCommit           int16 = 8
	KeyOffsetFetch            int16 = 9
	KeyFindCoordinator        int16 = 10
	KeyJoinGroup              int16 = 11
	KeyHeartbeat              int16 = 12
	KeyLeaveGroup             int16 = 13
	KeySyncGroup              int16 = 14
	KeyDescribeGroups         int16 = 15
	KeyListGroups             int16 = 16
	KeySaslHandshake          int16 = 17
	KeyApiVersions            int16 = 18
	KeyOffsetForLeaderEpoch   int16 = 23
	KeyAddPartitionsToTxn     int16 = 24
	KeyDescribeLogDirs        int16 = 35
	KeySaslAuthenticate       int16 = 36
	KeyConsumerGroupHeartbeat int16 = 68
)

// APIName returns Kafka's name of an API key, such as "Fetch", or "API 999"
// for a key that is not known.
func APIName(key int16) string {
	switch key { // which kmsg spells otherwise
	case KeySaslHandshake:
		return "SaslHandshake"
	case KeySaslAuthenticate:
		return "SaslAuthenticate"
	}
	if name := kmsg.NameForKey(key); name != "Unknown" {
		return name
	}
	return fmt.Sprintf("API %d", key)
}
