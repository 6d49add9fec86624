package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASectionIsReplacedOrAdded(t *testing.T) {
	file := "# Results\n\ntext\n\n## Growth\n\nold\n\n### By size\n\nold\n\n## Groups\n\nkept\n"
	require.Equal(t, "# Results\n\ntext\n\n## Growth\n\nnew\n\n## Groups\n\nkept\n", replaceSection(file, "Growth", "new\n"))
	require.Equal(t, "# Results\n\n## Growth\n\nnew\n", replaceSection("# Results\n", "Growth", "new"))
}

func TestGrowthComparesWithTheSameClientsFirstSize(t *testing.T) {
	text := growthTable([]step{
		{series: "partitions", size: 10, client: "franz", cost: 100},
		{series: "partitions", size: 10, client: "kafka", cost: 50},
		{series: "partitions", size: 1000, client: "kafka", cost: 75},
	})
	require.Contains(t, text, "| 1000 | kafka | 75ns | 1.50 |")
}
