//go:build unix

package secure

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/contrib/gssapi"
	"github.com/kafkaconsumer/kafka/internal/e2e/consume"
)

// countedPlain is PLAIN that counts how often it is asked.
type countedPlain struct{ exchanges atomic.Int64 }

func (c *countedPlain) Mechanism() string { return "PLAIN" }

func (c *countedPlain) Start(context.Context, string) (kafka.SASLSession, []byte, error) {
	c.exchanges.Add(1)
	return plainSession{}, []byte("\x00" + alice + "\x00" + alicePassword), nil
}

type plainSession struct{}

func (plainSession) Next(context.Context, []byte) ([]byte, bool, error) { return nil, true, nil }

// sessionLifetime is how long a session at the listener REAUTH lasts. What is left of it
// at its renewal, a twentieth, is the time that a busy machine may take for that.
const sessionLifetime = 6 * time.Second

// Sessions are renewed while records flow: nothing is lost, repeated or out of order, and
// connections live on.
func TestSessionsAreRenewedUnderLoad(t *testing.T) {
	on(t, func(t *testing.T, f *fixture) {
		const load = 3*sessionLifetime + 2*time.Second
		counted := &countedPlain{}
		own := f.saslTo("REAUTH")
		own.SASL = counted
		kinds := map[string]kafka.Config{
			"PLAIN":         own,
			"SCRAM-SHA-512": f.passwordTo("REAUTH", "SCRAM-SHA-512", oddASCII, oddPassword),
		}
		oauth := f.saslTo("REAUTH")
		// Of the token's end and the session's the earlier one counts.
		oauth.SASLMechanism, oauth.SASLOAuthTokenProvider = "OAUTHBEARER", unsecured{sessionLifetime + 2*time.Second}
		kinds["OAUTHBEARER"] = oauth
		if f.kdc != nil {
			kinds["GSSAPI"] = f.kerberosTo(t, "REAUTH", gssapi.Config{Principal: alice, Password: kerberosPassword})
		}

		f.java.CreateTopic(t, "flowing", 3, nil)
		fill(t, f.java, "flowing", 60)
		produced := 60
		var runs []*run
		for name, cfg := range kinds {
			runs = append(runs, startRun(t, name, cfg, produced))
		}
		end := time.Now().Add(load)
		for time.Now().Before(end) {
			fill(t, f.java, "flowing", 60)
			produced += 60
			time.Sleep(20 * time.Millisecond)
		}
		for _, r := range runs {
			r.requireAll(t, produced)
			// A session that ends before it is renewed costs its connection; on a busy
			// machine that may happen. Of a connection whose sessions are not renewed it
			// is the end three times.
			require.LessOrEqual(t, r.wire.dials.Load(), r.dialsEarly+2, "%s: connections are not made anew", r.name)
		}
		// Those connections that are in use renew their sessions some three times each.
		plain := runs[slices.IndexFunc(runs, func(r *run) bool { return r.name == "PLAIN" })]
		require.Greater(t, counted.exchanges.Load(), plain.wire.dials.Load()+3)
	})
}

// A run is a member of a group of its own that reads until it was told how much.
type run struct {
	name       string
	wire       *wire
	consumer   *kafka.Consumer
	got        []kafka.Record
	err        error
	stop       context.CancelFunc
	done       chan struct{}
	want       atomic.Int64
	dialsEarly int64
}

// startRun starts a run, and gives it when it has read the records that are there.
func startRun(t *testing.T, name string, cfg kafka.Config, there int) *run {
	t.Helper()
	r := &run{name: name, wire: &wire{}, done: make(chan struct{})}
	cfg.Dialer, cfg.GroupID, cfg.HeartbeatInterval = r.wire.dial, "flowing-"+name, 300*time.Millisecond
	cfg.AutoCommitInterval = 200 * time.Millisecond
	c, err := newConsumer(t, cfg, tokenSecret)
	require.NoError(t, err)
	r.consumer = c
	require.NoError(t, c.Subscribe([]string{"flowing"}))
	r.got = consume.Poll(t, c, there)
	r.dialsEarly = r.wire.dials.Load()
	ctx, cancel := context.WithCancel(t.Context())
	r.stop = cancel
	go r.poll(ctx)
	return r
}

func (r *run) poll(ctx context.Context) {
	defer close(r.done)
	for r.err == nil {
		want := r.want.Load()
		if want > 0 && int64(len(r.got)) >= want {
			return
		}
		recs, err := r.consumer.Poll(ctx, 100*time.Millisecond)
		if err == nil {
			r.got = slices.AppendSeq(r.got, recs.All())
		}
		r.err = err
	}
}

func (r *run) requireAll(t *testing.T, produced int) {
	t.Helper()
	r.want.Store(int64(produced))
	late := time.AfterFunc(patience, r.stop)
	defer late.Stop()
	<-r.done
	require.NoError(t, r.err, r.name)
	require.Len(t, r.got, produced, r.name)
	next := map[int32]int64{}
	for _, rec := range r.got {
		require.Equal(t, next[rec.Partition], rec.Offset, "%s: partition %d", r.name, rec.Partition)
		next[rec.Partition]++
	}
}
