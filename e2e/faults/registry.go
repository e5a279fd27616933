package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/consul"
	"github.com/tandem-rpc/tandem/registry/etcd"
	"github.com/tandem-rpc/tandem/registry/file"
	"github.com/tandem-rpc/tandem/registry/redis"
	"github.com/tandem-rpc/tandem/registry/zookeeper"
)

// The kinds of registries that the lab starts.
const (
	kindEtcd      = "etcd"
	kindRedis     = "redis"
	kindZooKeeper = "zookeeper"
	kindConsul    = "consul"
	kindFile      = "file" // a directory without a server process
)

func resolvers() map[string]registry.Resolver {
	return map[string]registry.Resolver{
		kindEtcd: etcd.Resolver(), kindRedis: redis.Resolver(), kindZooKeeper: zookeeper.Resolver(),
		kindConsul: consul.Resolver(), kindFile: file.Resolver(),
	}
}

func newRegistrar(target string) (registry.Registrar, error) {
	switch scheme, path, _ := strings.Cut(target, "://"); scheme {
	case kindConsul:
		return consul.New(target)
	case kindFile:
		return file.New(path), nil
	case kindEtcd:
		return etcd.New(target)
	case kindZooKeeper:
		return zookeeper.New(target)
	}
	return redis.New(target)
}

// registryServer is the server of a registry, on its own host.
type registryServer struct {
	target string
	argv   []string // empty for kindFile
	host   string   // namespace
	port   string   // address:port
	data   string   // directory
	log    string
	cmd    *exec.Cmd // nil while the server is down
}

// newRegistryServer returns a registry server for a host and its address. It does not start
// it.
func newRegistryServer(kind, host, addr, dir string) (*registryServer, error) {
	s := &registryServer{host: host, data: filepath.Join(dir, kind), log: filepath.Join(dir, kind+".log")}
	var err error
	switch kind {
	case kindFile:
		s.target = kindFile + "://" + s.data
		return s, nil
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
		s.argv, err = zooKeeperArgs(addr, dir, s.data)
	case kindConsul:
		s.port = addr + ":8500"
		s.argv, err = consulArgs(addr, dir, s.data)
	default:
		err = fmt.Errorf("registry %q: the lab has no server of this kind", kind)
	}
	s.target = kind + "://" + s.port + "/lab/echo?ttl=4s"
	return s, err
}

func zooKeeperArgs(addr, dir, data string) ([]string, error) {
	config := filepath.Join(dir, "zoo.cfg")
	text := fmt.Sprintf("dataDir=%s\nclientPort=2181\nclientPortAddress=%s\ntickTime=500\nmaxClientCnxns=0\nadmin.enableServer=false\n", data, addr)
	args := []string{"java", "-Xmx96m", "-cp", "/usr/share/java/zookeeper.jar", "org.apache.zookeeper.server.quorum.QuorumPeerMain", config}
	return args, os.WriteFile(config, []byte(text), 0o600)
}

// consulArgs writes the configuration of the Consul agent that registry/consul/install.sh
// builds, and returns the agent's command line.
func consulArgs(addr, dir, data string) ([]string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "consul.json")
	text, err := json.Marshal(map[string]any{
		"server": true, "bootstrap_expect": 1, "node_name": "lab", "bind_addr": addr, "client_addr": addr, "data_dir": data,
		"ports":                map[string]int{"https": -1, "grpc": -1, "dns": -1, "serf_wan": -1},
		"performance":          map[string]int{"raft_multiplier": 1},
		"connect":              map[string]bool{"enabled": false},
		"disable_update_check": true, "leave_on_terminate": false, "log_level": "warn",
	})
	if err != nil {
		return nil, err
	}
	binary := cmp.Or(os.Getenv("CONSUL"), filepath.Join(cache, "tandem", "consul-1.13.9", "consul")) // the path that install.sh uses
	return []string{binary, "agent", "-config-file", config}, os.WriteFile(config, text, 0o600)
}

// registryTarget returns the registry's target, or an empty string without a registry.
func (r *rig) registryTarget() string {
	if r.registry == nil {
		return ""
	}
	return r.registry.target
}

// start starts the server with its data from before, if any, and waits until it listens.
func (s *registryServer) start() error {
	if len(s.argv) == 0 {
		return s.showFolder()
	}
	if err := os.MkdirAll(s.data, 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // the lab's own directory
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()                                                  // the child has its own copy
	s.cmd = exec.Command("ip", append([]string{"netns", "exec", s.host}, s.argv...)...) //nolint:gosec // our words
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	probe := "exec 3<>/dev/tcp/" + strings.Replace(s.port, ":", "/", 1)
	for range 600 {
		if exec.Command("ip", "netns", "exec", s.host, "bash", "-c", probe).Run() == nil { //nolint:gosec // our words
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("%s does not listen on %s within 30 s: see its log %s", s.argv[0], s.port, s.log)
}

// hidden returns the path to which kill moves the directory of kindFile.
func (s *registryServer) hidden() string { return s.data + ".away" }

// showFolder moves the directory of kindFile back, or creates it.
func (s *registryServer) showFolder() error {
	if info, err := os.Stat(s.data); err == nil && info.Mode().IsRegular() {
		if err := os.Remove(s.data); err != nil {
			return err
		}
	}
	if err := os.Rename(s.hidden(), s.data); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.MkdirAll(s.data, 0o700)
}

// kill kills the server, if it runs. For kindFile it moves the directory away and puts a file
// in its place, because the tandem servers would create the directory again.
func (s *registryServer) kill() {
	if len(s.argv) == 0 {
		if err := os.Rename(s.data, s.hidden()); err == nil {
			_ = os.WriteFile(s.data, nil, 0o600) // if this fails, start fails: both directories exist
		}
		return
	}
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()         // the error says only that the process was killed
	s.cmd = nil
}

// wipe removes the data of a killed server.
func (s *registryServer) wipe() error {
	dir := s.data
	if len(s.argv) == 0 {
		dir = s.hidden()
	}
	return os.RemoveAll(dir)
}

// signal sends the server a signal.
func (s *registryServer) signal(sig syscall.Signal) error {
	if s.cmd == nil {
		return errors.New("the registry does not run")
	}
	return s.cmd.Process.Signal(sig)
}
