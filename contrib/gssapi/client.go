package gssapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/kafkaconsumer/kafka"
)

// Mechanism is the name of the mechanism.
const Mechanism = "GSSAPI"

// A Config says who the client is and how the brokers are called. Of Keytab,
// Password and CredentialCache at most one may be set; with none of them the
// default credential cache is used.
type Config struct {
	// ConfigFile is the krb5.conf to read. Empty means the first file of the
	// environment variable KRB5_CONFIG that exists, then /etc/krb5.conf. Its
	// include directives are not followed.
	ConfigFile string
	// Principal is the client's name, as user@REALM or user/instance@REALM;
	// without a realm it is in default_realm. It is required with Keytab and
	// Password; a credential cache knows it.
	Principal string
	// Keytab is the file with the client's keys. It is read again for each login,
	// so that a new one is used.
	Keytab string
	// Password is the client's password. It is never printed.
	Password string
	// CredentialCache is the file that kinit wrote the ticket to. Empty, with
	// neither Keytab nor Password, means KRB5CCNAME, then /tmp/krb5cc_UID. It is
	// read again when tickets expire; something else must renew it.
	CredentialCache string

	// ServiceName is the first part of the brokers' principal. Empty means kafka.
	//
	// Kafka property: sasl.kerberos.service.name.
	ServiceName string
	// DomainName is the second part of the brokers' principal, for all of them.
	// Empty means the host of each broker as it was dialled, in lower case: it is
	// not looked up in DNS, whatever krb5.conf says.
	//
	// kafka-python: sasl_kerberos_domain_name.
	DomainName string
	// DisablePAFXFAST keeps PA-REQ-ENC-PA-REP out of requests, which some Active
	// Directory servers do not understand.
	DisablePAFXFAST bool
}

// String hides the password.
func (c Config) String() string {
	return fmt.Sprintf("gssapi.Config{Principal:%q Keytab:%q CredentialCache:%q ServiceName:%q DomainName:%q}",
		c.Principal, c.Keytab, c.CredentialCache, c.ServiceName, c.DomainName)
}

// GoString hides the password.
func (c Config) GoString() string { return c.String() }

// LogValue hides the password.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// A Client is a kafka.KerberosClient. It may be used by any number of consumers and
// goroutines, needs no closing and keeps tickets until they expire.
type Client struct {
	serviceName string
	domainName  string
	tickets     *tickets
}

var _ kafka.KerberosClient = (*Client)(nil)

// New makes a Client. It reads krb5.conf but talks to nobody: wrong credentials
// show when a connection is made. The error says what is wrong with cfg.
func New(cfg Config) (*Client, error) {
	l, err := newLogin(cfg)
	if err != nil {
		return nil, fmt.Errorf("gssapi: %w", err)
	}
	return newClient(cfg, l.service), nil
}

func newClient(cfg Config, obtain func(spn string) (*ticket, error)) *Client {
	return &Client{
		serviceName: cmp.Or(cfg.ServiceName, "kafka"),
		domainName:  cfg.DomainName,
		tickets:     newTickets(obtain),
	}
}

// Mechanism returns GSSAPI.
func (c *Client) Mechanism() string { return Mechanism }

// WithKerberosNames returns a Client with other names of the brokers' principal,
// which keeps its tickets together with c. What is empty stays as it is.
func (c *Client) WithKerberosNames(service, domain string) kafka.SASLClient {
	return &Client{
		serviceName: cmp.Or(service, c.serviceName),
		domainName:  cmp.Or(domain, c.domainName),
		tickets:     c.tickets,
	}
}

// String hides the tickets.
func (c *Client) String() string { return "gssapi.Client{" + c.serviceName + "}" }

// GoString hides the tickets.
func (c *Client) GoString() string { return c.String() }

// Start gets a ticket for the broker, from the KDC unless there is one already,
// and returns the message that presents it.
func (c *Client) Start(ctx context.Context, host string) (kafka.SASLSession, []byte, error) {
	spn := c.servicePrincipal(host)
	t, err := c.tickets.take(ctx, spn)
	if err != nil {
		return nil, nil, fmt.Errorf("gssapi: ticket for %s: %w", spn, err)
	}
	s, first, err := newSession(t, func() { c.tickets.put(spn, t) })
	if err != nil {
		return nil, nil, fmt.Errorf("gssapi: %w", err)
	}
	return s, first, nil
}

func (c *Client) servicePrincipal(host string) string {
	if c.domainName != "" {
		host = c.domainName
	}
	return c.serviceName + "/" + strings.ToLower(strings.TrimSuffix(host, "."))
}

var errOneCredential = errors.New("at most one of Keytab, Password and CredentialCache may be set")
