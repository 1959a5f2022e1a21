package server

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

// recheck is the shortest time between two looks at a certificate's files.
const recheck = 10 * time.Second

// A certificate is a server's, read again when its files change, as they do when it is renewed.
type certificate struct {
	cert, key string // files
	log       *slog.Logger

	mu      sync.Mutex
	pair    *tls.Certificate
	changed [2]time.Time // the files' times
	checked time.Time
}

// TLSConfig returns a configuration with the certificate and key in two PEM files, which are read again when they
// change.
func TLSConfig(cert, key string, log *slog.Logger) (*tls.Config, error) {
	c := &certificate{cert: cert, key: key, log: log}
	if err := c.read(); err != nil {
		return nil, err
	}
	return &tls.Config{GetCertificate: c.get, MinVersion: tls.VersionTLS12}, nil
}

// read reads the files. The times are taken first, so that a change meanwhile is seen the next time.
func (c *certificate) read() error {
	changed, err := c.times()
	if err != nil {
		return err
	}
	var texts [2][]byte
	for i, name := range []string{c.cert, c.key} {
		if texts[i], err = wholefile.Read(name, wholefile.Setting); err != nil {
			return err
		}
	}
	pair, err := tls.X509KeyPair(texts[0], texts[1])
	if err != nil {
		return fmt.Errorf("the certificate %s and the key %s cannot be used: %w", c.cert, c.key, err)
	}
	c.pair, c.changed = &pair, changed
	return nil
}

func (c *certificate) times() (t [2]time.Time, err error) {
	for i, name := range []string{c.cert, c.key} {
		info, err := os.Stat(name)
		if err != nil {
			return t, err
		}
		t[i] = info.ModTime()
	}
	return t, nil
}

// get returns the certificate for a handshake. While new files cannot be used the old certificate stays.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.checked) >= recheck {
		c.checked = now
		if t, err := c.times(); err != nil || t != c.changed {
			if err := c.read(); err != nil {
				c.log.Warn("the certificate was not read again", "reason", err)
			} else {
				c.log.Info("the certificate was read again", "file", c.cert)
			}
		}
	}
	return c.pair, nil
}
