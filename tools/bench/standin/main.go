// A stand-in of a kube-apiserver for the benchmark: `standin FOLDER` writes ca.crt and token into the folder, prints {"port": N} and serves
// until its standard input closes. `standin load` measures the rate of a server that runs (load.go).
//
// Guarantees, compared with the real server by tests/e2e/test_bench_standin.py: the same status codes, content types and shapes of bodies
// for list, watch, get, create, update, merge patch, server-side apply and delete; one resourceVersion; 409 for an old version, 410 for a
// watch that is too old; field ownership; objects as their metadata only.
//
// Caveats: no validation, pruning, defaults, admission, authorization, Priority and Fairness, JSON patch, generateName, stringData, protobuf,
// compression or disk. Selectors are equalities.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == "load" {
		load(os.Args[2:])
		return
	}
	if len(os.Args) != 2 {
		log.Fatal("usage: standin FOLDER | standin load FOLDER PORT SECONDS CONNECTIONS")
	}
	if err := serve(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func serve(folder string) error {
	certificate, authority, err := certificates()
	if err != nil {
		return err
	}
	var raw [32]byte
	_, _ = rand.Read(raw[:])
	token := hex.EncodeToString(raw[:])
	for name, content := range map[string][]byte{"ca.crt": authority, "token": []byte(token)} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			return err
		}
	}
	debug.SetGCPercent(400) // memory for CPU, which the contestants share
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	handler := newServer(token)
	served := &http.Server{
		Handler:   handler,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: 1000},
		ErrorLog:  log.New(io.Discard, "", 0), // a client that ends breaks its connections
	}
	fmt.Printf("{\"port\": %d}\n", listener.Addr().(*net.TCPAddr).Port)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return served.ServeTLS(listener, "", "")
}

func newServer(token string) *server {
	made := &server{store: newStore(), token: token, counts: counts{requests: map[counted]int{}, watches: map[string]int{}, clients: map[string]*traffic{}}}
	for _, name := range []string{"default", "kube-system"} {
		request := &write{store: made.store, kind: made.store.find("", "v1", "namespaces"), how: "Update", manager: "standin",
			body: map[string]any{"metadata": map[string]any{"name": name}}}
		if _, err := request.create(); err != nil {
			panic(err)
		}
	}
	return made
}

// certificates are those of the server, and its authority in PEM.
func certificates() (tls.Certificate, []byte, error) {
	none := tls.Certificate{}
	template := func(serial int64, name string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), BasicConstraintsValid: true,
		}
	}
	authority, server := template(1, "standin-ca"), template(2, "standin")
	authority.IsCA, authority.KeyUsage = true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	server.IPAddresses, server.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}
	server.KeyUsage, server.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return none, nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return none, nil, err
	}
	root, err := x509.CreateCertificate(rand.Reader, authority, authority, &authorityKey.PublicKey, authorityKey)
	if err != nil {
		return none, nil, err
	}
	authority, err = x509.ParseCertificate(root)
	if err != nil {
		return none, nil, err
	}
	leaf, err := x509.CreateCertificate(rand.Reader, server, authority, &key.PublicKey, authorityKey)
	if err != nil {
		return none, nil, err
	}
	pemRoot := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root})
	return tls.Certificate{Certificate: [][]byte{leaf}, PrivateKey: key}, pemRoot, nil
}
