// Package etcd runs the conformance suite with the etcd server of the client's
// version, embedded in the test. The server requires some sixty modules.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/etcd"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// server is an embedded etcd that can be stopped and started again.
type server struct {
	config *embed.Config
	etcd   *embed.Etcd
}

func start(t *testing.T) *server {
	t.Helper()
	s := &server{config: embed.NewConfig()}
	s.config.Dir = t.TempDir()
	s.config.LogLevel = "fatal"
	s.config.UnsafeNoFsync = true // the tests stop the server only, not the machine
	client, peer := []url.URL{address(t)}, []url.URL{address(t)}
	s.config.ListenClientUrls, s.config.AdvertiseClientUrls = client, client
	s.config.ListenPeerUrls, s.config.AdvertisePeerUrls = peer, peer
	s.config.InitialCluster = s.config.InitialClusterFromName(s.config.Name)
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.etcd.Close() })
	return s
}

func address(t *testing.T) url.URL { return url.URL{Scheme: "http", Host: registrytest.FreeAddress(t)} }

// run starts the server with its existing data, and waits until it is ready.
func (s *server) run() (err error) {
	if s.etcd, err = embed.StartEtcd(s.config); err != nil {
		return err
	}
	select {
	case <-s.etcd.Server.ReadyNotify():
		return nil
	case <-time.After(20 * time.Second):
		s.etcd.Close()
		return errors.New("etcd is not ready after 20 s")
	}
}

func (s *server) address() string { return s.config.ListenClientUrls[0].Host }

// lose deletes a key, or revokes its lease.
func (s *server) lose(key string, revoke bool) error {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.address()}, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	resp, err := c.Get(ctx, key)
	switch {
	case err != nil:
		return err
	case len(resp.Kvs) == 0:
		return errors.New("there is no key " + key)
	case revoke:
		_, err = c.Revoke(ctx, clientv3.LeaseID(resp.Kvs[0].Lease))
	default:
		_, err = c.Delete(ctx, key)
	}
	return err
}

func TestConformance(t *testing.T) {
	s := start(t)
	lists, losses := 0, 0
	registrytest.Run(t, func(t testing.TB) registrytest.Harness {
		lists++
		dir := fmt.Sprintf("/conformance/%d", lists)
		target, err := registry.ParseTarget("etcd://" + s.address() + dir + "?ttl=2s")
		if err != nil {
			t.Fatal(err)
		}
		r, err := etcd.New(target.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		return registrytest.Harness{
			Registrar: r, Resolver: etcd.Resolver(), Target: target, Within: 16 * time.Second,
			Lose: func(id string) error {
				losses++
				return s.lose(dir+"/"+url.PathEscape(id), losses%2 == 0)
			},
			Outage: func() (func() error, error) {
				s.etcd.Close()
				return s.run, nil
			},
		}
	})
}
