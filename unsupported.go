package kafka

import (
	"errors"
	"fmt"
)

// unsupported is the error of a method whose name is fixed and whose effect this
// version does not have.
func unsupported(method string) error {
	return fmt.Errorf("kafka: %s is not built yet: %w", method, errors.ErrUnsupported)
}

// Metrics is not supported by this version: its error is errors.ErrUnsupported. It
// will return the metrics of kafka-python and Java.
func (c *Consumer) Metrics() ([]Metric, error) { return nil, unsupported("Metrics") }
