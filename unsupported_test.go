package kafka

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/stretchr/testify/require"
)

// What is not built yet says so, by name; the list is the whole of unsupported.go.
func TestUnsupportedMethodsSaySo(t *testing.T) {
	b := testbroker.New(t)
	c := openConsumer(t, fast(b))
	calls := map[string]func() error{
		"Metrics": func() error { _, err := c.Metrics(); return err },
	}
	file, err := parser.ParseFile(token.NewFileSet(), "unsupported.go", nil, 0)
	require.NoError(t, err)
	for _, decl := range file.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Name.IsExported() {
			require.Contains(t, calls, fn.Name.Name)
		}
	}
	for name, call := range calls {
		err := call()
		require.ErrorIs(t, err, errors.ErrUnsupported, name)
		require.ErrorContains(t, err, name)
	}
}
