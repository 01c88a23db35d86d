package configs

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// check judges what was parsed and reads the files that it names.
func (c *complaints) check(s *Settings) {
	c.checkAddresses(s)
	c.checkTLS(s)
	c.checkRedisMode(s)
	c.inRange("GATEWAY_STORE_TIMEOUT", s.StoreTimeout,
		s.StoreTimeout >= 10*time.Millisecond && s.StoreTimeout <= 30*time.Second, "10ms to 30s")
	c.checkKeys(s)
	c.checkPolicy(s)
	c.checkForwarding(s)
	c.checkAuditLog(s)
	c.oneOf("GATEWAY_LOG_LEVEL", s.LogLevel, "debug", "info", "warn", "error")
	c.oneOf("GATEWAY_LOG_FORMAT", s.LogFormat, "json", "text")
	c.inRange("GATEWAY_SHUTDOWN_TIMEOUT", s.ShutdownTimeout,
		s.ShutdownTimeout > 0 && s.ShutdownTimeout <= 10*time.Minute, "more than 0 and at most 10m")
}

func (c *complaints) oneOf(name, value string, choices ...string) {
	if !slices.Contains(choices, value) {
		c.add(name, "%q is not a choice; write %s", value, strings.Join(choices, ", "))
	}
}

func (c *complaints) inRange(name string, value time.Duration, ok bool, want string) {
	if !ok {
		c.add(name, "%v is out of range; write %s", value, want)
	}
}

func (c *complaints) checkAddresses(s *Settings) {
	public, publicOK := c.address("GATEWAY_ADDR", s.Addr)
	admin, adminOK := c.address("GATEWAY_ADMIN_ADDR", s.AdminAddr)
	if publicOK && adminOK && admin.overlaps(public) {
		c.add("GATEWAY_ADMIN_ADDR", "%q is the address of GATEWAY_ADDR too; choose another port", s.AdminAddr)
	}
}

type address struct {
	host string
	port uint64
}

func (c *complaints) address(name, text string) (address, bool) {
	host, digits, err := net.SplitHostPort(text)
	port, portErr := strconv.ParseUint(digits, 10, 16)
	if err != nil || portErr != nil || strings.ContainsAny(host, "/ ") {
		c.add(name, "%q is not an address; write HOST:PORT, for example 127.0.0.1:8080", text)
		return address{}, false
	}
	return address{host, port}, true
}

// overlaps reports whether both addresses want the same port of the same host. Port 0 is any free one.
func (a address) overlaps(b address) bool {
	return a.port == b.port && a.port != 0 && (a.host == b.host || a.everyHost() || b.everyHost())
}

func (a address) everyHost() bool {
	ip, err := netip.ParseAddr(a.host)
	return a.host == "" || err == nil && ip.IsUnspecified()
}

func (c *complaints) checkRedisMode(s *Settings) {
	const name = "GATEWAY_REDIS_MODE"
	c.oneOf(name, s.RedisMode, "single", "sentinel", "cluster")
	if c.about["GATEWAY_STORE"] || s.RedisMode == "single" {
		return
	}
	if s.Store.Scheme != SchemeRedis && s.Store.Scheme != SchemeRediss {
		c.add(name, "%s needs a redis:// or rediss:// store; set GATEWAY_STORE to one, or unset this", s.RedisMode)
	}
	if s.RedisMode == "sentinel" && s.Store.option("master_name") == "" {
		c.add("GATEWAY_STORE", "names no master for the sentinels; add ?master_name=NAME")
	}
}

// checkAuditLog leaves the file alone: whoever writes the log creates it.
func (c *complaints) checkAuditLog(s *Settings) {
	const name = "GATEWAY_AUDIT_LOG"
	if lower := strings.ToLower(s.AuditLog); lower != s.AuditLog && (lower == "stdout" || lower == "stderr") {
		c.add(name, "%q would be a file; write %s", s.AuditLog, lower)
	}
	if info, err := os.Stat(s.AuditLog); err == nil && info.IsDir() {
		c.add(name, "%q is a directory; write the path of a file in it", s.AuditLog)
	}
}

// checkPolicy turns every fault of the policy file into a complaint of its own.
func (c *complaints) checkPolicy(s *Settings) {
	if s.PolicyFile == "" {
		return
	}
	policy, err := ReadPolicy(s.PolicyFile)
	s.Policy = policy
	var faults interface{ Unwrap() []error }
	switch {
	case errors.As(err, &faults):
		for _, fault := range faults.Unwrap() {
			c.list = append(c.list, fmt.Errorf("GATEWAY_POLICY_FILE: %w", fault))
		}
	case err != nil:
		c.add("GATEWAY_POLICY_FILE", "%w; write the path of a readable file", err)
	}
}
