package kafka

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const modulePath = "github.com/kafkaconsumer/kafka"

// What the root module may depend on: what users get, and what only tests need.
var (
	allowedDependencies = []string{
		"github.com/twmb/franz-go/pkg/kmsg", "github.com/klauspost/compress", "github.com/pierrec/lz4/v4", "github.com/xdg-go/scram",
	}
	testDependencies = []string{"github.com/stretchr/testify"}
)

// A sourceFile is a Go file of this repository and what it imports.
type sourceFile struct {
	name    string // from the root, with slashes
	imports []string
}

func (f sourceFile) dir() string  { return path.Dir(f.name) }
func (f sourceFile) isTest() bool { return strings.HasSuffix(f.name, "_test.go") }

// in tells whether the file lies in one of the folders or below it.
func (f sourceFile) in(folders ...string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		return f.dir() == folder || strings.HasPrefix(f.dir(), folder+"/")
	})
}

// within tells whether an import path is one of the paths or below it.
func within(imported string, paths ...string) bool {
	return slices.ContainsFunc(paths, func(p string) bool {
		return imported == p || strings.HasPrefix(imported, p+"/")
	})
}

func isStandard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

// sources returns all Go files of the repository and the folders that are modules
// of their own.
func sources(t *testing.T) (files []sourceFile, nested []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		slashed := filepath.ToSlash(name)
		switch {
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.Name() == "go.mod" && slashed != "go.mod":
			nested = append(nested, path.Dir(slashed))
		case strings.HasSuffix(name, ".go"):
			parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			f := sourceFile{name: slashed}
			for _, spec := range parsed.Imports {
				imported, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					return err
				}
				f.imports = append(f.imports, imported)
			}
			files = append(files, f)
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, len(files), 20)
	return files, nested
}

// TestWalls keeps the rooms of the library apart.
func TestWalls(t *testing.T) {
	files, nested := sources(t)
	for _, f := range files {
		for _, imported := range f.imports {
			if wall := wallBetween(f, imported, f.in(nested...)); wall != "" {
				t.Errorf("%s imports %s: %s", f.name, imported, wall)
			}
		}
	}
}

// wallBetween returns what forbids the import, if anything.
func wallBetween(f sourceFile, imported string, nested bool) string {
	if nested {
		if within(imported, modulePath+"/internal") && !f.in("internal/e2e", "bench") {
			return "only internal/e2e and bench look inside"
		}
		return ""
	}
	switch {
	case imported == modulePath && f.in("internal", "protocol", "assignors"):
		return "the root stands above it"
	case f.isTest():
		if !isStandard(imported) && !within(imported, append(allowedDependencies, append(testDependencies, modulePath)...)...) {
			return "not among the dependencies that were agreed"
		}
		return ""
	case f.in("protocol") && within(imported, modulePath) && !within(imported, modulePath+"/protocol"):
		return "the wire layer stands below all else"
	case f.in("assignors") && within(imported, modulePath) && !within(imported, modulePath+"/protocol"):
		return "assignors work on plain data"
	case !isStandard(imported) && !within(imported, append(allowedDependencies, modulePath)...) && !f.in("internal/testbroker", "internal/leakcheck"):
		return "not among the dependencies that were agreed"
	case (imported == "testing" || within(imported, modulePath+"/internal/testbroker", modulePath+"/internal/leakcheck", modulePath+"/internal/logbuffer")) &&
		!f.in("internal/testbroker", "internal/leakcheck"):
		return "users would get the test kit"
	}
	return ""
}

func TestWallsStand(t *testing.T) {
	tests := []struct {
		file, imported string
		nested, wall   bool
	}{
		{"consumer.go", modulePath + "/internal/conn", false, false},
		{"consumer.go", "github.com/stretchr/testify/require", false, true},
		{"consumer.go", "testing", false, true},
		{"consumer.go", modulePath + "/internal/testbroker", false, true},
		{"consumer_test.go", modulePath + "/internal/testbroker", false, false},
		{"consumer_test.go", "github.com/twmb/franz-go/pkg/kfake", false, true},
		{"internal/conn/link.go", modulePath, false, true},
		{"internal/conn/link_test.go", modulePath, false, true},
		{"internal/e2e/kfake/group_test.go", modulePath, true, false},
		{"internal/e2e/kfake/group_test.go", modulePath + "/internal/testbroker", true, false},
		{"contrib/gssapi/gssapi.go", modulePath, true, false},
		{"contrib/gssapi/gssapi.go", modulePath + "/internal/conn", true, true},
		{"protocol/batch.go", modulePath + "/internal/conn", false, true},
		{"protocol/batch.go", "github.com/klauspost/compress/zstd", false, false},
		{"assignors/range.go", modulePath + "/protocol", false, false},
		{"assignors/range.go", modulePath + "/internal/group", false, true},
	}
	for _, tt := range tests {
		require.Equal(t, tt.wall, wallBetween(sourceFile{name: tt.file}, tt.imported, tt.nested) != "", "%s imports %s", tt.file, tt.imported)
	}
}

// TestDependencies keeps go.mod to what was agreed: users download it all.
func TestDependencies(t *testing.T) {
	text, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	required := regexp.MustCompile(`(?m)^(?:require )?\s*(\S+\.\S+/\S+) v\S+(.*)$`).FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, required)
	for _, m := range required {
		if !strings.Contains(m[2], "// indirect") {
			require.Contains(t, append(slices.Clone(allowedDependencies), testDependencies...), m[1])
		}
	}
	require.NotContains(t, string(text), "replace", "users of the module would not get it")
}
