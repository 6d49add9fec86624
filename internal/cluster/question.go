package cluster

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// question is what to ask Metadata for.
type question struct {
	names  []string
	all    bool
	create bool // named topics that do not exist may be created
}

// request returns a new request that asks q.
func (q question) request() kmsg.Request {
	return &metadataRequest{MetadataRequest: kmsg.NewPtrMetadataRequest(), question: q}
}

const (
	metadataNullIsAll  = 1 // in version 0 the empty list is
	metadataMayNotMake = 4 // below it a broker creates the topics it is asked for
)

// metadataRequest is a Metadata request whose body depends on the version that
// is chosen when it is sent.
type metadataRequest struct {
	*kmsg.MetadataRequest
	question
}

// SetVersion sets the version and the body that asks the same in it.
func (r *metadataRequest) SetVersion(v int16) {
	r.MetadataRequest.SetVersion(v)
	r.AllowAutoTopicCreation = r.create
	r.Topics = nil
	if r.all || v < metadataMayNotMake && !r.create && len(r.names) > 0 {
		return
	}
	r.Topics = make([]kmsg.MetadataRequestTopic, 0, len(r.names))
	for i := range r.names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &r.names[i]
		r.Topics = append(r.Topics, t)
	}
}

// answer reads a reply to q.
func (q question) answer(r reply) Answer {
	return Answer{
		Response: r.resp.(*kmsg.MetadataResponse), Node: r.node, At: time.Now(), Named: q.names, All: q.all,
	}
}

func checkMetadata(resp kmsg.Response) error {
	m, ok := resp.(*kmsg.MetadataResponse)
	if !ok {
		return errors.New("not an answer to Metadata")
	}
	return protocol.ErrorCode(m.ErrorCode).Err()
}

// bootstrap asks q of the bootstrap addresses.
func (c *Cluster) bootstrap(ctx context.Context, q question) (Answer, error) {
	r := c.race(ctx, c.bootCandidates(), bootHeadStart, q.request, checkMetadata)
	if r.resp == nil {
		return Answer{}, errors.Join(r.errs...)
	}
	return q.answer(r), nil
}

// ask asks q of any known broker. When none answers, or one says that the
// client must begin anew (KIP-1102), the bootstrap addresses are asked.
func (c *Cluster) ask(ctx context.Context, q question) (Answer, error) {
	cands := c.candidates()
	known := len(cands) > len(c.cfg.Bootstrap)
	r := c.race(ctx, cands, headStart, q.request, checkMetadata)
	if known && errors.Is(errors.Join(r.errs...), protocol.RebootstrapRequired) {
		c.log.Warn("kafka: a broker asks this client to begin anew from its bootstrap servers")
		c.dropNodes()
		if r.resp == nil || r.from.known != nil {
			return c.bootstrap(ctx, q)
		}
		return q.answer(r), nil
	}
	if r.resp == nil {
		return Answer{}, errors.Join(r.errs...)
	}
	// Who is asked first is so for an open connection, which tells nothing of the others.
	if known && r.from.known == nil && cands[0].known != nil {
		c.log.Warn("kafka: no known broker answers, metadata comes from a bootstrap server", "server", r.from.addr.String())
	}
	return q.answer(r), nil
}

// AllTopics looks up the metadata of all topics once, for its caller only.
// Failures are retried until ctx ends.
func (c *Cluster) AllTopics(ctx context.Context) (*Metadata, error) {
	a, err := c.askUntil(ctx, question{all: true})
	if err != nil {
		return nil, err
	}
	m, _ := Merge(nil, a)
	return m, nil
}

// TopicMetadata looks up one topic once, without being interested in it from
// now on. What the brokers say of it may be an error: see Topic.Err. Failures
// to get an answer are retried until ctx ends.
func (c *Cluster) TopicMetadata(ctx context.Context, topic string) (*Topic, error) {
	topics, err := c.lookUp(ctx, []string{topic})
	if err != nil {
		return nil, err
	}
	return topics[topic], nil
}

// lookUp asks for topics. Those of the interest set are merged into the
// snapshot too.
func (c *Cluster) lookUp(ctx context.Context, names []string) (map[string]*Topic, error) {
	a, err := c.askUntil(ctx, question{names: names})
	if err != nil {
		return nil, err
	}
	return c.takeLookUp(a), nil
}

func (c *Cluster) takeLookUp(a Answer) map[string]*Topic {
	m, _ := Merge(nil, a)
	a.Named = slices.DeleteFunc(slices.Clone(a.Named), func(name string) bool { return !c.interestedIn(name) })
	c.take(a)
	snapshot := c.Metadata()
	for name := range m.Topics {
		if t := snapshot.Topics[name]; t != nil {
			m.Topics[name] = t
		}
	}
	return m.Topics
}

// askUntil asks q until it is answered, ctx ends, or there is no use in it.
func (c *Cluster) askUntil(ctx context.Context, q question) (Answer, error) {
	ctx, stop := c.bound(ctx)
	defer stop()
	for failures := 1; ; failures++ {
		a, err := c.ask(ctx, q)
		if err == nil {
			return a, nil
		}
		if c.ctx.Err() != nil {
			return Answer{}, ErrClosed
		}
		if ctx.Err() != nil {
			return Answer{}, waitError(ctx, err)
		}
		if isFinal(err) {
			return Answer{}, err
		}
		if !sleep(ctx, max(c.backoff.Delay(failures), minSpacing)) {
			if c.ctx.Err() != nil {
				return Answer{}, ErrClosed
			}
			return Answer{}, waitError(ctx, err)
		}
	}
}

// sleep waits for d and tells whether ctx lasted as long.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
