//go:build unix

package e2e

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kafkaconsumer/kafka/internal/e2e/java"
	"github.com/kafkaconsumer/kafka/internal/e2e/peer"
	"github.com/kafkaconsumer/kafka/internal/e2e/python"
)

// peers are clients beside ours, with the same times as far as they can be set.
var peers = []client{
	{name: "franz-go", start: startFranz},
	{name: "sarama", start: startSarama},
	{name: "Java", apart: true, start: func(t *testing.T, f *faulty, s *subject) {
		s.follow(t, java.ConsoleProgram(t, f.brokers.Version, s.advertised, s.group, s.topic, map[string]string{
			"session.timeout.ms": millis(recoverySession), "heartbeat.interval.ms": millis(heartbeat), "enable.auto.commit": "false",
			"metadata.max.age.ms": millis(maxAge), "request.timeout.ms": millis(requestTimeout), "retry.backoff.ms": "50",
			"retry.backoff.max.ms": millis(backoffMax), "reconnect.backoff.max.ms": millis(backoffMax),
		}))
	}},
	{name: "librdkafka", apart: true, start: func(t *testing.T, _ *faulty, s *subject) {
		s.follow(t, python.ConfluentProgram(t, s.advertised, s.group, s.topic, python.Options{
			"session.timeout.ms": millis(recoverySession), "heartbeat.interval.ms": millis(heartbeat), "enable.auto.commit": false,
			"metadata.max.age.ms": millis(maxAge), "topic.metadata.refresh.interval.ms": millis(maxAge),
			"socket.timeout.ms": millis(requestTimeout), "retry.backoff.ms": 50,
			"retry.backoff.max.ms": millis(backoffMax), "reconnect.backoff.max.ms": millis(backoffMax),
		}))
	}},
	{name: "kafka-python", apart: true, start: func(t *testing.T, _ *faulty, s *subject) {
		s.follow(t, python.Program(t, s.advertised, s.group, s.topic, python.Options{
			"session_timeout_ms": recoverySession.Milliseconds(), "heartbeat_interval_ms": heartbeat.Milliseconds(), "enable_auto_commit": false,
			"metadata_max_age_ms": maxAge.Milliseconds(), "request_timeout_ms": requestTimeout.Milliseconds(), "retry_backoff_ms": 50,
			"reconnect_backoff_max_ms": backoffMax.Milliseconds(),
		}))
	}},
}

func millis(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }

// follow starts a program and takes in what it tells of records.
func (s *subject) follow(t *testing.T, program peer.Program) {
	p := peer.Start(t, program)
	s.stops = append(s.stops, p.Stop)
	s.beside(func(ctx context.Context) {
		for seen := 0; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
			records := p.Records()
			for _, r := range records[seen:] {
				s.seen(r.Partition, r.Offset)
			}
			seen = len(records)
		}
	})
}

// startFranz starts franz-go's client with the same times.
func startFranz(t *testing.T, _ *faulty, s *subject) {
	c, err := kgo.NewClient(kgo.SeedBrokers(s.advertised...), kgo.Dialer(s.dial), kgo.ConsumerGroup(s.group), kgo.ConsumeTopics(s.topic),
		kgo.SessionTimeout(recoverySession), kgo.HeartbeatInterval(heartbeat), kgo.DisableAutoCommit(), kgo.MetadataMaxAge(maxAge),
		kgo.MetadataMinAge(100*time.Millisecond), kgo.RequestTimeoutOverhead(requestTimeout), kgo.FetchMaxWait(500*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	require.NoError(t, err)
	s.stops = append(s.stops, c.Close)
	s.beside(func(ctx context.Context) {
		for ctx.Err() == nil {
			c.PollFetches(ctx).EachRecord(func(r *kgo.Record) { s.seen(r.Partition, r.Offset) })
		}
	})
}

// Dial is the subject's as sarama wants it.
func (s *subject) Dial(network, addr string) (net.Conn, error) {
	return s.dial(context.Background(), network, addr)
}

func startSarama(t *testing.T, _ *faulty, s *subject) {
	cfg := sarama.NewConfig()
	cfg.Version = sarama.MaxVersion
	cfg.Net.Proxy.Enable, cfg.Net.Proxy.Dialer = true, s
	cfg.Net.DialTimeout, cfg.Net.ReadTimeout, cfg.Net.WriteTimeout = requestTimeout, requestTimeout, requestTimeout
	cfg.Metadata.RefreshFrequency, cfg.Metadata.Retry.Backoff = maxAge, 50*time.Millisecond
	cfg.Consumer.Group.Session.Timeout, cfg.Consumer.Group.Heartbeat.Interval = recoverySession, heartbeat
	cfg.Consumer.Offsets.AutoCommit.Enable, cfg.Consumer.Offsets.Initial = false, sarama.OffsetOldest
	cfg.Consumer.Retry.Backoff = backoffMax
	g, err := sarama.NewConsumerGroup(s.advertised, s.group, cfg)
	require.NoError(t, err)
	s.stops = append(s.stops, func() { _ = g.Close() })
	s.beside(func(ctx context.Context) {
		for ctx.Err() == nil {
			_ = g.Consume(ctx, []string{s.topic}, saramaHandler{s}) // one session; its errors are part of what is measured
		}
	})
}

type saramaHandler struct{ s *subject }

func (saramaHandler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (saramaHandler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h saramaHandler) ConsumeClaim(_ sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for m := range claim.Messages() {
		h.s.seen(m.Partition, m.Offset)
	}
	return nil
}
