package protocol

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func sampleMetadata(version int16) *kmsg.MetadataResponse {
	m := kmsg.NewPtrMetadataResponse()
	m.Version = version
	rack, cluster := "rack-1", "cluster"
	one, two := kmsg.NewMetadataResponseBroker(), kmsg.NewMetadataResponseBroker()
	one.NodeID, one.Host, one.Port, one.Rack = 1, "broker-1.example", 9092, &rack
	one.UnknownTags.Set(3, []byte("tag"))
	two.NodeID, two.Host, two.Port = 2, "broker-2.example", 9093
	m.Brokers = []kmsg.MetadataResponseBroker{one, two}
	m.ClusterID, m.ControllerID, m.ThrottleMillis = &cluster, 2, 10
	name := "orders"
	topic := kmsg.NewMetadataResponseTopic()
	topic.Topic, topic.TopicID, topic.IsInternal = &name, idA, true
	for number := range int32(3) {
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Partition, p.Leader, p.LeaderEpoch = number, 1, 7
		p.Replicas, p.ISR, p.OfflineReplicas = []int32{1, 2}, []int32{1}, []int32{2}
		topic.Partitions = append(topic.Partitions, p)
	}
	unknown := kmsg.NewMetadataResponseTopic()
	unknown.ErrorCode = int16(UnknownTopicOrPartition)
	if version < 12 {
		unknown.Topic = &rack
	}
	m.Topics = []kmsg.MetadataResponseTopic{topic, unknown}
	return m
}

func TestDecodeResponseReadsMetadataAtEveryVersion(t *testing.T) {
	for version := int16(0); version <= 13; version++ {
		body := sampleMetadata(version).AppendTo(nil)
		want, got := kmsg.NewPtrMetadataResponse(), kmsg.NewPtrMetadataResponse()
		want.Version, got.Version = version, version
		require.NoError(t, want.ReadFrom(body))
		require.NoError(t, DecodeResponse(got, body), version)
		require.Equal(t, want, got)
		require.Len(t, got.Topics[0].Partitions, 3)

		for cut := range body {
			requireMalformed(t, DecodeResponse(got, body[:cut]), "Metadata response")
		}
	}
}

func TestDecodeResponseReadsEveryControlResponse(t *testing.T) {
	for key := range apiHistory {
		resp := kmsg.ResponseForKey(key)
		for version := int16(0); version <= resp.MaxVersion(); version++ {
			resp.SetVersion(version)
			require.NoError(t, DecodeResponse(resp, resp.AppendTo(nil)), "%s v%d", APIName(key), version)
			err := DecodeResponse(resp, nil)
			requireMalformed(t, err, APIName(key)+" response")
		}
	}
}

func TestDecodeResponseRefusesALargeBody(t *testing.T) {
	resp := kmsg.NewPtrFindCoordinatorResponse()
	resp.Version = 1
	resp.Host = strings.Repeat("h", 100)
	body := resp.AppendTo(nil)
	require.NoError(t, DecodeResponse(resp, append(body, make([]byte, maxControlBody-len(body))...)))
	err := DecodeResponse(resp, append(body, make([]byte, maxControlBody+1-len(body))...))
	requireMalformed(t, err, "FindCoordinator response: size: 16777217 bytes are more than the 16777216 allowed")
}

func TestDecodeResponseReadsLargeMetadata(t *testing.T) {
	m := sampleMetadata(9)
	p := m.Topics[0].Partitions[0]
	p.Replicas = make([]int32, 1000)
	for len(m.Topics[0].Partitions) < 5000 {
		m.Topics[0].Partitions = append(m.Topics[0].Partitions, p)
	}
	body := m.AppendTo(nil)
	require.Greater(t, len(body), maxControlBody)
	got := kmsg.NewPtrMetadataResponse()
	got.Version = 9
	require.NoError(t, DecodeResponse(got, body))
	require.Len(t, got.Topics[0].Partitions, 5000)
}

func TestMetadataCountsAreCheckedBeforeAnythingIsAllocated(t *testing.T) {
	zeros := make([]byte, 20<<20)
	tests := []struct {
		name    string
		version int16
		head    []byte
		text    string
	}{
		{"brokers that cannot be there", 0, []byte{0, 0x7f, 0, 0}, "brokers at byte 4: 8323072 elements of at least 10 bytes"},
		{"topics that cannot be there", 0, []byte{0, 0, 0, 0, 0, 0x7f, 0, 0}, "topics at byte 8: 8323072 elements of at least 8 bytes"},
		{"topics that could be there but are not", 0,
			[]byte{0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff},
			"replicas at byte 30: 8388607 elements of at least 4 bytes"},
		{"partitions that cannot be there", 9,
			append([]byte{0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 0, 0, 2, 't', 0}, 0xff, 0xff, 0xff, 7), "partitions at byte 20: 16777214 elements of at least 12 bytes"},
		{"a topic name beyond the body", 9, []byte{0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f}, "topic at byte 18: needs 4294967294 bytes"},
		{"a tag beyond the body", 9, []byte{0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f}, "tagged field at byte"},
		{"a varint that is too long", 9, []byte{0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff}, "brokers at byte 4: not a varint of 32 bits"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp := kmsg.NewPtrMetadataResponse()
			resp.Version = tt.version
			body := append(bytes.Clone(tt.head), zeros...)
			var err error
			got := bytesAllocated(func() { err = DecodeResponse(resp, body) })
			requireMalformed(t, err, tt.text)
			require.Less(t, got, uint64(1<<16))
		})
	}
}
