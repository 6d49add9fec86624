package javaconf

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A vector is a text and what Java read in it; see testdata/ConfigVectors.java.
type vector[T any] struct {
	Text  string
	Error bool
	Want  T
}

func vectors[T any](tb testing.TB, name string) (list []vector[T]) {
	tb.Helper()
	file, err := os.Open(filepath.Join("testdata", name))
	require.NoError(tb, err)
	defer file.Close()
	zipped, err := gzip.NewReader(file)
	require.NoError(tb, err)
	for lines := bufio.NewScanner(zipped); lines.Scan(); {
		var v vector[T]
		require.NoError(tb, json.Unmarshal(lines.Bytes(), &v))
		list = append(list, v)
	}
	require.Greater(tb, len(list), 3000)
	return list
}

func TestPropertiesAreReadAsJavaReadsThem(t *testing.T) {
	for _, v := range vectors[map[string]string](t, "properties.jsonl.gz") {
		entries, err := Properties(v.Text)
		if v.Error {
			require.Error(t, err, "%q", v.Text)
			continue
		}
		require.NoError(t, err, "%q", v.Text)
		got := make(map[string]string)
		for _, e := range entries {
			got[e.Key] = e.Value
		}
		require.Equal(t, v.Want, got, "%q", v.Text)
	}
}

func TestJAASLinesAreReadAsJavaReadsThem(t *testing.T) {
	type module struct {
		Module  string
		Options map[string]string
	}
	for _, v := range vectors[[]module](t, "jaas.jsonl.gz") {
		got, err := JAAS(v.Text)
		if v.Error {
			require.Error(t, err, "%q", v.Text)
			continue
		}
		require.NoError(t, err, "%q", v.Text)
		require.Equal(t, v.Want, []module{{got.Name, got.Options}}, "%q", v.Text)
	}
}

func TestLinesAreNamed(t *testing.T) {
	entries, err := Properties("# one\n\na=1\\\r\n  2\r\n! five\rb=3")
	require.NoError(t, err)
	require.Equal(t, []Entry{{"a", "12", 3}, {"b", "3", 6}}, entries)
	_, err = Properties("a=1\nsecret=\\uhidden")
	require.EqualError(t, err, `line 2: \u must be followed by four hexadecimal digits (a backslash itself is written \\)`)
	_, err = JAAS("a.B required\n x=\"hidden\"\n y z;")
	require.ErrorContains(t, err, "line 3: ")
	require.NotContains(t, err.Error(), "hidden")
}

func TestLongTextsAreReadInTheirTime(t *testing.T) {
	const lines = 1 << 20
	for _, line := range []string{"a\\\n", "\\\\\\\n"} {
		began := time.Now()
		entries, err := Properties("x=" + strings.Repeat(line, lines))
		require.NoError(t, err)
		require.Len(t, entries, 1)
		require.Len(t, entries[0].Value, lines)
		require.Less(t, time.Since(began), time.Minute, "it was minutes")
	}
}

func FuzzProperties(f *testing.F) {
	for _, v := range vectors[map[string]string](f, "properties.jsonl.gz")[:100] {
		f.Add(v.Text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		entries, err := Properties(text)
		if err != nil {
			return
		}
		line, size := 0, 0
		for _, e := range entries {
			require.Greater(t, e.Line, line)
			line, size = e.Line, size+len(e.Key)+len(e.Value)
		}
		require.LessOrEqual(t, size, 3*len(text)) // a byte that is no UTF-8 becomes three
	})
}

func FuzzJAAS(f *testing.F) {
	for _, v := range vectors[json.RawMessage](f, "jaas.jsonl.gz")[:200] {
		f.Add(v.Text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if m, err := JAAS(text); err == nil {
			require.NotNil(t, m.Options)
		}
	})
}
