package conn

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// maxAPIVersions is the newest ApiVersions request sent: version 5 makes the
	// broker compare cluster and node ids, which nobody here asks for.
	maxAPIVersions = 4
	// silence is how long ApiVersions may be unanswered before a canary is sent
	// behind it, and at most a quarter of the time that there is.
	silence = 500 * time.Millisecond
	// noCanary and canaryAtOnce are other times for it.
	noCanary     time.Duration = -1
	canaryAtOnce time.Duration = 0
)

// probeRequest returns the request of a probe for brokers without ApiVersions. None
// asks for anything or changes anything, but that looking up a coordinator makes the
// broker create the topic of committed offsets.
func probeRequest(p probe) kmsg.Request {
	switch p {
	case probeGroups:
		return kmsg.NewPtrListGroupsRequest()
	case probeFinder:
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKey = "version-probe"
		return req
	case probeOffsets:
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Group = "version-probe"
		return req
	}
	return canary()
}

// canary returns a request that all brokers have ever answered: Metadata v0, in which
// the empty list means all topics and creates none.
func canary() *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	return req
}

// probe sends a request that the broker may not know, and, after a while, a canary
// behind it. With answered the answer to the request was read, and so was that to a
// canary that was sent at once; that to one sent later is yet to come.
func (l *Link) probe(ctx context.Context, req kmsg.Request, wait time.Duration) (body []byte, v verdict, err error) {
	frame, header := l.encode(nil, req)
	c := canaryCall{wait: wait}
	c.frame, c.header = l.encode(nil, canary())
	err = l.within(ctx, l.cfg.SetupTimeout, awaited{"answer to", header.key}, func() error {
		c.began = time.Now()
		if _, err := l.conn.Write(frame); err != nil {
			return l.fail(OpWrite, l.alertBehind(err))
		}
		l.meter().Sent(len(frame))
		c.start(l)
		defer c.stop()
		read := 0
		body, v, err = l.readProbe(header, &c)
		if err == nil && v == answered && wait == canaryAtOnce {
			err = l.readCanary(&c)
			read++
		}
		if err != nil {
			return l.fail(OpRead, l.explainHangUp(header.key, err))
		}
		if c.stop() > read {
			l.stray, l.strayID = true, c.header.id
		}
		return nil
	})
	if err != nil {
		return nil, failed, err
	}
	return body, v, nil
}

// readProbe reads what is answered first.
func (l *Link) readProbe(want answerHeader, c *canaryCall) (body []byte, v verdict, err error) {
	id, err := l.readID()
	if err == nil && l.stray && id == l.strayID { // a slow broker was sent two canaries, and answers both
		l.stray = false
		if err = l.reader.Discard(l.reader.Remaining()); err == nil {
			id, err = l.readID()
		}
	}
	if err != nil {
		return nil, failed, err
	}
	if id == c.header.id && c.wait != noCanary {
		return nil, skipped, nil
	}
	if err := l.checkHeader(want, id); err != nil {
		return nil, failed, err
	}
	if body, err = l.readBody(want.key); err == nil {
		l.noteReceived(c.began)
	}
	return body, answered, err
}

func (l *Link) readCanary(c *canaryCall) error {
	if err := l.readHeader(c.header); err != nil {
		return err
	}
	l.noteReceived(c.began)
	return l.reader.Discard(l.reader.Remaining())
}

// canaries is how many are sent at most: 0.9 may lose one (KAFKA-3547).
const canaries = 2

// A canaryCall is a canary that is sent behind another request after a while, and once
// more after another while, as long as nothing was answered.
type canaryCall struct {
	wait   time.Duration
	frame  []byte
	header answerHeader
	began  time.Time     // when the request before it was about to be written
	quit   chan struct{} // closed to keep what is not sent yet from being sent; nil when it is
	done   chan struct{} // closed when nothing is sent any more
	sent   int           // valid once done is closed
}

// start runs the sending, which stop ends and awaits. Its caller reads meanwhile: a
// connection without a buffer would stand still otherwise.
func (c *canaryCall) start(l *Link) {
	if c.wait == noCanary {
		return
	}
	c.quit, c.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(c.done)
		timer := time.NewTimer(c.wait)
		defer timer.Stop()
		for c.sent < canaries {
			if c.wait != canaryAtOnce || c.sent > 0 {
				select {
				case <-timer.C:
				case <-c.quit:
					return
				}
			}
			c.sent++
			if _, err := l.conn.Write(c.frame); err == nil { // what is wrong shows when the answer is read
				l.meter().Sent(len(c.frame))
			}
			timer.Reset(silence)
		}
	}()
}

// stop ends the sending and returns how many were sent.
func (c *canaryCall) stop() int {
	if c.quit != nil {
		close(c.quit)
		<-c.done
		c.quit = nil
	}
	return c.sent
}

// askVersions sends ApiVersions in the highest version that may be understood,
// and again in the one that the broker's refusal names. Before 2.4 a broker
// refuses with an empty list, which stands for version 0. Where an answer to a canary
// is yet to come, it leaves that to its caller: the ranges are nil then.
func (l *Link) askVersions(ctx context.Context, wait time.Duration) (map[int16]protocol.VersionRange, verdict, error) {
	version := int16(maxAPIVersions)
	if l.cfg.Clamp != (protocol.Release{}) {
		top, _ := l.cfg.Clamp.MaxVersion(protocol.KeyApiVersions)
		version = min(version, top)
	}
	resp, v, err := l.apiVersions(ctx, version, wait)
	if err != nil || v != answered {
		return nil, v, err
	}
	l.cfg.Releases.answeredVersions(l.Node(), l.where)
	if code := protocol.ErrorCode(resp.ErrorCode); code == protocol.UnsupportedVersion && version > 0 {
		if l.stray {
			return nil, answered, nil
		}
		version = min(version-1, supportedVersion(resp))
		if resp, v, err = l.apiVersions(ctx, version, noCanary); err != nil {
			return nil, v, err
		}
	}
	if code := protocol.ErrorCode(resp.ErrorCode); code != protocol.None {
		return nil, failed, fmt.Errorf("the broker answers ApiVersions version %d with %w", version, code)
	}
	ranges := make(map[int16]protocol.VersionRange, len(resp.ApiKeys))
	for _, key := range resp.ApiKeys {
		ranges[key.ApiKey] = protocol.VersionRange{Min: key.MinVersion, Max: key.MaxVersion}
	}
	return ranges, answered, nil
}

// supportedVersion returns the version to repeat a refused ApiVersions in.
func supportedVersion(resp *kmsg.ApiVersionsResponse) int16 {
	for _, key := range resp.ApiKeys {
		if key.ApiKey == protocol.KeyApiVersions {
			return max(key.MaxVersion, 0)
		}
	}
	return 0
}

func (l *Link) apiVersions(ctx context.Context, version int16, wait time.Duration) (*kmsg.ApiVersionsResponse, verdict, error) {
	req := kmsg.NewPtrApiVersionsRequest()
	req.SetVersion(version)
	req.ClientSoftwareName = softwareField(l.cfg.SoftwareName)
	req.ClientSoftwareVersion = softwareField(l.cfg.SoftwareVersion)
	body, v, err := l.probe(ctx, req, wait)
	if err != nil || v != answered {
		return nil, v, err
	}
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.SetVersion(version)
	// A refusal has the layout of version 0, whatever was asked (KIP-511).
	if len(body) >= 2 && protocol.ErrorCode(binary.BigEndian.Uint16(body)) == protocol.UnsupportedVersion {
		resp.SetVersion(0)
	}
	if _, err := decode(resp, body); err != nil {
		return nil, failed, err
	}
	return resp, answered, nil
}
