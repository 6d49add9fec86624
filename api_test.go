package kafka

import (
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var updateAPI = flag.Bool("update", false, "write api.txt anew")

// apiPackages are the packages whose names are promised. Package protocol is
// public by its place only.
var apiPackages = []string{".", "./assignors"}

// TestPublicNames compares what go doc shows with api.txt, so that no public name
// changes unnoticed. After a wanted change: go test -run TestPublicNames . -update
func TestPublicNames(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go command")
	}
	var docs []string
	for _, pkg := range apiPackages {
		cmd := exec.Command("go", "doc", "-all", pkg)
		cmd.Env = append(os.Environ(), "PAGER=cat", "NO_COLOR=1")
		out, err := cmd.Output()
		require.NoError(t, err, pkg)
		docs = append(docs, strings.TrimRight(string(out), "\n")+"\n")
	}
	got := strings.Join(docs, "\n"+strings.Repeat("=", 80)+"\n\n")
	if *updateAPI {
		require.NoError(t, os.WriteFile("api.txt", []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile("api.txt")
	require.NoError(t, err)
	// A checkout on Windows may have turned the line ends.
	require.Equal(t, strings.ReplaceAll(string(want), "\r\n", "\n"), got, "if it is wanted: go test -run TestPublicNames . -update")
}
