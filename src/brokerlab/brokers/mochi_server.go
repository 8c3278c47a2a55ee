// Mochi with its own configuration file, and what that file cannot say: certificates, and users in a file apart.
//
// The file's field for TLS is a Go value that no YAML or JSON can hold. Everything else is as in Mochi's
// own program, cmd/docker of its module.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/config"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/listeners"
)

func main() {
	file := flag.String("config", "", "Mochi's configuration, YAML or JSON")
	ledger := flag.String("ledger", "", "who gets in: a ledger of Mochi's, YAML or JSON")
	certificate := flag.String("certificate", "", "PEM; all MQTT listeners speak TLS")
	key := flag.String("key", "", "PEM, of the certificate")
	authority := flag.String("authority", "", "PEM; clients need a certificate that it signed")
	flag.Parse()

	options, err := config.FromBytes(read(*file))
	check(err)
	if options == nil {
		log.Fatal(*file, " is empty")
	}
	if *ledger != "" {
		options.Hooks = append(options.Hooks, mqtt.HookLoadConfig{
			Hook:   new(auth.Hook),
			Config: &auth.Options{Data: read(*ledger)},
		})
	}
	if *certificate != "" {
		encrypt(options.Listeners, tlsConfig(*certificate, *key, *authority))
	}
	serve(mqtt.New(options))
}

// encrypt leaves the listeners that tell counters as they are.
func encrypt(all []listeners.Config, with *tls.Config) {
	for i := range all {
		if all[i].Type == listeners.TypeTCP || all[i].Type == listeners.TypeWS {
			all[i].TLSConfig = with
		}
	}
}

func tlsConfig(certificate, key, authority string) *tls.Config {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	check(err)
	made := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if authority != "" {
		made.ClientCAs = x509.NewCertPool()
		if !made.ClientCAs.AppendCertsFromPEM(read(authority)) {
			check(errors.New(authority + " holds no certificate"))
		}
		made.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return made
}

func serve(server *mqtt.Server) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
	check(server.Serve())
	<-ended
	check(server.Close())
}

func read(path string) []byte {
	data, err := os.ReadFile(path)
	check(err)
	return data
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
