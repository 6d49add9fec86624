package kafka

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/kafkaconsumer/kafka/internal/javaconf"
	"github.com/kafkaconsumer/kafka/internal/sasl"
	"github.com/kafkaconsumer/kafka/internal/tlsfiles"
)

// The keys of ssl.… and sasl.… that depend on each other.
const (
	keyCAFile      = "ssl.truststore.location"
	keyCA          = "ssl.truststore.certificates"
	keyCAType      = "ssl.truststore.type"
	keyStore       = "ssl.keystore.location" // Java's: key and chain in one file
	keyStoreType   = "ssl.keystore.type"
	keyCertFile    = "ssl.certificate.location" // librdkafka's
	keyKeyFile     = "ssl.key.location"         // likewise
	keyCert        = "ssl.keystore.certificate.chain"
	keyKey         = "ssl.keystore.key"
	keyKeyPassword = "ssl.key.password"
	keyCRL         = "ssl.crl.location"
	keyCiphers     = "ssl.cipher.suites"
	keyIdentify    = "ssl.endpoint.identification.algorithm"

	keyMechanism    = "sasl.mechanism"
	keyJAAS         = "sasl.jaas.config"
	keyUsername     = "sasl.username"
	keyPassword     = "sasl.password"
	keyKerberos     = "sasl.kerberos.service.name"
	keyTokenURL     = "sasl.oauthbearer.token.endpoint.url"
	keyClientID     = "sasl.oauthbearer.client.credentials.client.id"
	keyClientSecret = "sasl.oauthbearer.client.credentials.client.secret"
	keyScope        = "sasl.oauthbearer.scope"
	keyExtensions   = "sasl.oauthbearer.extensions"
	keyTokenHandler = "sasl.login.callback.handler.class"
)

var securityKeys = []configKey{
	{name: keyCAFile, others: []string{"ssl.ca.location"}, field: "SSLCAFile"},
	{name: keyCA, others: []string{"ssl.ca.pem"}, field: "TLS", secret: true},
	{name: keyCAType, field: "SSLCAFile"},
	{name: keyStore, field: "SSLCertFile"},
	{name: keyStoreType, field: "SSLCertFile"},
	{name: keyCertFile, field: "SSLCertFile"},
	{name: keyKeyFile, field: "SSLKeyFile"},
	{name: keyCert, others: []string{"ssl.certificate.pem"}, field: "TLS", secret: true},
	{name: keyKey, others: []string{"ssl.key.pem"}, field: "TLS", secret: true},
	{name: keyKeyPassword, field: "SSLPassword", secret: true},
	{name: keyCRL, field: "SSLCRLFile"},
	{name: keyCiphers, field: "SSLCiphers"},
	{name: keyIdentify, field: "SSLSkipHostnameCheck"},
	{name: keyMechanism, others: []string{"sasl.mechanisms"}, field: "SASLMechanism"},
	{name: keyJAAS, field: "SASLPassword", secret: true},
	{name: keyUsername, field: "SASLUsername", secret: true, raw: true},
	{name: keyPassword, field: "SASLPassword", secret: true, raw: true},
	{name: keyKerberos, field: "SASLKerberosServiceName"},
	{name: keyTokenURL, field: "SASLOAuthTokenProvider", secret: true},
	{name: keyClientID, others: []string{"sasl.oauthbearer.client.id"}, field: "SASLOAuthTokenProvider"},
	{name: keyClientSecret, others: []string{"sasl.oauthbearer.client.secret"}, field: "SASLOAuthTokenProvider", secret: true},
	{name: keyScope, field: "SASLOAuthTokenProvider"},
	{name: keyExtensions, field: "SASLOAuthTokenProvider", secret: true},
	{name: keyTokenHandler, field: "SASLOAuthTokenProvider"},
}

// text returns the value of a key, "" when it was not given.
func (r *keyReader) text(name string) string { return r.values[name].text }

func (r *keyReader) has(name string) bool { return r.values[name].text != "" }

func (r *keyReader) security() {
	r.ssl()
	r.sasl()
}

func (r *keyReader) ssl() {
	r.exclusive(keyCAFile, keyCA)
	r.exclusive(keyStore, keyCertFile, keyCert)
	r.exclusive(keyStore, keyKeyFile, keyKey)
	for _, name := range []string{keyCAType, keyStoreType} {
		if r.has(name) && !strings.EqualFold(r.text(name), "PEM") {
			r.faultOf(name, "only PEM can be read: openssl pkcs12 converts PKCS12, and keytool -importkeystore converts JKS to that")
		}
	}
	c := &r.cfg
	c.SSLCAFile, c.SSLCRLFile, c.SSLPassword = r.text(keyCAFile), r.text(keyCRL), r.text(keyKeyPassword)
	c.SSLCertFile, c.SSLKeyFile = r.text(keyStore)+r.text(keyCertFile), r.text(keyKeyFile)
	c.SSLCiphers = splitList(r.text(keyCiphers), ',', ':')
	if v, ok := r.values[keyIdentify]; ok {
		switch strings.ToLower(v.text) {
		case "https":
		case "", "none":
			c.SSLSkipHostnameCheck = true
		default:
			r.faultOf(keyIdentify, "allowed are https, and nothing or none for no check of the name")
		}
	}
	if r.has(keyCA) || r.has(keyCert) || r.has(keyKey) {
		r.inlinePEM()
	}
}

// exclusive reports the keys that cannot be given together.
func (r *keyReader) exclusive(names ...string) {
	first := ""
	for _, name := range names {
		switch {
		case !r.has(name):
		case first == "":
			first = name
		default:
			r.faultOf(name, "it cannot be set together with %s", r.values[first].key)
			delete(r.values, name)
		}
	}
}

// pemRoles are the keys that hold what tlsfiles finds at fault. The other way around,
// inline values and files have the same role.
var pemRoles = map[tlsfiles.Role][]string{
	tlsfiles.RoleCA: {keyCA, keyCAFile}, tlsfiles.RoleCert: {keyCert, keyStore, keyCertFile}, tlsfiles.RoleKey: {keyKey, keyKeyFile},
	tlsfiles.RoleCRL: {keyCRL}, tlsfiles.RolePassword: {keyKeyPassword, keyKey, keyCert, keyStore, keyKeyFile},
}

// inlinePEM makes Config.TLS of all keys of ssl.…, since some hold PEM, for which Config
// has no other field.
func (r *keyReader) inlinePEM() {
	c := &r.cfg
	if r.has(keyKey) && !r.has(keyCert) && c.SSLCertFile == "" {
		r.faultOf(keyKey, "it needs %s", keyCert)
		return
	}
	suites, faults := tlsfiles.ParseSuites(c.SSLCiphers)
	for _, fault := range faults {
		r.faultOf(keyCiphers, "%q: %s", fault.Name, fault.Reason)
	}
	source, err := tlsfiles.New(tlsfiles.Files{
		CA: c.SSLCAFile, Cert: c.SSLCertFile, Key: c.SSLKeyFile, CRL: c.SSLCRLFile,
		Inline: map[tlsfiles.Role][]byte{
			tlsfiles.RoleCA: r.pem(keyCA), tlsfiles.RoleCert: r.pem(keyCert), tlsfiles.RoleKey: r.pem(keyKey),
		},
		Password: c.SSLPassword, SkipHostname: c.SSLSkipHostnameCheck, Suites: suites,
	})
	if err != nil {
		for _, err := range leaves(err) {
			r.pemFault(err)
		}
		return
	}
	c.TLS = source.Config()
	c.SSLCAFile, c.SSLCRLFile, c.SSLPassword, c.SSLCertFile, c.SSLKeyFile = "", "", "", "", ""
	c.SSLCiphers, c.SSLSkipHostnameCheck = nil, false
	if c.SecurityProtocol == "" {
		c.SecurityProtocol = SecurityPlaintext // Java's default; that TLS is not used then is for NewConsumer to say
	}
}

func (r *keyReader) pem(name string) []byte {
	if !r.has(name) {
		return nil
	}
	return []byte(javaconf.PEM(r.text(name)))
}

func (r *keyReader) pemFault(err error) {
	e, ok := errors.AsType[*tlsfiles.FileError](err)
	if !ok {
		r.faultOf(keyCA, "%v", err)
		return
	}
	for _, name := range pemRoles[e.Role] {
		if r.has(name) {
			r.faultOf(name, "%v", e.Err)
			return
		}
	}
	r.faultOf(pemRoles[e.Role][0], "%v", e.Err)
}

func (r *keyReader) sasl() {
	c := &r.cfg
	c.SASLMechanism = r.text(keyMechanism)
	c.SASLKerberosServiceName = r.text(keyKerberos)
	oauth := OIDCConfig{
		TokenURL: r.text(keyTokenURL), ClientID: r.text(keyClientID), ClientSecret: r.text(keyClientSecret), Scope: r.text(keyScope),
		Extensions: r.extensions(),
	}
	if r.has(keyJAAS) {
		r.exclusive(keyJAAS, keyUsername)
		r.exclusive(keyJAAS, keyPassword)
		r.jaas(&oauth)
	}
	if r.has(keyUsername) || r.has(keyPassword) {
		c.SASLUsername, c.SASLPassword = r.text(keyUsername), r.text(keyPassword)
	}
	if v := r.text(keyTokenHandler); v != "" && !strings.HasSuffix(v, ".OAuthBearerLoginCallbackHandler") {
		r.faultOf(keyTokenHandler, "a class of Java cannot be run; see Config.SASLOAuthTokenProvider")
	}
	r.tokens(oauth)
}

// extensions reads librdkafka's list of name=value.
func (r *keyReader) extensions() map[string]string {
	var m map[string]string
	for _, part := range splitList(r.text(keyExtensions), ',') {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			r.faultOf(keyExtensions, "the form is name=value,name=value")
			return nil
		}
		if m == nil {
			m = make(map[string]string)
		}
		m[name] = value
	}
	return m
}

// A loginModule is one of Java's that can be read.
type loginModule struct {
	mechanisms []string
	set        func(r *keyReader, oauth *OIDCConfig, option, value string) bool // false: the option is not known
}

var loginModules = map[string]loginModule{
	"PlainLoginModule": {[]string{mechanismPlain}, setCredentials},
	"ScramLoginModule": {[]string{sasl.ScramSHA256, sasl.ScramSHA512}, setCredentials},
	"OAuthBearerLoginModule": {[]string{mechanismOAuthBearer}, func(_ *keyReader, oauth *OIDCConfig, option, value string) bool {
		name, isExtension := strings.CutPrefix(option, "extension_")
		switch {
		case option == "clientId":
			oauth.ClientID = value
		case option == "clientSecret":
			oauth.ClientSecret = value
		case option == "scope":
			oauth.Scope = value
		case isExtension:
			if oauth.Extensions == nil {
				oauth.Extensions = make(map[string]string)
			}
			oauth.Extensions[name] = value
		default:
			return false
		}
		return true
	}},
}

func setCredentials(r *keyReader, _ *OIDCConfig, option, value string) bool {
	switch option {
	case "username":
		r.cfg.SASLUsername = value
	case "password":
		r.cfg.SASLPassword = value
	default:
		return false
	}
	return true
}

// jaas reads sasl.jaas.config.
func (r *keyReader) jaas(oauth *OIDCConfig) {
	m, err := javaconf.JAAS(r.text(keyJAAS))
	if err != nil {
		r.faultOf(keyJAAS, "%v", err)
		return
	}
	class := m.Name[strings.LastIndexByte(m.Name, '.')+1:]
	if class == "Krb5LoginModule" {
		r.kerberos(m)
		return
	}
	module, ok := loginModules[class]
	if !ok {
		r.faultOf(keyJAAS, "its login module is not one of %v; Config.SASL takes other mechanisms", slices.Sorted(maps.Keys(loginModules)))
		return
	}
	if name := r.cfg.SASLMechanism; name != "" && !slices.Contains(module.mechanisms, name) {
		r.faultOf(keyJAAS, "its %s is for %s, and %s is %q", class, strings.Join(module.mechanisms, " and "), keyMechanism, name)
	}
	for _, option := range slices.Sorted(maps.Keys(m.Options)) {
		if !module.set(r, oauth, option, m.Options[option]) {
			r.faultOf(keyJAAS, "%s of its %s is not supported", optionName(option), class)
		}
	}
}

// optionName names an option only if Java has it: others may be the rest of a password
// whose quotes are wrong.
func optionName(option string) string {
	switch {
	case slices.Contains([]string{"tokenauth", "serviceName", "user"}, option):
		return "the option " + option
	case strings.HasPrefix(option, "unsecuredLogin"):
		return "the option unsecuredLogin…"
	case strings.HasPrefix(option, "ssl."):
		return "the option ssl.…"
	}
	return "an option"
}

// kerberos takes what a Config has a place for, and tells of the rest.
func (r *keyReader) kerberos(m javaconf.LoginModule) {
	if name := m.Options["serviceName"]; name != "" && r.cfg.SASLKerberosServiceName == "" {
		r.cfg.SASLKerberosServiceName = name
	}
	v := r.values[keyJAAS]
	r.faults = append(r.faults, &ConfigError{Field: "SASL", Key: v.key, Unused: true,
		Reason: "Kerberos is a module of its own: set Config.SASL to a client of " + gssapiImport + ", with the keytab and principal that stand here"})
}

// tokens makes a provider for OAUTHBEARER when there is something to make it of.
func (r *keyReader) tokens(oauth OIDCConfig) {
	if oauth.TokenURL == "" && oauth.ClientID == "" && oauth.ClientSecret == "" {
		return
	}
	whole := true
	for _, need := range []struct{ key, value string }{
		{keyTokenURL, oauth.TokenURL}, {keyClientID, oauth.ClientID}, {keyClientSecret, oauth.ClientSecret},
	} {
		if need.value == "" {
			whole = false
			r.faults = append(r.faults, &ConfigError{Field: "SASLOAuthTokenProvider", Key: need.key, Reason: "OAUTHBEARER by client credentials needs it"})
		}
	}
	if !whole {
		return
	}
	if _, err := oauth.endpoint(); err != nil {
		r.faultOf(keyTokenURL, "%s", strings.Replace(err.Error(), "OIDCConfig.TokenURL", "it", 1))
		return
	}
	r.cfg.SASLOAuthTokenProvider = OIDCClientCredentials(oauth)
}
