//go:build unix

// Package kdc runs a Kerberos key distribution center of MIT for tests, without
// privileges: on a free port of 127.0.0.1, with its database in a temporary folder.
package kdc

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/e2e/proc"
)

// Realm is the realm of every KDC.
const Realm = "TEST.EXAMPLE"

const startTimeout = 20 * time.Second

// A KDC is a running one. It ends with the test binary.
type KDC struct {
	dir     string
	addr    string
	process *proc.Process
	files   atomic.Int64
}

// Installed tells whether the programs are there that Debian has in krb5-kdc,
// krb5-admin-server and krb5-user.
func Installed() bool {
	for _, name := range []string{"krb5kdc", "kadmin.local", "kdb5_util", "kinit"} {
		if _, err := find(name); err != nil {
			return false
		}
	}
	return true
}

// Need ends the test, as proc.Missing does, where Kerberos is not installed.
func Need(t testing.TB) {
	t.Helper()
	if !Installed() {
		proc.Missing(t, "Kerberos needs krb5-kdc, krb5-admin-server and krb5-user")
	}
}

// Start starts a KDC with an empty database. proc.Main stops it.
func Start(t testing.TB) *KDC {
	t.Helper()
	Need(t)
	dir, err := os.MkdirTemp("", "kdc-")
	if err != nil {
		t.Fatal(err)
	}
	k := &KDC{dir: dir}
	proc.AtExit(func() {
		if k.process != nil {
			k.process.Stop(5 * time.Second)
		}
		_ = os.RemoveAll(dir)
	})
	if err := k.start(); err != nil {
		t.Fatalf("start a KDC: %v", err)
	}
	return k
}

// Report shows the end of the KDC's log with a failed test.
func (k *KDC) Report(t testing.TB) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("last lines of the KDC's log:\n%s", proc.Tail(k.file("kdc.log"), 30))
		}
	})
}

// find looks for a program in PATH, and where systems keep those of
// administrators.
func find(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	return exec.LookPath("/usr/sbin/" + name)
}

func (k *KDC) file(name string) string { return filepath.Join(k.dir, name) }

// Conf is the krb5.conf for clients and services.
func (k *KDC) Conf() string { return k.file("krb5.conf") }

// ConfWith writes a krb5.conf for a client that wants one encryption type, and gives
// its name.
func (k *KDC) ConfWith(t testing.TB, enctype string) string {
	t.Helper()
	b, err := os.ReadFile(k.Conf())
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for _, name := range []string{"default_tkt_enctypes", "default_tgs_enctypes", "permitted_enctypes"} {
		fmt.Fprintf(&lines, " %s = %s\n", name, enctype)
	}
	file := k.unique("krb5.conf")
	if err := os.WriteFile(file, []byte(strings.Replace(string(b), "[realms]", lines.String()+"[realms]", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func (k *KDC) start() error {
	var errs []string
	for range 3 { // a free port can be taken by another program
		if err := k.layOut(); err != nil {
			return err
		}
		if len(errs) == 0 {
			if err := k.run("", "kdb5_util", "create", "-s", "-r", Realm, "-P", "master"); err != nil {
				return err
			}
		}
		if err := k.launch(); err != nil {
			errs = append(errs, err.Error())
			continue
		}
		return nil
	}
	return fmt.Errorf("%s", strings.Join(errs, "\n"))
}

func (k *KDC) layOut() error {
	l, err := proc.Listen()
	if err != nil {
		return err
	}
	k.addr = l.Addr().String()
	if err := l.Close(); err != nil {
		return err
	}
	conf := fmt.Sprintf(`[libdefaults]
 default_realm = %[1]s
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 %[1]s = {
  kdc = %[2]s
 }
`, Realm, k.addr)
	kdcConf := fmt.Sprintf(`[kdcdefaults]
 kdc_listen = %[2]s
 kdc_tcp_listen = %[2]s
[realms]
 %[1]s = {
  database_name = %[3]s/principal
  key_stash_file = %[3]s/stash
  acl_file = %[3]s/acl
  max_life = 1h
  max_renewable_life = 2h
  supported_enctypes = aes256-cts-hmac-sha384-192:normal aes128-cts-hmac-sha256-128:normal aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal
  default_principal_flags = +preauth
 }
[logging]
 kdc = FILE:%[3]s/kdc.log
`, Realm, k.addr, k.dir)
	if err := os.WriteFile(k.Conf(), []byte(conf), 0o600); err != nil {
		return err
	}
	return os.WriteFile(k.file("kdc.conf"), []byte(kdcConf), 0o600)
}

func (k *KDC) launch() error {
	path, err := find("krb5kdc")
	if err != nil {
		return err
	}
	k.process, err = proc.Start(proc.Options{
		Args: []string{path, "-n", "-P", k.file("pid")}, Dir: k.dir, Env: k.env(), Log: k.file("kdc.log"),
	})
	if err != nil {
		return err
	}
	for end := time.Now().Add(startTimeout); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.DialTimeout("tcp", k.addr, time.Second)
		if err == nil {
			return conn.Close()
		}
		if !k.process.Running() || time.Now().After(end) {
			k.process.Kill()
			return fmt.Errorf("krb5kdc does not answer: %w\n%s", err, proc.Tail(k.file("kdc.log"), 20))
		}
	}
}

func (k *KDC) env() []string {
	return []string{"KRB5_CONFIG=" + k.Conf(), "KRB5_KDC_PROFILE=" + k.file("kdc.conf")}
}

func (k *KDC) run(input, name string, args ...string) error {
	path, err := find(name)
	if err != nil {
		return err
	}
	cmd := exec.Command(path, args...)
	cmd.Env, cmd.Dir, cmd.Stdin = append(os.Environ(), k.env()...), k.dir, strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

func (k *KDC) must(t testing.TB, input, name string, args ...string) {
	t.Helper()
	if err := k.run(input, name, args...); err != nil {
		t.Fatal(err)
	}
}

func (k *KDC) unique(name string) string {
	return k.file(fmt.Sprintf("%s-%d", name, k.files.Add(1)))
}

// User adds a principal with a password.
func (k *KDC) User(t testing.TB, name, password string) {
	t.Helper()
	k.must(t, "", "kadmin.local", "-r", Realm, "addprinc", "-pw", password, name)
}

// Service adds a principal with a random key.
func (k *KDC) Service(t testing.TB, name string) {
	t.Helper()
	k.must(t, "", "kadmin.local", "-r", Realm, "addprinc", "-randkey", name)
}

// Keytab writes the present keys of principals to a file and gives its name.
func (k *KDC) Keytab(t testing.TB, principals ...string) string {
	t.Helper()
	file := k.unique("keytab")
	k.must(t, "", "kadmin.local", append([]string{"-r", Realm, "ktadd", "-norandkey", "-k", file}, principals...)...)
	return file
}

// Kinit gets a ticket-granting ticket by a password, as users do, and gives the
// name of the credential cache.
func (k *KDC) Kinit(t testing.TB, name, password string) string {
	t.Helper()
	file := k.unique("ccache")
	k.must(t, password+"\n", "kinit", "-c", file, name)
	return file
}
