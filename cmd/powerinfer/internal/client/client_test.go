package client

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHealth: only status 200 of /health means healthy. Errors contain the server's message.
func TestHealth(t *testing.T) {
	status, body := http.StatusOK, `{"status":"ok"}`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" && r.URL.Path != "/models/health" {
			t.Errorf("%s was asked for", r.URL.Path)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	defer s.Close()
	for _, c := range []struct {
		status             int
		body, address, err string
	}{
		{200, `{"status":"ok"}`, s.URL, ""},
		{200, `{"status":"ok"}`, s.URL + "/", ""},
		{200, `{"status":"ok"}`, s.URL + "/models", ""},
		{503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, s.URL, "Loading model"},
		{404, `<html>`, s.URL, "404 Not Found"},
		{200, "", "127.0.0.1:8080", "no server's address"},
		{200, "", "file:///etc/passwd", "no server's address"},
	} {
		status, body = c.status, c.body
		err := (Server{Address: c.address}).Healthy(context.Background())
		if c.err == "" && err != nil {
			t.Errorf("%d %s: %v", c.status, c.address, err)
		}
		if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%d %s: %v says nothing of %q", c.status, c.address, err, c.err)
		}
	}
	s.Close()
	if err := (Server{Address: s.URL}).Healthy(context.Background()); err == nil || !strings.Contains(err.Error(), "no server answers") {
		t.Errorf("without a server: %v", err)
	}
}

// TestHealthOverTLSAndSockets: a server with TLS is reached with its own certificate only, and a socket by its path.
func TestHealthOverTLSAndSockets(t *testing.T) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, `{"status":"ok"}`) })
	s := httptest.NewTLSServer(answer)
	defer s.Close()
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that should fail
	folder := t.TempDir()
	write := func(name string, der []byte) string {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	own := write("own.pem", s.Certificate().Raw)
	if err := (Server{Address: s.URL, Certificate: own}).Healthy(t.Context()); err != nil {
		t.Errorf("with the server's certificate: %v", err)
	}
	if err := (Server{Address: s.URL}).Healthy(t.Context()); err == nil {
		t.Error("a certificate that nobody signed is trusted")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other := x509.Certificate{SerialNumber: big.NewInt(7)}
	der, err := x509.CreateCertificate(rand.Reader, &other, &other, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := (Server{Address: s.URL, Certificate: write("other.pem", der)}).Healthy(t.Context()); err == nil || !strings.Contains(err.Error(), "not that of the file") {
		t.Errorf("with another certificate: %v", err)
	}
	if err := (Server{Address: s.URL, Certificate: filepath.Join(folder, "none.pem")}).Healthy(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
	socket := filepath.Join(folder, "s.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Skip("no sockets in the file system: ", err)
	}
	at := &httptest.Server{Listener: l, Config: &http.Server{Handler: answer}}
	at.Start()
	defer at.Close()
	for _, address := range []string{URL(socket, 80, false), "unix://" + socket} {
		if err := (Server{Address: address}).Healthy(t.Context()); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestServerURL: a server that listens everywhere is reached at the loopback address.
func TestServerURL(t *testing.T) {
	for host, want := range map[string]string{
		"0.0.0.0": "http://127.0.0.1:80", "::": "http://[::1]:80", "192.0.2.1": "http://192.0.2.1:80", "example.org": "http://example.org:80",
	} {
		if got := URL(host, 80, false); got != want {
			t.Errorf("%s: %s, not %s", host, got, want)
		}
	}
}
