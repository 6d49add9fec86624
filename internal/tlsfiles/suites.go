package tlsfiles

import (
	"crypto/tls"
	"fmt"
	"strings"
)

// Suites are the cipher suites to offer. The zero value means Go's own choice.
type Suites struct {
	tls12  []uint16
	only13 bool // no suite of TLS 1.2 was named
}

// A SuiteError says why a name cannot be a cipher suite.
type SuiteError struct {
	Name   string
	Reason string
}

// Error returns the name and what is wrong with it.
func (e *SuiteError) Error() string { return fmt.Sprintf("cipher suite %q: %s", e.Name, e.Reason) }

// openSSLNames are the names that OpenSSL has for the suites of TLS 1.2 which
// crypto/tls implements.
var openSSLNames = map[string]uint16{
	"ECDHE-ECDSA-AES128-GCM-SHA256": tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
	"ECDHE-ECDSA-AES256-GCM-SHA384": tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
	"ECDHE-ECDSA-CHACHA20-POLY1305": tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	"ECDHE-ECDSA-AES128-SHA256":     tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256,
	"ECDHE-ECDSA-AES128-SHA":        tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA,
	"ECDHE-ECDSA-AES256-SHA":        tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA,
	"ECDHE-RSA-AES128-GCM-SHA256":   tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	"ECDHE-RSA-AES256-GCM-SHA384":   tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	"ECDHE-RSA-CHACHA20-POLY1305":   tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	"ECDHE-RSA-AES128-SHA256":       tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256,
	"ECDHE-RSA-AES128-SHA":          tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA,
	"ECDHE-RSA-AES256-SHA":          tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA,
	"AES128-GCM-SHA256":             tls.TLS_RSA_WITH_AES_128_GCM_SHA256,
	"AES256-GCM-SHA384":             tls.TLS_RSA_WITH_AES_256_GCM_SHA384,
	"AES128-SHA256":                 tls.TLS_RSA_WITH_AES_128_CBC_SHA256,
	"AES128-SHA":                    tls.TLS_RSA_WITH_AES_128_CBC_SHA,
	"AES256-SHA":                    tls.TLS_RSA_WITH_AES_256_CBC_SHA,
	"ECDHE-RSA-DES-CBC3-SHA":        tls.TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA,
	"DES-CBC3-SHA":                  tls.TLS_RSA_WITH_3DES_EDE_CBC_SHA,
	"ECDHE-ECDSA-RC4-SHA":           tls.TLS_ECDHE_ECDSA_WITH_RC4_128_SHA,
	"ECDHE-RSA-RC4-SHA":             tls.TLS_ECDHE_RSA_WITH_RC4_128_SHA,
	"RC4-SHA":                       tls.TLS_RSA_WITH_RC4_128_SHA,
}

// ParseSuites finds the suites of names, IANA's or OpenSSL's. Those of TLS 1.3
// cannot be chosen in Go; they are all on. A list of nothing but such means
// that TLS 1.2 is off. The faults are one for each name that is none.
func ParseSuites(names []string) (suites Suites, faults []*SuiteError) {
	all := append(tls.CipherSuites(), tls.InsecureCipherSuites()...)
	for _, name := range names {
		id, is13, known := findSuite(all, name)
		switch {
		case !known:
			faults = append(faults, &SuiteError{name, suiteFault(name)})
		case !is13:
			suites.tls12 = append(suites.tls12, id)
		}
	}
	suites.only13 = len(names) > 0 && len(suites.tls12) == 0
	return suites, faults
}

func findSuite(all []*tls.CipherSuite, name string) (id uint16, is13, known bool) {
	id, openSSL := openSSLNames[name]
	for _, suite := range all {
		if suite.Name == name || openSSL && suite.ID == id {
			return suite.ID, suite.SupportedVersions[0] == tls.VersionTLS13, true
		}
	}
	return 0, false, false
}

// suiteFault says why a name is no usable suite.
func suiteFault(name string) string {
	const words = " ALL COMPLEMENTOFALL DEFAULT COMPLEMENTOFDEFAULT HIGH MEDIUM LOW NULL aNULL eNULL ECDHE DHE AES AESGCM CHACHA20 RSA kRSA ECDSA "
	switch {
	case name == "":
		return "it is empty"
	case strings.ContainsAny(name, ":;, !+@"), strings.HasPrefix(name, "-"), strings.Contains(words, " "+name+" "):
		return "OpenSSL's list expressions are not supported: name each suite in an element of its own"
	case strings.HasPrefix(name, "TLS_"), strings.Contains(name, "-SHA"), strings.Contains(name, "-POLY1305"), strings.Contains(name, "-CCM"):
		return "Go does not have it"
	}
	return "it is not the name of a cipher suite, neither IANA's nor OpenSSL's"
}
