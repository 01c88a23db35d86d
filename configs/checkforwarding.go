package configs

import "time"

func (c *complaints) checkForwarding(s *Settings) {
	const shortest, longest, bounds = 10 * time.Millisecond, time.Hour, "10ms to 1h"
	c.inRange("GATEWAY_UPSTREAM_TIMEOUT", s.UpstreamTimeout,
		s.UpstreamTimeout >= shortest && s.UpstreamTimeout <= longest, bounds)
	c.inRange("GATEWAY_UPSTREAM_IDLE_TIMEOUT", s.UpstreamIdleTimeout,
		s.UpstreamIdleTimeout >= shortest && s.UpstreamIdleTimeout <= longest, bounds)
	if s.UpstreamMaxConns < 1 || s.UpstreamMaxConns > 100_000 {
		c.add("GATEWAY_UPSTREAM_MAX_CONNS", "%d is out of range; write 1 to 100000", s.UpstreamMaxConns)
	}
	c.oneOf("GATEWAY_PROXY_AUTH", s.ProxyAuth, ProxyAuthOptional, ProxyAuthRequired, ProxyAuthOff)
	c.oneOf("GATEWAY_PROXY_HOST", s.ProxyHost, ProxyHostPass, ProxyHostRewrite)
}

// Choices of GATEWAY_PROXY_AUTH and GATEWAY_PROXY_HOST.
const (
	ProxyAuthOptional = "optional"
	ProxyAuthRequired = "required"
	ProxyAuthOff      = "off"

	ProxyHostPass    = "pass"
	ProxyHostRewrite = "rewrite"
)
