package kafka

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kafkaconsumer/kafka/internal/sasl"
	"github.com/kafkaconsumer/kafka/internal/tlsfiles"
)

func (v *validator) tls() {
	c, p := v.cfg, v.cfg.SecurityProtocol
	plain := p == SecurityPlaintext || p == SecuritySASLPlaintext
	if plain && c.TLS != nil {
		v.fault("TLS", "SecurityProtocol %s does not use it", p)
	}
	for _, field := range []string{
		"SSLSkipHostnameCheck", "SSLCAFile", "SSLCertFile", "SSLKeyFile", "SSLPassword", "SSLCRLFile", "SSLCiphers",
	} {
		if v.fields.FieldByName(field).IsZero() {
			continue
		}
		if plain {
			v.fault(field, "SecurityProtocol %s does not use it", p)
		}
		if c.TLS != nil {
			v.fault(field, "it cannot be set together with TLS, which is the whole configuration")
		}
	}
	for _, field := range []string{"SSLCAFile", "SSLCertFile", "SSLKeyFile", "SSLCRLFile"} {
		if strings.Contains(v.fields.FieldByName(field).String(), "-----BEGIN") {
			v.fault(field, "it must be the name of a file, not what is in it")
		}
	}
	if c.SSLCertFile == "" {
		for _, field := range []string{"SSLKeyFile", "SSLPassword"} {
			if !v.fields.FieldByName(field).IsZero() {
				v.fault(field, "it needs SSLCertFile")
			}
		}
	}
	_, faults := tlsfiles.ParseSuites(c.SSLCiphers)
	for _, fault := range faults {
		v.faultOf("SSLCiphers", valueText(fault.Name), "%s", fault.Reason)
	}
}

// A saslMechanism is one that SASLMechanism may name.
type saslMechanism struct {
	name       string
	needs, may []string // fields
}

var saslMechanisms = []saslMechanism{
	{mechanismPlain, []string{"SASLUsername", "SASLPassword"}, nil},
	{mechanismGSSAPI, []string{"SASL"}, []string{"SASLKerberosServiceName", "SASLKerberosDomainName"}},
	{mechanismOAuthBearer, []string{"SASLOAuthTokenProvider"}, nil},
	{sasl.ScramSHA256, []string{"SASLUsername", "SASLPassword"}, nil},
	{sasl.ScramSHA512, []string{"SASLUsername", "SASLPassword"}, nil},
}

func (v *validator) sasl() {
	c, p := v.cfg, v.cfg.SecurityProtocol
	switch p {
	case SecurityPlaintext, SecuritySSL:
		for _, field := range []string{
			"SASL", "SASLMechanism", "SASLUsername", "SASLPassword", "SASLKerberosServiceName", "SASLKerberosDomainName",
			"SASLOAuthTokenProvider",
		} {
			if !v.fields.FieldByName(field).IsZero() {
				v.fault(field, "SecurityProtocol %s does not use it, %s and %s do", p, SecuritySASLPlaintext, SecuritySASLSSL)
			}
		}
	case SecuritySASLPlaintext, SecuritySASLSSL:
		v.saslClient()
	}
	if c.SASL != nil && isNil(c.SASL) {
		v.fault("SASL", "it holds a nil pointer")
	}
	if c.SASLOAuthTokenProvider != nil && isNil(c.SASLOAuthTokenProvider) {
		v.fault("SASLOAuthTokenProvider", "it holds a nil pointer")
	}
	for _, field := range []string{"SASLUsername", "SASLPassword"} {
		switch s := v.fields.FieldByName(field).String(); {
		case !utf8.ValidString(s):
			v.fault(field, "it must be UTF-8")
		case strings.ContainsRune(s, 0):
			v.fault(field, "it must not contain a NUL")
		}
	}
	v.kerberosNames()
}

// saslClient checks the choice of a mechanism and the fields that go with it.
func (v *validator) saslClient() {
	c := v.cfg
	if c.SASL != nil {
		if name := c.SASLMechanism; name != "" && !isNil(c.SASL) && c.SASL.Mechanism() != name {
			v.fault("SASLMechanism", "SASL authenticates by %q; leave SASLMechanism out, or let it be the same", c.SASL.Mechanism())
		}
		v.unused("SASL", "SASLUsername", "SASLPassword", "SASLOAuthTokenProvider")
		return
	}
	if c.SASLMechanism == "" {
		v.fault("SASLMechanism", "SecurityProtocol %s needs it, or SASL", c.SecurityProtocol)
		return
	}
	var names []string
	for _, m := range saslMechanisms {
		if m.name == c.SASLMechanism {
			v.mechanism(m)
			return
		}
		names = append(names, m.name)
	}
	v.fault("SASLMechanism", "allowed are %q", names)
}

// mechanism checks the fields of a mechanism that is built in, or ought to be given
// as SASL.
func (v *validator) mechanism(m saslMechanism) {
	for _, field := range m.needs {
		switch {
		case !v.fields.FieldByName(field).IsZero():
		case field == "SASL":
			v.fault("SASLMechanism", "it needs the field SASL, with a client of %s", gssapiImport)
		default:
			v.fault(field, "SASLMechanism %s needs it", m.name)
		}
	}
	for _, field := range []string{
		"SASLUsername", "SASLPassword", "SASLOAuthTokenProvider", "SASLKerberosServiceName", "SASLKerberosDomainName",
	} {
		if !slices.Contains(m.needs, field) && !slices.Contains(m.may, field) {
			v.unused("SASLMechanism "+m.name, field)
		}
	}
}

// unused notes the fields that are set although what does not use them.
func (v *validator) unused(what string, fields ...string) {
	for _, field := range fields {
		if !v.fields.FieldByName(field).IsZero() {
			v.fault(field, "%s does not use it", what)
		}
	}
}

// kerberosNames: a client that cannot take them would use others in silence.
func (v *validator) kerberosNames() {
	if v.cfg.SASL == nil || isNil(v.cfg.SASL) {
		return
	}
	if _, ok := v.cfg.SASL.(KerberosClient); !ok {
		v.unused("SASL is no KerberosClient and", "SASLKerberosServiceName", "SASLKerberosDomainName")
	}
}
