package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const collection = "/apis/bench.konverge.dev/v1/namespaces/bench/items"

// load sends status applies of the benchmark's objects over some connections for some seconds, beside one watch of them, and prints the
// numbers of applies and of events as JSON. The requests are written as bytes, so that this program needs less CPU than the server that it
// measures.
func load(arguments []string) {
	folder, address := arguments[0], "127.0.0.1:"+arguments[1]
	seconds, _ := strconv.Atoi(arguments[2])
	connections, _ := strconv.Atoi(arguments[3])
	authority, err := os.ReadFile(filepath.Join(folder, "ca.crt"))
	token, err2 := os.ReadFile(filepath.Join(folder, "token"))
	roots := x509.NewCertPool()
	if err != nil || err2 != nil || !roots.AppendCertsFromPEM(authority) {
		log.Fatal("no ca.crt and token in ", folder)
	}
	head := fmt.Sprintf(" HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n", address, strings.TrimSpace(string(token)))
	dial := func() *tls.Conn {
		connection, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})
		if err != nil {
			log.Fatal(err)
		}
		return connection
	}
	var sent, refused, events atomic.Int64
	var running sync.WaitGroup
	watching := dial()
	if _, err := fmt.Fprintf(watching, "GET %s?watch=true%s\r\n", collection, head); err != nil {
		log.Fatal(err)
	}
	watch, err := http.ReadResponse(bufio.NewReaderSize(watching, 64<<10), nil)
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		buffer := make([]byte, 64<<10)
		for {
			size, err := watch.Body.Read(buffer)
			events.Add(int64(bytes.Count(buffer[:size], []byte{'\n'})))
			if err != nil {
				return
			}
		}
	}()
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	for worker := range connections {
		running.Go(func() {
			connection := dial()
			defer func() { _ = connection.Close() }()
			reader := bufio.NewReaderSize(connection, 16<<10)
			for turn := 0; time.Now().Before(end); turn++ {
				body := fmt.Sprintf(`{"apiVersion":"bench.konverge.dev/v1","kind":"Item","metadata":{"name":"item-%06d"},"status":{"observedGeneration":%d,`+
					`"conditions":[{"type":"Stalled","status":"False","reason":"InStep","message":"revision %d is in place","observedGeneration":%d,`+
					`"lastTransitionTime":"2030-01-01T00:00:00Z"}]}}`, worker, turn, turn, turn)
				_, err := fmt.Fprintf(connection, "PATCH %s/item-%06d/status?fieldManager=peer&force=true%sContent-Type: application/apply-patch+yaml\r\n"+
					"Content-Length: %d\r\n\r\n%s", collection, worker, head, len(body), body)
				if err != nil {
					log.Fatal(err)
				}
				answer, err := http.ReadResponse(reader, nil)
				if err != nil {
					log.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				if answer.StatusCode == http.StatusOK {
					sent.Add(1)
				} else {
					refused.Add(1)
				}
			}
		})
	}
	running.Wait()
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	cpu := time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
	fmt.Printf("{\"applies\": %d, \"refused\": %d, \"events\": %d, \"cpu\": %.3f}\n", sent.Load(), refused.Load(), events.Load(), cpu)
}
