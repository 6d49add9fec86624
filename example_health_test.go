package kafka_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/kafkaconsumer/kafka"
)

// healthz is a handler for liveness probes: it fails when a restart may help, and says
// what is the matter.
func healthz(c *kafka.Consumer) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		h, err := c.Health()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		switch h.State {
		case kafka.HealthFailed, kafka.HealthNotPolling, kafka.HealthClosed:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		lags := make(map[string]int64, len(h.Partitions))
		for tp, p := range h.Partitions {
			lags[tp.String()] = p.Lag
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"state": h.State, "reason": h.Reason, "lag": lags})
	}
}

func ExampleConsumer_Health() {
	cluster, cfg := startCluster("apples", "pears")
	defer cluster.Close()
	c := must(kafka.NewConsumer(ctx, cfg))
	check(c.Assign(orders))
	must(c.PollMax(ctx, -1, 1))

	probe := func() {
		answer := httptest.NewRecorder()
		healthz(c)(answer, httptest.NewRequest(http.MethodGet, "/healthz", nil))
		fmt.Print(answer.Code, " ", answer.Body)
	}
	probe()
	check(c.Close(ctx))
	probe()
	// Output:
	// 200 {"lag":{"orders-0":1},"reason":"","state":"ok"}
	// 503 {"lag":{},"reason":"the consumer is closed","state":"closed"}
}
