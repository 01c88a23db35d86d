package middleware

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/project-locks/gateway/configs"
)

// clientAddress is the address that a request comes from: the peer's, or what
// trusted proxies say of whom they serve.
func clientAddress(c *fasthttp.RequestCtx, trusted configs.Networks) netip.Addr {
	return hops(c, trusted)[0]
}

// hops are the addresses that a request came by, the client first and the peer
// last; there is always one. Each but the first is a trusted proxy that named
// the one before it. What is left of the first untrusted address is hearsay.
func hops(c *fasthttp.RequestCtx, trusted configs.Networks) []netip.Addr {
	found := []netip.Addr{peer(c)}
	if !trusted.Contain(found[0]) {
		return found
	}
	named := strings.Split(joined(c, fiber.HeaderXForwardedFor), ",")
	for _, text := range slices.Backward(named) {
		address, ok := parseHop(strings.TrimSpace(text))
		if !ok {
			break
		}
		found = append(found, address)
		if !trusted.Contain(address) {
			break
		}
	}
	slices.Reverse(found)
	return found
}

func peer(c *fasthttp.RequestCtx) netip.Addr {
	if tcp, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.IPv4Unspecified()
}

// parseHop takes an address as proxies write it, with a port or without.
func parseHop(text string) (netip.Addr, bool) {
	address, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	if err != nil {
		withPort, err := netip.ParseAddrPort(text)
		return withPort.Addr().Unmap().WithZone(""), err == nil
	}
	return address.Unmap().WithZone(""), true
}

// joined is a header that may come in several lines as one list.
func joined(c *fasthttp.RequestCtx, name string) string {
	var lines []string
	for _, line := range c.Request.Header.PeekAll(name) {
		lines = append(lines, string(line))
	}
	return strings.Join(lines, ",")
}
