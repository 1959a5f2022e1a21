package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// listenFlags say where a server listens, and how it is spoken to.
func listenFlags() []cli.Flag {
	return flags.About(flags.NetworkSubject, []cli.Flag{
		&cli.StringFlag{Name: "host", Value: "127.0.0.1", Usage: "`ADDRESS` to listen on; 0.0.0.0: every network; one that ends with .sock is a socket in the file system", Sources: flags.Env("HOST")},
		&cli.IntFlag{Name: "port", Value: 8080, Usage: "port to listen on; 0: any free one", Sources: flags.Env("PORT")},
		&cli.StringSliceFlag{Name: "allowed-hosts", Aliases: []string{"allowed-host"}, Usage: "without a key, answer requests to the name `HOST`, too, such as chat.example.org or *.example.org, or several with commas; * is all; may be repeated; IP addresses, localhost and this machine's name are always answered", Sources: flags.Env("ALLOWED_HOSTS")},
		&cli.StringFlag{Name: "ssl-cert-file", Usage: "PEM `FILE` of a certificate, for HTTPS; it is read again when it changes", Sources: flags.Env("SSL_CERT_FILE")},
		&cli.StringFlag{Name: "ssl-key-file", Usage: "PEM `FILE` of the certificate's key", Sources: flags.Env("SSL_KEY_FILE")},
	})
}

// socketPath returns the path that --host names if it names one, or nothing.
func socketPath(c *cli.Command) string {
	if host := c.String("host"); strings.HasSuffix(host, ".sock") {
		return host
	}
	return ""
}

// listen opens the address, and tells what URLs begin with.
func listen(ctx context.Context, c *cli.Command) (l net.Listener, url string, err error) {
	scheme := "http://"
	if c.IsSet("ssl-cert-file") {
		scheme = "https://"
	}
	path := socketPath(c)
	if path == "" {
		l, err = net.Listen("tcp", net.JoinHostPort(c.String("host"), strconv.Itoa(c.Int("port"))))
		if err != nil {
			return nil, "", fmt.Errorf("%w; --host and --port choose another address", err)
		}
		return l, scheme + l.Addr().String(), nil
	}
	if err := clearSocket(ctx, path); err != nil {
		return nil, "", err
	}
	if l, err = net.Listen("unix", path); err != nil {
		return nil, "", fmt.Errorf("%w; --host names another socket", err)
	}
	return l, "unix:" + path, nil
}

// clearSocket removes a socket that a server left which did not end by itself.
func clearSocket(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != os.ModeSocket {
		return nil // nothing is there, or something that Listen refuses to replace
	}
	d := net.Dialer{Timeout: time.Second}
	if other, err := d.DialContext(ctx, "unix", path); err == nil {
		other.Close()
		return fmt.Errorf("another program listens on %s; --host names another socket", path)
	}
	return os.Remove(path)
}

// secure has the server speak TLS if the flags ask for it.
func secure(c *cli.Command, o *server.Options) error {
	cert, key := c.String("ssl-cert-file"), c.String("ssl-key-file")
	if cert == "" && key == "" {
		return nil
	}
	if cert == "" || key == "" {
		return errors.New("--ssl-cert-file and --ssl-key-file belong together; give both")
	}
	var err error
	o.TLS, err = server.TLSConfig(cert, key, o.Log)
	return err
}
