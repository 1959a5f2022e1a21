// Package client sends requests to a running server, also through a socket in the file system, or with the server's own
// certificate.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

// Server is a running server.
type Server struct {
	Address     string // URL, or unix:PATH
	Certificate string // file of the trusted certificate; "": the system's are trusted
	Key         string // API key; "": none
}

// mostHealth limits the bytes read of an answer: something else may listen at that address.
const mostHealth = 64 << 10

// socketScheme begins the addresses of sockets in the file system.
const socketScheme = "unix:"

// URL returns the address at which this machine reaches a server that listens at host and port. If host stands for
// every address of the machine, it is the loopback address.
func URL(host string, port int, secure bool) string {
	if strings.HasSuffix(host, ".sock") {
		return socketScheme + host
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		if host = "127.0.0.1"; ip.To4() == nil {
			host = "::1"
		}
	}
	scheme := "http://"
	if secure {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(host, strconv.Itoa(port))
}

// open returns a client for the server at address, and the URL to use. certificate is the file of the trusted
// certificate; "": the system's are trusted.
func open(address, certificate string) (*http.Client, *url.URL, error) {
	transport := &http.Transport{DisableKeepAlives: true}
	if certificate != "" {
		trusted, err := readCertificate(certificate)
		if err != nil {
			return nil, nil, err
		}
		transport.TLSClientConfig = trustOnly(trusted)
	}
	if path, ok := strings.CutPrefix(address, socketScheme); ok {
		address = "http://localhost"
		if certificate != "" {
			address = "https://localhost"
		}
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(path, "//"))
		}
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, nil, fmt.Errorf("%q is no server's address; http://127.0.0.1:8080 is one", address)
	}
	return &http.Client{Transport: transport}, u, nil
}

// readCertificate returns the first certificate of a PEM file, the server's own.
func readCertificate(file string) (*x509.Certificate, error) {
	text, err := wholefile.Read(file, wholefile.Setting)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
	return nil, fmt.Errorf("%s holds no certificate in PEM's form", file)
}

// trustOnly returns a TLS configuration that accepts exactly this certificate, whatever name it has.
func trustOnly(c *x509.Certificate) *tls.Config {
	return &tls.Config{
		InsecureSkipVerify: true, // VerifyConnection is stricter
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 || !state.PeerCertificates[0].Equal(c) {
				return errors.New("the server's certificate is not that of the file; while it is being renewed they may differ for some seconds")
			}
			return nil
		},
	}
}

// cause returns a request's error without the address, which the message already has.
func cause(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// Healthy returns nil if the server says that it is ready.
func (s Server) Healthy(ctx context.Context) error {
	client, u, err := open(s.Address, s.Certificate)
	if err != nil {
		return err
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/health"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if _, unknown := errors.AsType[*tls.CertificateVerificationError](err); unknown {
		return fmt.Errorf("the server's certificate is not trusted; --ssl-cert-file FILE trusts that of a file: %w", err)
	}
	if err != nil {
		return fmt.Errorf("no server answers: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	var body struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.NewDecoder(io.LimitReader(answer.Body, mostHealth)).Decode(&body) == nil && body.Error.Message != "" {
		return fmt.Errorf("not ready: %s (%s)", body.Error.Message, answer.Status)
	}
	return fmt.Errorf("not ready: %s answers %s", u, answer.Status)
}

// patience is the longest time to wait for a server's answer.
const patience = 30 * time.Second

// mostAnswer bounds the bytes that are read of an answer.
const mostAnswer = 8 << 20

// Ask sends a request and returns the answer's body.
func (s Server) Ask(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	client, u, err := open(s.Address, s.Certificate)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	u.Path = path
	request, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if s.Key != "" {
		request.Header.Set("Authorization", "Bearer "+s.Key)
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("no server answers at %s; powerinfer serve starts one, and --host and --port name another (%w)", s.Address, cause(err))
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, mostAnswer))
	if err != nil {
		return nil, err
	}
	if answer.StatusCode == http.StatusOK {
		return text, nil
	}
	var told struct {
		Error json.RawMessage `json:"error"`
	}
	var line string
	var form struct{ Message string }
	switch {
	case json.Unmarshal(text, &told) != nil:
	case json.Unmarshal(told.Error, &line) == nil:
	case json.Unmarshal(told.Error, &form) == nil:
		line = form.Message
	}
	switch {
	case answer.StatusCode == http.StatusUnauthorized:
		return nil, errors.New("the server asks for a key: give it with --api-key or in LLAMA_API_KEY")
	case line == "":
		return nil, fmt.Errorf("%s answers %s to %s; it is no server of powerinfer's", s.Address, answer.Status, path)
	}
	return nil, fmt.Errorf("the server refuses: %s", line)
}
