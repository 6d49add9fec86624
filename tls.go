package kafka

import (
	"crypto/tls"
	"errors"

	"github.com/kafkaconsumer/kafka/internal/tlsfiles"
)

// tlsSource returns what gives the TLS configuration of each new connection, nil
// without TLS. It reads the files, so that a wrong one is known before anything is
// sent; the errors are joined *ConfigErrors.
func tlsSource(c *Config) (func(host string) *tls.Config, error) {
	if c.SecurityProtocol != SecuritySSL && c.SecurityProtocol != SecuritySASLSSL {
		return nil, nil
	}
	if c.TLS != nil {
		return func(string) *tls.Config { return c.TLS.Clone() }, nil
	}
	suites, _ := tlsfiles.ParseSuites(c.SSLCiphers) // checked by validate
	source, err := tlsfiles.New(tlsfiles.Files{
		CA: c.SSLCAFile, Cert: c.SSLCertFile, Key: c.SSLKeyFile, CRL: c.SSLCRLFile,
		Password:     c.SSLPassword,
		SkipHostname: c.SSLSkipHostnameCheck,
		Suites:       suites,
		Logger:       c.Logger,
	})
	if err != nil {
		var faults []error
		for _, err := range leaves(err) {
			faults = append(faults, fileFault(err))
		}
		return nil, errors.Join(faults...)
	}
	return func(string) *tls.Config { return source.Config() }, nil
}

// fileFields are the fields that name files.
var fileFields = map[tlsfiles.Role]string{
	tlsfiles.RoleCA: "SSLCAFile", tlsfiles.RoleCert: "SSLCertFile", tlsfiles.RoleKey: "SSLKeyFile",
	tlsfiles.RoleCRL: "SSLCRLFile", tlsfiles.RolePassword: "SSLPassword",
}

// fileFault makes a *ConfigError of a file that cannot be used.
func fileFault(err error) error {
	e, ok := errors.AsType[*tlsfiles.FileError](err)
	if !ok {
		return err
	}
	value := valueText(printableText(fileFields[e.Role], e.Name))
	if e.Role == tlsfiles.RolePassword {
		value = valueText(hiddenValue)
	}
	return &ConfigError{Field: fileFields[e.Role], Value: value, Reason: e.Err.Error()}
}
