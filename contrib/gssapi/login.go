package gssapi

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// A login gets tickets from the KDC. It is used by one goroutine at a time.
type login struct {
	krb5  *config.Config
	realm string // the client's; empty until a credential cache was read
	// connect makes a client with the credentials as they are now. It is a func so
	// that no way of printing a Client reaches the password.
	connect func() (*client.Client, error)
	cache   string // the credential cache; empty: keytab or password
	tgt     *ticket
}

func newLogin(cfg Config) (*login, error) {
	set := 0
	for _, s := range []string{cfg.Keytab, cfg.Password, cfg.CredentialCache} {
		if s != "" {
			set++
		}
	}
	if set > 1 {
		return nil, errOneCredential
	}
	file := configFile(cfg.ConfigFile)
	krb5, err := config.Load(file)
	if err != nil {
		return nil, fmt.Errorf("krb5.conf: %w", err)
	}
	l := &login{krb5: krb5}
	if cfg.Keytab == "" && cfg.Password == "" {
		l.cache, err = cacheFile(cfg.CredentialCache)
		return l, err
	}
	if cfg.Principal == "" {
		return nil, errors.New("a Principal is needed with Keytab and Password")
	}
	name, realm := splitPrincipal(cfg.Principal)
	if realm == "" {
		realm = krb5.LibDefaults.DefaultRealm
	}
	if realm == "" {
		return nil, fmt.Errorf("the Principal %q has no realm, and %s no default_realm", cfg.Principal, file)
	}
	l.realm = realm
	fast := client.DisablePAFXFAST(cfg.DisablePAFXFAST)
	l.connect = func() (*client.Client, error) {
		return client.NewWithPassword(name, realm, cfg.Password, krb5, fast), nil
	}
	if cfg.Keytab != "" {
		l.connect = func() (*client.Client, error) {
			kt, err := keytab.Load(strings.TrimPrefix(cfg.Keytab, "FILE:"))
			if err != nil {
				return nil, fmt.Errorf("keytab: %w", err)
			}
			return client.NewWithKeytab(name, realm, kt, krb5, fast), nil
		}
	}
	return l, nil
}

// splitPrincipal splits user/instance@REALM at the @.
func splitPrincipal(p string) (name, realm string) {
	if i := strings.LastIndexByte(p, '@'); i >= 0 {
		return p[:i], p[i+1:]
	}
	return p, ""
}

func configFile(configured string) string {
	if configured != "" {
		return configured
	}
	for _, f := range filepath.SplitList(os.Getenv("KRB5_CONFIG")) {
		if _, err := os.Stat(f); err == nil {
			return f
		}
	}
	return "/etc/krb5.conf"
}

// cacheFile gives the path of a credential cache, which must be a file: the caches
// of other kinds are reached only through the system's libraries.
func cacheFile(configured string) (string, error) {
	if configured == "" {
		configured = os.Getenv("KRB5CCNAME")
	}
	if configured == "" {
		configured = filepath.Join(os.TempDir(), "krb5cc_"+strconv.Itoa(os.Getuid()))
	}
	kind, path, found := strings.Cut(configured, ":")
	switch {
	case !found || len(kind) == 1: // a path, or one with a drive letter
		return configured, nil
	case kind == "FILE":
		return path, nil
	}
	return "", fmt.Errorf("credential cache %q: only files are supported, not %s", configured, kind)
}

// service gets a ticket for a service, after a login when there is none that lasts.
func (l *login) service(spn string) (t *ticket, err error) {
	// The Kerberos library takes lengths in answers and files for right.
	defer func() {
		if p := recover(); p != nil {
			t, err = nil, fmt.Errorf("malformed answer or file: %v", p)
		}
	}()
	if l.cache != "" {
		return l.serviceFromCache(spn)
	}
	cl, err := l.connect()
	if err != nil {
		return nil, err
	}
	defer cl.Destroy()
	if l.tgt == nil || !l.tgt.valid(time.Now()) {
		if l.tgt, err = l.ticketGranting(cl); err != nil {
			return nil, err
		}
	}
	t, err = l.exchange(cl, l.tgt, spn)
	if err != nil {
		l.tgt = nil // the KDC may not know it any more
	}
	return t, err
}

func (l *login) ticketGranting(cl *client.Client) (*ticket, error) {
	req, err := messages.NewASReqForTGT(l.realm, l.krb5, cl.Credentials.CName())
	if err != nil {
		return nil, err
	}
	rep, err := cl.ASExchange(l.realm, req, 0)
	if err != nil {
		return nil, err
	}
	return &ticket{
		ticket: rep.Ticket, key: rep.DecryptedEncPart.Key, end: rep.DecryptedEncPart.EndTime,
		client: cl.Credentials.CName(), realm: l.realm,
	}, nil
}

// exchange gets a ticket by the ticket-granting one, through the realm that
// krb5.conf says the service's host is in.
func (l *login) exchange(cl *client.Client, tgt *ticket, spn string) (*ticket, error) {
	realm := l.krb5.ResolveRealm(hostOf(spn))
	if realm == "" || realm == tgt.realm {
		return l.ask(cl, tgt, tgt.realm, types.NewPrincipalName(nametype.KRB_NT_SRV_HST, spn))
	}
	there, err := l.ask(cl, tgt, tgt.realm, types.PrincipalName{
		NameType: nametype.KRB_NT_SRV_INST, NameString: []string{"krbtgt", realm},
	})
	if err != nil {
		return nil, fmt.Errorf("realm %s: %w", realm, err)
	}
	return l.ask(cl, there, realm, types.NewPrincipalName(nametype.KRB_NT_SRV_HST, spn))
}

func (l *login) ask(cl *client.Client, tgt *ticket, kdcRealm string, service types.PrincipalName) (*ticket, error) {
	_, rep, err := cl.TGSREQGenerateAndExchange(service, kdcRealm, tgt.ticket, tgt.key, false)
	if err != nil {
		return nil, err
	}
	return &ticket{
		ticket: rep.Ticket, key: rep.DecryptedEncPart.Key, end: rep.DecryptedEncPart.EndTime,
		client: tgt.client, realm: tgt.realm,
	}, nil
}

func hostOf(spn string) string {
	_, host, _ := strings.Cut(spn, "/")
	return host
}

// serviceFromCache takes the service's ticket from the credential cache, or gets
// one by the ticket-granting ticket in it.
func (l *login) serviceFromCache(spn string) (*ticket, error) {
	cache, err := credentials.LoadCCache(l.cache)
	if err != nil {
		return nil, fmt.Errorf("credential cache: %w", err)
	}
	if t, err := fromCache(cache, types.NewPrincipalName(nametype.KRB_NT_SRV_HST, spn)); err == nil {
		return t, nil
	}
	realm := cache.GetClientRealm()
	tgt, err := fromCache(cache, types.PrincipalName{
		NameType: nametype.KRB_NT_SRV_INST, NameString: []string{"krbtgt", realm},
	})
	if err != nil {
		return nil, fmt.Errorf("credential cache %s: ticket-granting ticket of %s@%s: %w", l.cache,
			cache.GetClientPrincipalName().PrincipalNameString(), realm, err)
	}
	cl, err := client.NewFromCCache(cache, l.krb5)
	if err != nil {
		return nil, fmt.Errorf("credential cache: %w", err)
	}
	defer cl.Destroy()
	return l.exchange(cl, tgt, spn)
}

var (
	errNoTicket = errors.New("there is none")
	errExpired  = errors.New("it has expired")
)

func fromCache(cache *credentials.CCache, service types.PrincipalName) (*ticket, error) {
	entry, ok := cache.GetEntry(service)
	if !ok {
		return nil, errNoTicket
	}
	t := &ticket{key: entry.Key, end: entry.EndTime, client: cache.GetClientPrincipalName(), realm: cache.GetClientRealm()}
	if !t.valid(time.Now()) {
		return nil, errExpired
	}
	return t, t.ticket.Unmarshal(entry.Ticket)
}
