package main

import (
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

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

// mostHealth bounds the bytes that are read of an answer: what is at that address may be no server of ours.
const mostHealth = 64 << 10

func healthCommand() *cli.Command {
	return &cli.Command{
		Name: "health", Usage: "say whether a server answers and its model is loaded", ArgsUsage: "[URL]",
		Description: `Asks a server's /health and ends with status 0 where it can answer requests, 1 where it cannot yet, or is not there.
Containers are checked by it: an image needs no shell and no curl. Without a URL it asks the port or socket on this machine
that serve listens on by the same flags or variables, over TLS where serve has a certificate. A URL may be unix:PATH.`,
		Flags: append(serverFlags(), &cli.DurationFlag{Name: "timeout", Value: 5 * time.Second, Usage: "`TIME` that the answer may take"}),
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Args().Len() > 1 {
				return fmt.Errorf("unexpected argument %q: one server at a time", c.Args().Get(1))
			}
			address := serverURL(c.String("host"), c.Int("port"), c.String("ssl-cert-file") != "")
			if c.Args().Present() {
				address = c.Args().First()
			}
			ctx, cancel := context.WithTimeout(ctx, c.Duration("timeout"))
			defer cancel()
			if err := checkHealth(ctx, address, c.String("ssl-cert-file")); err != nil {
				return err
			}
			_, err := fmt.Fprintln(c.Root().Writer, address+" is ready")
			return err
		},
	}
}

// socketScheme begins the addresses of sockets in the file system.
const socketScheme = "unix:"

// serverURL returns the address at which this machine reaches a server that listens at host and port. Where that is
// every address of the machine, the loopback's is one of them.
func serverURL(host string, port int, secure bool) string {
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

// healthClient returns a client for the server at address, and the URL it has there. certificate is the file of the one
// that is trusted; without any it is one that the system trusts.
func healthClient(address, certificate string) (*http.Client, *url.URL, error) {
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

// trustOnly returns a configuration for clients of the server that has this certificate: its name need not be the
// address's.
func trustOnly(c *x509.Certificate) *tls.Config {
	return &tls.Config{
		InsecureSkipVerify: true, // what follows is stricter than a chain and a name
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 || !state.PeerCertificates[0].Equal(c) {
				return errors.New("the server's certificate is not that of the file; while it is being renewed they may differ for some seconds")
			}
			return nil
		},
	}
}

// cause returns the error of a request without its address, which the message names already.
func cause(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// checkHealth returns nil where the server at address, which has the certificate of a file or an ordinary one, says
// that it is ready.
func checkHealth(ctx context.Context, address, certificate string) error {
	client, u, err := healthClient(address, certificate)
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
