package server

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
)

// TestCertificatesNames: a server with a certificate accepts the certificate's names, as browsers check them, and this
// machine's.
func TestCertificatesNames(t *testing.T) {
	leaf := &x509.Certificate{DNSNames: []string{"chat.example.org", "*.wide.example"}}
	h := newHosts(&Options{Local: true, TLS: &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return &tls.Certificate{Leaf: leaf}, nil
	}}})
	h.own = append(h.own, "desk.example.com", "desk", "desk.local")
	for name, want := range map[string]bool{
		"chat.example.org:8443": true, "CHAT.example.org.": true, "a.wide.example": true, "desk": true, "Desk.local:8443": true, "desk.example.com": true,
		"wide.example": false, "a.b.wide.example": false, "evil.example": false, "desk.evil.example": false, "other": false, "other.local": false,
	} {
		if h.goBy(name) != want {
			t.Errorf("the server goes by %q: %t", name, !want)
		}
	}
}
