package kubernetes

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
)

// serviceAccount is where a pod has the credentials of its service account.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// maxFile is the largest size of a file with credentials or certificates, in bytes.
const maxFile = 1 << 20

// access is how the API server is reached.
type access struct {
	dialing
	token string // "" for none
}

// dialing is what a connection depends on. It is comparable.
type dialing struct {
	url              string // without a slash at its end
	ca               string // PEM; "" for the system's roots
	serverName       string // of the certificate; "" for that of the URL
	certificate, key string // PEM; "" for none
}

// access reads how the API server is reached.
func (o *options) access() (access, error) {
	var a access
	var err error
	if o.kubeconfig != "" {
		a, err = readKubeconfig(o.kubeconfig)
		if err != nil {
			err = fmt.Errorf("kubeconfig %s: %w", o.kubeconfig, err)
		}
	} else {
		a, err = inCluster(o.serviceAccount)
	}
	if err == nil {
		_, err = a.tls()
	}
	if err != nil {
		return access{}, fmt.Errorf("%s: %w", name, err)
	}
	return a, nil
}

// inCluster returns the access of a pod.
func inCluster(dir string) (a access, err error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return a, errors.New("not in a pod: KUBERNETES_SERVICE_HOST or KUBERNETES_SERVICE_PORT is not set: outside of a cluster use WithKubeconfig")
	}
	a.url = "https://" + net.JoinHostPort(host, port)
	if a.ca, err = readFile(filepath.Join(dir, "ca.crt")); err != nil {
		return a, fmt.Errorf("the service account: %w", err)
	}
	if a.token, err = readToken(filepath.Join(dir, "token")); err != nil {
		return a, fmt.Errorf("the service account: %w", err)
	}
	return a, nil
}

// readToken returns the token in a file.
func readToken(path string) (string, error) {
	text, err := readFile(path)
	if err != nil {
		return "", err
	}
	token := string(bytes.TrimSpace([]byte(text)))
	if token == "" {
		return "", fmt.Errorf("%s: the token is empty", path)
	}
	return token, nil
}

// readFile returns the content of a file with at most maxFile bytes.
func readFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return string(data), err
}

// tls returns the configuration of connections.
func (d *dialing) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: d.serverName}
	if d.ca != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(d.ca)) {
			return nil, errors.New("the certificate authority is no PEM with certificates")
		}
	}
	if cmp.Or(d.certificate, d.key) != "" {
		pair, err := tls.X509KeyPair([]byte(d.certificate), []byte(d.key))
		if err != nil {
			return nil, fmt.Errorf("the client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
