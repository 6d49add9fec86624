package clients

import "context"

// Protocols of a group: how it rebalances.
const (
	Range       = "range"
	Cooperative = "cooperative"
)

// A GroupJob is what the members of a group share.
type GroupJob struct {
	Brokers      []string
	Group, Topic string
	Protocol     string
}

// A Member consumes as a member of a group until ctx ends, from the beginning where
// nothing is committed, and tells seen of each record. Where it can be said, it has its
// client's defaults.
type Member struct {
	Protocols []string
	Run       func(ctx context.Context, job GroupJob, seen func(partition int32, offset int64)) error
}

// Members are the clients that can be members of groups, by name.
var Members = map[string]Member{
	"kafka":    {[]string{Range, Cooperative}, joinKafka},
	"franz":    {[]string{Range, Cooperative}, joinFranz},
	"sarama":   {[]string{Range}, joinSarama},
	"kafka-go": {[]string{Range}, joinKafkaGo},
}
