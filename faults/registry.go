package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/etcd"
	"github.com/tandem-rpc/tandem/registry/redis"
	"github.com/tandem-rpc/tandem/registry/zookeeper"
)

// The kinds of registries that the lab starts.
const (
	kindEtcd      = "etcd"
	kindRedis     = "redis"
	kindZooKeeper = "zookeeper"
)

func resolvers() map[string]registry.Resolver {
	return map[string]registry.Resolver{kindEtcd: etcd.Resolver(), kindRedis: redis.Resolver(), kindZooKeeper: zookeeper.Resolver()}
}

func newRegistrar(target string) (registry.Registrar, error) {
	switch scheme, _, _ := strings.Cut(target, "://"); scheme {
	case kindEtcd:
		return etcd.New(target)
	case kindZooKeeper:
		return zookeeper.New(target)
	}
	return redis.New(target)
}

// registryServer is a registry's server on a host of its own.
type registryServer struct {
	target string
	argv   []string
	host   string
	port   string // host:port
	data   string // folder
	log    string
	cmd    *exec.Cmd // nil while it is down
}

// newRegistryServer describes the server of a registry on host i.
func newRegistryServer(kind string, i int, dir string) (*registryServer, error) {
	addr := serverAddr(i)
	s := &registryServer{host: fmt.Sprintf("server%d", i), data: filepath.Join(dir, kind), log: filepath.Join(dir, kind+".log")}
	switch kind {
	case kindEtcd:
		s.port = addr + ":2379"
		s.argv = []string{
			"etcd", "--data-dir", s.data, "--name", "lab",
			"--listen-client-urls", "http://" + s.port, "--advertise-client-urls", "http://" + s.port,
			"--listen-peer-urls", "http://" + addr + ":2380", "--initial-advertise-peer-urls", "http://" + addr + ":2380",
			"--initial-cluster", "lab=http://" + addr + ":2380",
		}
	case kindRedis:
		s.port = addr + ":6379"
		s.argv = []string{"redis-server", "--bind", addr, "--port", "6379", "--protected-mode", "no", "--dir", s.data, "--save", "", "--appendonly", "yes"}
	case kindZooKeeper:
		s.port = addr + ":2181"
		config := filepath.Join(dir, "zoo.cfg")
		text := fmt.Sprintf("dataDir=%s\nclientPort=2181\nclientPortAddress=%s\ntickTime=500\nmaxClientCnxns=0\nadmin.enableServer=false\n", s.data, addr)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return nil, err
		}
		s.argv = []string{"java", "-Xmx96m", "-cp", "/usr/share/java/zookeeper.jar", "org.apache.zookeeper.server.quorum.QuorumPeerMain", config}
	default:
		return nil, fmt.Errorf("registry %q: want %s, %s or %s", kind, kindEtcd, kindRedis, kindZooKeeper)
	}
	s.target = kind + "://" + s.port + "/lab/echo?ttl=4s"
	return s, nil
}

// registryTarget is the target of the servers' list, empty without a registry.
func (r *rig) registryTarget() string {
	if r.registry == nil {
		return ""
	}
	return r.registry.target
}

// start starts the server with the data that it left, and waits until it listens.
func (s *registryServer) start() error {
	if err := os.MkdirAll(s.data, 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // the lab's own folder
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()                                                  // the child has its own
	s.cmd = exec.Command("ip", append([]string{"netns", "exec", s.host}, s.argv...)...) //nolint:gosec // our words
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	probe := "exec 3<>/dev/tcp/" + strings.Replace(s.port, ":", "/", 1)
	for range 200 {
		if exec.Command("ip", "netns", "exec", s.host, "bash", "-c", probe).Run() == nil { //nolint:gosec // our words
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("%s does not listen on %s within 10 s: %s says why", s.argv[0], s.port, s.log)
}

// kill ends the server at once, if it runs.
func (s *registryServer) kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()         // that it was killed is no news
	s.cmd = nil
}

// wipe removes the data of a killed server.
func (s *registryServer) wipe() error { return os.RemoveAll(s.data) }

// signal sends the server a signal.
func (s *registryServer) signal(sig syscall.Signal) error {
	if s.cmd == nil {
		return errors.New("the registry does not run")
	}
	return s.cmd.Process.Signal(sig)
}
