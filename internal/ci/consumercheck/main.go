// Command consumercheck builds a module that uses the library as a user's
// does, with an empty module cache, and fails when that downloads a module
// that is not one of the agreed dependencies.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// library is the module whose user is played.
const library = "github.com/kafkaconsumer/kafka"

// dependencies are all modules whose code a user of the library downloads.
var dependencies = []string{
	"github.com/klauspost/compress",
	"github.com/pierrec/lz4/v4",
	"github.com/twmb/franz-go/pkg/kmsg",
	"github.com/xdg-go/pbkdf2", // of scram
	"github.com/xdg-go/scram",
	"github.com/xdg-go/stringprep", // of scram
	"golang.org/x/text",            // of stringprep
}

const program = `package main

import (
	"context"
	"fmt"
	"os"

	"github.com/kafkaconsumer/kafka"
)

func main() {
	_, err := kafka.NewConsumer(context.Background(), kafka.Config{BootstrapServers: os.Args[1:], GroupID: "g", Topics: []string{"t"}})
	fmt.Println(err)
}
`

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "consumercheck:", err)
		os.Exit(1)
	}
}

func run() error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "consumercheck-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	user, cache := filepath.Join(dir, "user"), filepath.Join(dir, "modules")
	if err := writeModule(root, user); err != nil {
		return err
	}
	if err := build(user, cache); err != nil {
		return err
	}
	downloaded, err := downloadedModules(cache)
	if err != nil {
		return err
	}
	for _, m := range downloaded {
		if !slices.Contains(dependencies, m) {
			err = errors.Join(err, fmt.Errorf("a user of the library downloads %s, which is not an agreed dependency", m))
		}
	}
	if err == nil {
		fmt.Printf("a user of the library downloads %s\n", strings.Join(downloaded, ", "))
	}
	return err
}

// writeModule writes the user's module. It takes the library's go.sum over
// as its own, so that nothing but the modules themselves has to be fetched.
func writeModule(root, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		return err
	}
	mod := fmt.Sprintf("module example.com/user\n\ngo 1.26.0\n\nrequire %s v0.0.0\n\nreplace %s => %s\n", library, library, root)
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o600),
		os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600),
		os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600),
	)
}

// build builds the user's program with an empty module cache; what this
// machine has already downloaded serves as the first proxy.
func build(dir, cache string) error {
	env, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		return err
	}
	have, proxy, _ := strings.Cut(strings.TrimSpace(string(env)), "\n")
	cmd := exec.Command("go", "build", "-mod=mod", "-o", os.DevNull, ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-modcacherw -buildvcs=false", "GOMODCACHE="+cache,
		"GOPROXY=file://"+filepath.ToSlash(have)+"/cache/download,"+proxy)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// downloadedModules gives the modules whose code is in a module cache.
func downloadedModules(cache string) ([]string, error) {
	var modules []string
	root := filepath.Join(cache, "cache", "download")
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".zip") {
			name, _ := filepath.Rel(root, path)
			name, _, _ = strings.Cut(filepath.ToSlash(name), "/@v/")
			modules = append(modules, name)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	slices.Sort(modules)
	return slices.Compact(modules), err
}
