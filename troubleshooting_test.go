package kafka

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// librarySources parses the library's own files.
func librarySources(t *testing.T) (files []*ast.File, text string) {
	t.Helper()
	var all strings.Builder
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			switch path {
			case "bench", "examples", "contrib", "internal/e2e", "internal/testbroker", "internal/ci", "docs", "testdata":
				return filepath.SkipDir
			}
			if path != "." && strings.HasPrefix(d.Name(), ".") {
				return filepath.SkipDir
			}
		}
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, data, 0)
		files = append(files, file)
		// Texts that go on in the next line are one.
		all.WriteString(regexp.MustCompile(`" ?\+\s*\n\s*"`).ReplaceAllString(string(data), ""))
		return err
	}))
	return files, all.String()
}

// literals returns the texts that a file has as arguments of functions that wanted picks.
func literals(file *ast.File, wanted func(call *ast.CallExpr) bool) (texts []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || !wanted(call) {
			return true
		}
		for _, arg := range call.Args {
			if lit, ok := arg.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, _ := strconv.Unquote(lit.Value)
				texts = append(texts, text)
				break
			}
		}
		return true
	})
	return texts
}

// calls picks calls of methods and functions by their names.
func calls(names ...string) func(*ast.CallExpr) bool {
	return func(call *ast.CallExpr) bool {
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		for _, name := range names {
			if sel.Sel.Name == name {
				return true
			}
		}
		return false
	}
}

// What the table quotes is in the code, in pieces where something varies.
func TestTroubleshootingQuotesWhatIsSaid(t *testing.T) {
	_, code := librarySources(t)
	code = strings.ReplaceAll(code, `\"`, `"`)
	doc, err := os.ReadFile("docs/troubleshooting.md")
	require.NoError(t, err)
	fromElsewhere := regexp.MustCompile(`connection refused|no such host|^[A-Z_]+$|certificate (signed|is valid)|IP SANs|context deadline`)
	quoted := 0
	for line := range strings.Lines(string(doc)) {
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| `") || len(cells) != 3 || strings.HasPrefix(line, "| `*") || strings.HasPrefix(line, "| `Err") {
			continue
		}
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[0], -1) {
			if fromElsewhere.MatchString(m[1]) {
				continue
			}
			quoted++
			for piece := range strings.SplitSeq(strings.TrimPrefix(m[1], "kafka: "), "…") {
				if piece = strings.Trim(piece, " :,"); len(piece) > 3 {
					assert.True(t, strings.Contains(strings.ToLower(code), strings.ToLower(piece)), "%q of %q is nowhere in the code", piece, m[1])
				}
			}
		}
	}
	require.Greater(t, quoted, 60)
}

func TestTroubleshootingNamesWhatThereIs(t *testing.T) {
	data, err := os.ReadFile("docs/troubleshooting.md")
	require.NoError(t, err)
	doc := string(data)
	files, _ := librarySources(t)
	var texts []string
	for _, file := range files {
		for _, text := range literals(file, calls("Warn")) {
			texts = append(texts, strings.TrimRight(strings.TrimPrefix(text, "kafka: "), " ,"))
		}
		if file.Name.Name != "kafka" {
			continue
		}
		for _, name := range publicErrors(file) {
			texts = append(texts, "`"+name+"`")
		}
		for _, text := range literals(file, calls("New")) {
			if strings.HasPrefix(text, "kafka: ") && !strings.HasPrefix(text, "kafka: batch is larger") { // it unwraps from a longer one
				texts = append(texts, strings.TrimPrefix(text, "kafka: "))
			}
		}
	}
	require.Greater(t, len(texts), 45)
	for _, text := range texts {
		assert.True(t, strings.Contains(doc, text), "docs/troubleshooting.md does not have %q", text)
	}
}

// publicErrors returns the names of a file's errors and events, types with the star that
// users need for errors.As.
func publicErrors(file *ast.File) (names []string) {
	for _, decl := range file.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				switch name := s.Name.Name; {
				case !s.Name.IsExported():
				case strings.HasSuffix(name, "Error"):
					names = append(names, "*"+name)
				case strings.HasPrefix(name, "Event") && name != "Event":
					names = append(names, name)
				}
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if d.Tok == token.VAR && strings.HasPrefix(name.Name, "Err") {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names
}
