package protocol

import "encoding/binary"

// The versions of Fetch that FetchRequest and FetchResponse speak. 17 and 18
// changed only what brokers say to each other.
const (
	FetchMinVersion int16 = 0
	FetchMaxVersion int16 = 16
)

const (
	fetchFlexible   = 12
	fetchTopicIDs   = 13
	fetchNoReplica  = 15
	fetchEndpoints  = 16
	consumerReplica = ^uint32(0) // -1: not a broker
	noLogStart      = ^uint64(0) // -1: only followers send theirs
)

// A FetchRequest asks one broker for records. A field that the version at hand
// does not have is left out. Its slices may be reused between requests.
type FetchRequest struct {
	// MaxWaitMillis is how long the broker may wait for MinBytes.
	MaxWaitMillis int32
	MinBytes      int32
	// MaxBytes bounds the records of the response (v3+); the broker exceeds
	// it for one batch that is larger.
	MaxBytes int32
	// IsolationLevel is 0 for read_uncommitted, 1 for read_committed (v4+).
	IsolationLevel int8
	// SessionID and SessionEpoch are those of KIP-227 (v7+): 0 and -1 ask
	// without a session, 0 and 0 for a new one.
	SessionID    int32
	SessionEpoch int32
	// Rack is the client's rack (v11+, KIP-392), or "".
	Rack      string
	Topics    []FetchTopic
	Forgotten []ForgottenTopic // partitions that leave the session (v7+)
}

// A FetchTopic holds the partitions of one topic in a FetchRequest.
type FetchTopic struct {
	Name       string   // sent below v13
	ID         [16]byte // sent from v13 on
	Partitions []FetchPartition
}

// A FetchPartition is one partition to fetch.
type FetchPartition struct {
	Partition          int32
	CurrentLeaderEpoch int32 // -1 unknown (v9+)
	FetchOffset        int64
	LastFetchedEpoch   int32 // -1 unknown (v12+)
	MaxBytes           int32
}

// A ForgottenTopic holds the partitions of one topic that leave a fetch
// session.
type ForgottenTopic struct {
	Name       string   // sent below v13
	ID         [16]byte // sent from v13 on
	Partitions []int32
}

// AppendTo appends the body of the request at a version from FetchMinVersion
// to FetchMaxVersion. It allocates only where dst has to grow.
func (q *FetchRequest) AppendTo(dst []byte, version int16) []byte {
	flexible := version >= fetchFlexible
	be := binary.BigEndian
	if version < fetchNoReplica {
		dst = be.AppendUint32(dst, consumerReplica)
	}
	dst = be.AppendUint32(dst, uint32(q.MaxWaitMillis))
	dst = be.AppendUint32(dst, uint32(q.MinBytes))
	if version >= 3 {
		dst = be.AppendUint32(dst, uint32(q.MaxBytes))
	}
	if version >= 4 {
		dst = append(dst, byte(q.IsolationLevel))
	}
	if version >= 7 {
		dst = be.AppendUint32(dst, uint32(q.SessionID))
		dst = be.AppendUint32(dst, uint32(q.SessionEpoch))
	}
	dst = appendArrayLen(dst, len(q.Topics), flexible)
	for i := range q.Topics {
		dst = q.Topics[i].appendTo(dst, version)
	}
	if version >= 7 {
		dst = appendArrayLen(dst, len(q.Forgotten), flexible)
		for i := range q.Forgotten {
			dst = q.Forgotten[i].appendTo(dst, version)
		}
	}
	if version >= 11 {
		dst = appendString(dst, q.Rack, flexible)
	}
	return appendNoTags(dst, flexible)
}

func (t *FetchTopic) appendTo(dst []byte, version int16) []byte {
	flexible := version >= fetchFlexible
	dst = appendTopic(dst, t.Name, &t.ID, version)
	dst = appendArrayLen(dst, len(t.Partitions), flexible)
	for i := range t.Partitions {
		dst = t.Partitions[i].appendTo(dst, version)
	}
	return appendNoTags(dst, flexible)
}

func (p *FetchPartition) appendTo(dst []byte, version int16) []byte {
	be := binary.BigEndian
	dst = be.AppendUint32(dst, uint32(p.Partition))
	if version >= 9 {
		dst = be.AppendUint32(dst, uint32(p.CurrentLeaderEpoch))
	}
	dst = be.AppendUint64(dst, uint64(p.FetchOffset))
	if version >= 12 {
		dst = be.AppendUint32(dst, uint32(p.LastFetchedEpoch))
	}
	if version >= 5 {
		dst = be.AppendUint64(dst, noLogStart)
	}
	dst = be.AppendUint32(dst, uint32(p.MaxBytes))
	return appendNoTags(dst, version >= fetchFlexible)
}

func (t *ForgottenTopic) appendTo(dst []byte, version int16) []byte {
	flexible := version >= fetchFlexible
	dst = appendTopic(dst, t.Name, &t.ID, version)
	dst = appendArrayLen(dst, len(t.Partitions), flexible)
	for _, p := range t.Partitions {
		dst = binary.BigEndian.AppendUint32(dst, uint32(p))
	}
	return appendNoTags(dst, flexible)
}

func appendTopic(dst []byte, name string, id *[16]byte, version int16) []byte {
	if version >= fetchTopicIDs {
		return append(dst, id[:]...)
	}
	return appendString(dst, name, version >= fetchFlexible)
}

func appendNoTags(dst []byte, flexible bool) []byte {
	if flexible {
		return append(dst, 0)
	}
	return dst
}
