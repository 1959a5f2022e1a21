package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// writePair writes a certificate of 127.0.0.1 and its key, and returns the certificate.
func writePair(t *testing.T, folder string, serial int64) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "powerinfer"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "EC PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestTLS: a client that trusts the certificate is served over HTTP/2, and a renewed certificate is used without a
// restart.
func TestTLS(t *testing.T) {
	folder := t.TempDir()
	first := writePair(t, folder, 1)
	log := slog.New(slog.DiscardHandler)
	config, err := TLSConfig(filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem"), log)
	if err != nil {
		t.Fatal(err)
	}
	s := New(&Single{}, Options{Log: log, TLS: config, Timeout: time.Hour})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(t.Context(), l) }()
	roots := x509.NewCertPool()
	roots.AddCert(first)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
	res, err := client.Get("https://" + l.Addr().String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	client.CloseIdleConnections()
	if res.ProtoMajor != 2 || res.TLS.PeerCertificates[0].SerialNumber.Int64() != 1 {
		t.Errorf("answered by %s with certificate %v", res.Proto, res.TLS.PeerCertificates[0].SerialNumber)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	<-ended

	c := &certificate{cert: filepath.Join(folder, "cert.pem"), key: filepath.Join(folder, "key.pem"), log: log}
	if err := c.read(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.key, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if pair, err := c.get(nil); err != nil || pair.Leaf.SerialNumber.Int64() != 1 {
		t.Errorf("while the new files cannot be used: %v", err)
	}
	writePair(t, folder, 2)
	later := time.Now().Add(time.Minute) // files written within milliseconds may have the same time
	for _, name := range []string{c.cert, c.key} {
		if err := os.Chtimes(name, later, later); err != nil {
			t.Fatal(err)
		}
	}
	c.checked = time.Time{}
	if pair, err := c.get(nil); err != nil || pair.Leaf.SerialNumber.Int64() != 2 {
		t.Errorf("the new certificate is not used: %v", err)
	}
}
