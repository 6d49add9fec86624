package testbroker

import "github.com/twmb/franz-go/pkg/kmsg"

// failure builds the answer of Fail. It asks nothing of the cluster, so that it
// comes at once and does not change groups or sessions. Nil, which closes the
// connection, for a request that did not decode.
func (c *Cluster) failure(req Request, code int16) kmsg.Response {
	switch m := req.Message.(type) {
	case nil:
		return nil
	case *kmsg.FetchRequest:
		return c.failFetch(req.Node, m, code)
	case *kmsg.ListOffsetsRequest:
		return failListOffsets(m, code)
	case *kmsg.MetadataRequest:
		return c.failMetadata(m, code)
	case *kmsg.OffsetCommitRequest:
		return failOffsetCommit(m, code)
	case *kmsg.OffsetFetchRequest:
		return failOffsetFetch(m, code)
	case *kmsg.FindCoordinatorRequest:
		resp := kmsg.NewPtrFindCoordinatorResponse()
		resp.ErrorCode, resp.NodeID = code, -1
		for _, key := range m.CoordinatorKeys {
			co := kmsg.NewFindCoordinatorResponseCoordinator()
			co.Key, co.NodeID, co.ErrorCode = key, -1, code
			resp.Coordinators = append(resp.Coordinators, co)
		}
		return resp
	case *kmsg.JoinGroupRequest:
		resp := joinError(code)
		resp.MemberID = m.MemberID
		return resp
	case *kmsg.SyncGroupRequest:
		return syncError(code)
	case *kmsg.OffsetForLeaderEpochRequest:
		return failLeaderEpoch(m, code)
	}
	return failTop(req.Message, code)
}

// failTop sets the code at the top of a response that has one there.
func failTop(req kmsg.Request, code int16) kmsg.Response {
	resp := req.ResponseKind()
	switch r := resp.(type) {
	case *kmsg.HeartbeatResponse:
		r.ErrorCode = code
	case *kmsg.LeaveGroupResponse:
		r.ErrorCode = code
	case *kmsg.ApiVersionsResponse:
		r.ErrorCode = code
	case *kmsg.SASLHandshakeResponse:
		r.ErrorCode = code
	case *kmsg.SASLAuthenticateResponse:
		r.ErrorCode = code
	default:
		return nil
	}
	return resp
}

func (c *Cluster) failFetch(node int32, req *kmsg.FetchRequest, code int16) kmsg.Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	parts := fetchParts(req)
	resp := kmsg.NewPtrFetchResponse()
	if s := c.node(node).sessions[req.SessionID]; s != nil && req.SessionEpoch > 0 && s.epoch == req.SessionEpoch {
		s.epoch++
		s.update(req)
		parts, resp.SessionID = s.parts, s.id
	}
	for _, part := range parts {
		part.told = false
		p := kmsg.NewFetchResponseTopicPartition()
		p.Partition, p.ErrorCode, p.HighWatermark, p.RecordBatches = part.asked.Partition, code, -1, []byte{}
		part.addTo(resp, p)
	}
	return resp
}

func failListOffsets(req *kmsg.ListOffsetsRequest, code int16) kmsg.Response {
	resp := kmsg.NewPtrListOffsetsResponse()
	for _, t := range req.Topics {
		topic := kmsg.NewListOffsetsResponseTopic()
		topic.Topic = t.Topic
		for _, asked := range t.Partitions {
			p := kmsg.NewListOffsetsResponseTopicPartition()
			p.Partition, p.ErrorCode = asked.Partition, code
			topic.Partitions = append(topic.Partitions, p)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

// failMetadata puts the code into the topics asked for; the brokers are right.
func (c *Cluster) failMetadata(req *kmsg.MetadataRequest, code int16) kmsg.Response {
	resp := c.metadata(req).(*kmsg.MetadataResponse)
	for i := range resp.Topics {
		resp.Topics[i].ErrorCode, resp.Topics[i].Partitions = code, nil
	}
	return resp
}

func failOffsetCommit(req *kmsg.OffsetCommitRequest, code int16) kmsg.Response {
	resp := kmsg.NewPtrOffsetCommitResponse()
	for _, t := range req.Topics {
		topic := kmsg.NewOffsetCommitResponseTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		for _, asked := range t.Partitions {
			p := kmsg.NewOffsetCommitResponseTopicPartition()
			p.Partition, p.ErrorCode = asked.Partition, code
			topic.Partitions = append(topic.Partitions, p)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

// failOffsetFetch puts the code where group errors stand: in the groups from
// version 8 on, at the top from 2 on, before that in every partition.
func failOffsetFetch(req *kmsg.OffsetFetchRequest, code int16) kmsg.Response {
	resp := kmsg.NewPtrOffsetFetchResponse()
	resp.ErrorCode = code
	for _, g := range req.Groups {
		out := kmsg.NewOffsetFetchResponseGroup()
		out.Group, out.ErrorCode = g.Group, code
		resp.Groups = append(resp.Groups, out)
	}
	if req.Version >= 2 {
		return resp
	}
	for _, t := range req.Topics {
		topic := kmsg.NewOffsetFetchResponseTopic()
		topic.Topic = t.Topic
		for _, partition := range t.Partitions {
			p := kmsg.NewOffsetFetchResponseTopicPartition()
			p.Partition, p.Offset, p.ErrorCode = partition, -1, code
			topic.Partitions = append(topic.Partitions, p)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

func failLeaderEpoch(req *kmsg.OffsetForLeaderEpochRequest, code int16) kmsg.Response {
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	for _, t := range req.Topics {
		topic := kmsg.NewOffsetForLeaderEpochResponseTopic()
		topic.Topic = t.Topic
		for _, asked := range t.Partitions {
			p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			p.Partition, p.ErrorCode = asked.Partition, code
			topic.Partitions = append(topic.Partitions, p)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}
