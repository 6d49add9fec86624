//go:build unix

package e2e

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka/internal/e2e/broker"
	"github.com/kafkaconsumer/kafka/internal/e2e/java"
	"github.com/kafkaconsumer/kafka/internal/e2e/proc"
	"github.com/kafkaconsumer/kafka/internal/e2e/python"
	"github.com/kafkaconsumer/kafka/internal/e2e/sidebyside"
)

var sideBySideRelease = flag.String("sidebyside", "4.4.0", "the release of Kafka to run kafka-python and the library against")

// TestSideBySideWithKafkaPython runs the scripts of sidebyside/testdata through kafka-python
// and through the library.
func TestSideBySideWithKafkaPython(t *testing.T) {
	t.Parallel()
	scripts, err := sidebyside.Load(filepath.Join("sidebyside", "testdata"))
	require.NoError(t, err)
	t.Run(*sideBySideRelease, func(t *testing.T) {
		c := broker.Shared(t, *sideBySideRelease)
		bench := sidebyside.Bench{Cluster: java.For(t, c), Bootstrap: c.Bootstrap(), Original: python.Drive(t, c.Bootstrap())}
		for i := range scripts {
			t.Run(scripts[i].Name, func(t *testing.T) {
				t.Parallel()
				bench.Run(t, &scripts[i])
			})
		}
	})
}

func TestEachDifferenceFromKafkaPythonIsListedInThePortingGuide(t *testing.T) {
	scripts, err := sidebyside.Load(filepath.Join("sidebyside", "testdata"))
	require.NoError(t, err)
	root, err := proc.Root()
	require.NoError(t, err)
	guide, err := os.ReadFile(filepath.Join(root, "docs", "porting-from-kafka-python.md"))
	require.NoError(t, err)
	_, differences, found := strings.Cut(string(guide), "\n## Differences")
	require.True(t, found)
	for _, s := range scripts {
		for _, step := range s.Steps {
			if step.Why != "" {
				require.Contains(t, differences, "**"+step.Why+"**", "%s, line %d", s.Name, step.Line)
			}
		}
	}
}
